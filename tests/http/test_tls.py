# SPDX-License-Identifier: Apache-2.0
"""TLS: certificates, their replacement, and all that HTTP does over it."""
import http.client
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time

import pytest
import stow
from stow import Client, bulk_body, log_documents, wait_until

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make certificates")


def certificate(folder, name, key="ec"):
    """(certificate, key) files, signed by itself for 127.0.0.1."""
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"] if key == "ec" else ["-newkey", "rsa:2048"]
    files = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", *kind, "-nodes", "-days", "2", "-subj", f"/CN={name}",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", files[1], "-out", files[0]],
                   check=True, capture_output=True)
    return files


def trusting(path):
    return ssl.create_default_context(cafile=str(path))


class Https(Client):
    def __init__(self, port, context, timeout=30):
        super().__init__(port, timeout)
        self.context = context

    def request(self, *a, **kw):
        if self.connection is None:
            self.connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=self.timeout,
                                                          context=self.context)
        return super().request(*a, **kw)


def common_name(port, context):
    with socket.create_connection(("127.0.0.1", port), 10) as plain, \
            context.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
        return dict(field[0] for field in secure.getpeercert()["subject"])["commonName"]


def up(daemon, context):
    def answers():
        try:
            return Https(daemon.port, context, 5).get("/").status == 200
        except (OSError, http.client.HTTPException):
            return False
    daemon.spawn()
    assert wait_until(answers, 20), daemon.log()
    return daemon


@pytest.fixture
def secure(make_daemon, tmp_path):
    """(daemon, certificate file, key file, context)"""
    pem, key = certificate(tmp_path, "one")
    d = make_daemon(f"http.tls.certificate={pem}", f"http.tls.key={key}", "http.max_in_flight=1mb", start=False)
    context = trusting(pem)
    return up(d, context), pem, key, context


def test_documents_over_tls(secure, index):
    d, _, _, context = secure
    c = Https(d.port, context)
    docs = [(str(n), doc) for n, doc in enumerate(log_documents(3000))]
    c.load(index, docs)
    assert c.sources(index, [k for k, _ in docs]) == dict(docs)  # bodies over max_in_flight, streamed answers
    assert "https://127.0.0.1" in d.log()
    for body in (b'{"v":1}', b'{"v":"%s"}' % (b"x" * 3_000_000)):
        assert c.put_doc(index, "big", body).status in (200, 201)
        assert c.source(index, "big") == body
    assert d.stop() == 0


def test_many_clients_at_once(secure, index):
    d, _, _, context = secure
    docs = log_documents(400)

    def load(n):
        Https(d.port, context).load(index, [(f"{n}-{k}", doc) for k, doc in enumerate(docs)], 50)
    stow.in_threads([lambda n=n: load(n) for n in range(8)])
    assert Https(d.port, context).get(f"/{index}/_count").json["count"] == 8 * 400


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions(secure, version):
    d, pem, _, _ = secure
    context = trusting(pem)
    context.minimum_version = context.maximum_version = version
    assert Https(d.port, context).get("/").status == 200


def test_old_versions_are_refused(secure):
    d, pem, _, _ = secure
    context = trusting(pem)
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    try:
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    except ValueError:
        pytest.skip("this Python has no TLS 1.1")
    with pytest.raises((ssl.SSLError, OSError)):
        Https(d.port, context).get("/")


def test_plain_http_and_rubbish_do_no_harm(secure):
    d, _, _, context = secure
    for data in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"A" * 1000, b"", b"\x16\x03"):
        with socket.create_connection(("127.0.0.1", d.port), 5) as s:
            s.sendall(data)
            s.settimeout(0.3)
            try:
                answer = s.recv(100)
                assert not answer.startswith(b"HTTP/1.1 200")
            except OSError:
                pass
    assert Https(d.port, context).get("/").status == 200


def test_handshake_that_never_ends_is_cut(make_daemon, tmp_path):
    pem, key = certificate(tmp_path, "one")
    d = make_daemon(f"http.tls.certificate={pem}", f"http.tls.key={key}", "http.idle_timeout=1s",
                    "http.header_timeout=1s", start=False)
    up(d, trusting(pem))
    with socket.create_connection(("127.0.0.1", d.port), 10) as s:
        began = time.monotonic()
        s.settimeout(10 * stow.SLOW)
        for byte in b"\x16\x03\x01\x02\x00\x01\x00\x01":
            try:
                s.send(bytes([byte]))
            except OSError:
                break
            time.sleep(0.5)
        try:
            while s.recv(100):  # an alert, perhaps
                pass
        except ConnectionError:
            pass
        assert time.monotonic() - began < 8 * stow.SLOW


def test_certificate_is_replaced_without_restart(secure, tmp_path, index):
    d, pem, key, context = secure
    assert common_name(d.port, context) == "one"
    kept = Https(d.port, context)
    assert kept.get("/").status == 200
    other_pem, other_key = certificate(tmp_path, "two", "rsa")
    stop = threading.Event()
    failures = []
    both = ssl.create_default_context(cafile=str(pem))
    both.load_verify_locations(str(other_pem))

    def load():
        c = Https(d.port, both)
        while not stop.is_set():
            try:
                c.close()
                assert c.bulk(bulk_body(index, [("1", b"{}")])).status == 200
            except Exception as e:  # told by the test's thread
                failures.append(e)
    thread = threading.Thread(target=load)
    thread.start()
    try:
        shutil.copy(other_pem, pem)
        d.process.send_signal(signal.SIGHUP)  # key and certificate do not belong together
        assert wait_until(lambda: "is not the key of the certificate" in d.log(), 5), d.log()
        assert common_name(d.port, context) == "one"
        shutil.copy(other_key, key)
        d.process.send_signal(signal.SIGHUP)
        assert wait_until(lambda: "the certificate is a new one" in d.log(), 5), d.log()
        assert common_name(d.port, trusting(other_pem)) == "two"
        d.process.send_signal(signal.SIGHUP)
        assert wait_until(lambda: "the certificate is the same" in d.log(), 5)
        assert kept.get("/").status == 200  # the old connection goes on
    finally:
        stop.set()
        thread.join()
    assert not failures, failures[:3]
    assert d.stop() == 0


def test_wrong_files_do_not_start(make_daemon, tmp_path):
    pem, key = certificate(tmp_path, "one")
    _, other = certificate(tmp_path, "two")
    rubbish = tmp_path / "rubbish"
    rubbish.write_text("no PEM")
    for cert, secret, text in ((pem, other, "is not the key"), (rubbish, key, "http.tls.certificate"),
                               (pem, rubbish, "http.tls.key"), (tmp_path / "none", key, "cannot be read")):
        d = make_daemon(f"http.tls.certificate={cert}", f"http.tls.key={secret}", start=False).spawn()
        assert d.wait() == 78 and text in d.log() and len(d.log().splitlines()) == 1, d.log()


def test_password_over_tls(make_daemon, tmp_path):
    pem, key = certificate(tmp_path, "one")
    d = make_daemon(f"http.tls.certificate={pem}", f"http.tls.key={key}", "security.users.admin=correct horse",
                    "network.host=0.0.0.0", start=False).spawn()
    c = Https(d.port, trusting(pem))
    header = {"Authorization": "Basic YWRtaW46Y29ycmVjdCBob3JzZQ=="}

    def answers():
        try:
            return c.get("/", headers=header).status == 200
        except OSError:
            return False
    assert wait_until(answers), d.log()
    assert c.put_doc("i", "1", b'{"v":"%s"}' % (b"y" * 200_000)).status == 401
    assert c.get("/", headers=header).status == 200
    assert "unencrypted" not in d.log()
