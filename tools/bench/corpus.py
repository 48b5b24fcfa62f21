#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Corpora as plain files: unpacked from ../shared/data when they lie there, else small ones of our
own making, the same at every run. Figures of the two kinds cannot be compared.

    corpus.py NAME FILE    write the made corpus NAME (apache or nginx)
"""
import os
import random
import subprocess
import sys

MADE_BYTES = 16_000_000
AGENTS = ["Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
          f"Chrome/{v}.0.{b}.{p} Safari/537.36" for v, b, p in
          ((48, 2564, 116), (49, 2623, 112), (50, 2661, 94), (50, 2661, 102), (51, 2704, 63))]
AGENTS += [f"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_{n}) AppleWebKit/601.{n}.17 (KHTML, like "
           f"Gecko) Version/9.{n}.1 Safari/601.{n}.17" for n in range(6, 12)]
AGENTS += [f"Mozilla/5.0 (X11; Linux x86_64; rv:{n}.0) Gecko/20100101 Firefox/{n}.0"
           for n in range(27, 47)]
AGENTS += ["Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
           "curl/7.88.1", "Wget/1.21.3", "-"]
WORDS = ("guide reference current index search query filter mapping analysis cluster node shard "
         "recovery snapshot template alias bulk update delete image style script font icon feed "
         "archive download release note blog article author tag category about contact").split()
MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()


class Visits:
    """Requests of visitors, a few pages each, some of them at a time."""

    def __init__(self, rng):
        self.rng = rng
        self.paths = [self._path() for _ in range(4000)]
        self.clients = [".".join(str(rng.randrange(1, 255)) for _ in range(4))
                        for _ in range(9000)]
        self.sessions = [self._session() for _ in range(40)]
        self.seconds = 0.0

    def _path(self):
        rng = self.rng
        path = "/" + "/".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 5)))
        end = rng.random()
        if end < 0.3:
            return path + f"-{rng.randrange(500)}.html"
        if end < 0.6:
            return path + rng.choice([".png", ".css", ".js", ".svg", ".ico"])
        return path + (f"?page={rng.randrange(90)}" if end < 0.75 else "/")

    def _skewed(self, values):
        return values[int(len(values) * self.rng.random() ** 3)]

    def _session(self):
        return {"ip": self._skewed(self.clients), "agent": self._skewed(AGENTS),
                "from": "https://www.example.com" + self._skewed(self.paths),
                "left": self.rng.randrange(1, 12)}

    def __iter__(self):
        rng = self.rng
        while True:
            slot = rng.randrange(len(self.sessions))
            if self.sessions[slot]["left"] == 0:
                self.sessions[slot] = self._session()
            session = self.sessions[slot]
            session["left"] -= 1
            self.seconds += rng.expovariate(4)
            path = self._skewed(self.paths)
            status = rng.choices([200, 304, 301, 404, 206], [78, 12, 4, 5, 1])[0]
            size = 0 if status == 304 else int(rng.lognormvariate(8.5, 1.6))
            yield dict(session, path=path, status=status, size=size, at=self.seconds)
            session["from"] = "https://www.example.com" + path


def stamp(at):
    """Time of a visit: (as in access logs, as ISO 8601)."""
    t, ms = int(at), int(at * 1000) % 1000
    day, hour, minute, second = 1 + t // 86400 % 28, t // 3600 % 24, t // 60 % 60, t % 60
    month = t // (86400 * 28) % 12
    return (f"{day:02d}/{MONTHS[month]}/2026:{hour:02d}:{minute:02d}:{second:02d} +0000",
            f"2026-{month + 1:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}.{ms:03d}Z")


def apache(visit):
    log, iso = stamp(visit["at"])
    agent, referrer = f'\\"{visit["agent"]}\\"', f'\\"{visit["from"]}\\"'
    return (f'{{"request":"{visit["path"]}","agent":"{agent}","auth":"-","ident":"-","verb":"GET",'
            f'"message":"{visit["ip"]} - - [{log}] \\"GET {visit["path"]} HTTP/1.1\\" '
            f'{visit["status"]} {visit["size"]} {referrer} {agent}","referrer":"{referrer}",'
            f'"@timestamp":"{iso}","response":"{visit["status"]}","bytes":"{visit["size"]}",'
            f'"clientip":"{visit["ip"]}","@version":"1","host":"web-03.prod.example.com",'
            f'"httpversion":"1.1","timestamp":"{log}"}}')


def nginx(visit):
    log, _ = stamp(visit["at"])
    return (f'{{"time":"{log}","remote_ip":"{visit["ip"]}","remote_user":"-",'
            f'"request":"GET {visit["path"]} HTTP/1.1","response":{visit["status"]},'
            f'"bytes":{visit["size"]},"referrer":"{visit["from"]}","agent":"{visit["agent"]}"}}')


MADE = {"apache": apache, "nginx": nginx}


def make(name, path):
    written = 0
    with open(path + ".tmp", "w") as f:
        for visit in Visits(random.Random(7)):
            line = MADE[name](visit) + "\n"
            f.write(line)
            written += len(line)
            if written >= MADE_BYTES:
                break
    os.rename(path + ".tmp", path)


def join(path, parts, each_bytes=24_000_000):
    """The first documents of some corpora, one corpus after the other."""
    with open(path, "wb") as out:
        for part in parts:
            with open(part, "rb") as f:
                data = f.read(each_bytes)
            out.write(data[:data.rindex(b"\n") + 1])


def provide(name, shared, folder):
    """Path of a corpus as a plain file in folder, and where it is from; None: not to be had."""
    packed = os.path.join(shared, name + ".ndjson.zst")
    if os.path.exists(packed):
        path = os.path.join(folder, name + ".ndjson")
        if not os.path.exists(path):
            subprocess.run(["zstd", "-q", "-f", "-d", "--long=27", packed, "-o", path + ".tmp"],
                           check=True)
            os.rename(path + ".tmp", path)
        return path, packed
    if name not in MADE:
        return None, "not there, and no made one of that name"
    path = os.path.join(folder, name + "-made.ndjson")
    if not os.path.exists(path):
        make(name, path)
    return path, "made"


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in MADE:
        sys.exit(__doc__)
    make(sys.argv[1], sys.argv[2])
