# SPDX-License-Identifier: Apache-2.0
"""How each client is had: from its registry, at the versions that the lock files beside this name,
into build/clients. What cannot be had is a Missing with the reason; the tests skip."""
import concurrent.futures
import glob
import hashlib
import os
import re
import shutil
import subprocess
import threading

import stow

HERE = os.path.dirname(os.path.abspath(__file__))
HOME = os.path.join(stow.TOP, "build", "clients")
LIMIT_S = 400  # of one command
VENV, APT = threading.Lock(), threading.Lock()


class Missing(Exception):
    pass


def run(command, limit=LIMIT_S, **kw):
    """Output of a command that must succeed."""
    if not shutil.which(command[0]):
        raise Missing(f"{command[0]} is not installed")
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=limit, **kw)
    except subprocess.TimeoutExpired:
        raise Missing(f"{' '.join(command[:3])} took over {limit} s: is the registry reachable?") from None
    if done.returncode != 0:
        raise Missing(f"{' '.join(command[:3])}: {' '.join(done.stdout.split())[-300:]}")
    return done.stdout


# ---------------------------------------------------------------- one function per ecosystem

def npm(name, home):
    """A folder with node_modules."""
    for file in ("package.json", "package-lock.json"):
        shutil.copy(os.path.join(HERE, name, file), home)
    run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=1",
         "--fetch-retry-mintimeout=1000"], cwd=home)


def pip(name, home):
    """A folder for PYTHONPATH. All packages are listed, so that nothing else is resolved."""
    venv = os.path.join(HOME, "venv")
    with VENV:
        if not os.path.exists(os.path.join(venv, "bin", "pip")):
            shutil.rmtree(venv, ignore_errors=True)
            run([os.environ.get("PYTHON", "python3"), "-m", "venv", venv])
    run([os.path.join(venv, "bin", "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check",
         "--retries", "1", "--no-deps", "--target", os.path.join(home, "packages"),
         "-r", os.path.join(HERE, "py", f"{name}.txt")])


def go(name, home):
    """A program."""
    run(["go", "build", "-mod=readonly", "-o", os.path.join(home, name), f"./{name}"], cwd=os.path.join(HERE, "go"))


def maven(name, home):
    """A folder of jars."""
    run(["mvn", "-q", "-B", "-f", os.path.join(HERE, name, "pom.xml"), "dependency:copy-dependencies",
         f"-DoutputDirectory={home}/jars"])


def debian(*packages):
    """A folder into which packages are unpacked, with those they need and the system lacks. Not
    installed: two of them exclude each other, and none should become this machine's."""
    def install(_name, home):
        debs = os.path.join(home, "debs")
        os.makedirs(debs)
        plan = ["apt-get", "install", "-s", "--no-install-recommends", "--reinstall", *packages]

        def download():
            run(["apt-get", "download", *re.findall(r"^Inst (\S+)", run(plan), re.M)], cwd=debs)

        try:
            download()
        except Missing:  # package lists may be absent or old
            if os.geteuid() != 0:
                raise
            with APT:
                run(["apt-get", "update", "-q"])
            download()
        for deb in glob.glob(os.path.join(debs, "*.deb")):
            run(["dpkg", "-x", deb, home])
        shutil.rmtree(debs)
    return install


RECIPES = {
    "rsyslog": debian("rsyslog", "rsyslog-elasticsearch"),
    "syslog-ng": debian("syslog-ng-core", "syslog-ng-mod-http", "syslog-ng-scl"),
    "python3-elasticsearch": debian("python3-elasticsearch"),
    "elastic7": pip, "elastic8": pip, "elastic9": pip, "opensearchpy": pip, "curator5": pip, "curator8": pip,
    "js": npm, "elasticdump": npm,
    "java": maven,
    "opensearch": go,
}


# ---------------------------------------------------------------- installing

def inputs(name):
    """Hash of all that decides what is installed: other pins, another install."""
    h = hashlib.sha256(name.encode())
    files = [__file__, os.path.join(HERE, "py", f"{name}.txt")]
    files += [os.path.join(HERE, name, file) for file in ("package.json", "package-lock.json", "pom.xml")]
    if RECIPES[name] is go:
        files += [os.path.join(HERE, "go", file) for file in ("go.mod", "go.sum", f"{name}/main.go")]
    for file in filter(os.path.isfile, files):
        with open(file, "rb") as f:
            h.update(f.read())
    return h.hexdigest()


def install(name):
    """The client's folder; what a run before has installed is taken."""
    home = os.path.join(HOME, name)
    stamp, wanted = os.path.join(home, "installed"), inputs(name)
    try:
        with open(stamp, encoding="ascii") as f:
            if f.read() == wanted:
                return home
    except OSError:
        pass
    shutil.rmtree(home, ignore_errors=True)
    os.makedirs(home)
    RECIPES[name](name, home)
    with open(stamp, "w", encoding="ascii") as f:
        f.write(wanted)
    return home


class Installs:
    """Two at a time, in the order in which the tests want them, while tests already run; what is
    compiled first, as it takes longest."""

    def __init__(self, names):
        names = sorted(names, key=lambda name: RECIPES[name] is not go)
        self.pool = concurrent.futures.ThreadPoolExecutor(2)
        self.jobs = {name: self.pool.submit(install, name) for name in names}

    def home(self, name):
        return self.jobs[name].result()

    def close(self):
        self.pool.shutdown(cancel_futures=True)
