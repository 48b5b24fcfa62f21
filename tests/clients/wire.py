# SPDX-License-Identifier: Apache-2.0
"""A wire between a client and the daemon. It passes bytes on as they are and, at chosen bulk requests,
takes the daemon away: the client sees what it would see at the other end of a real crash."""
import re
import socket
import threading

BULK = re.compile(rb"(?:POST|PUT) [^ \r\n]*_bulk[^ \r\n]* HTTP/1\.1\r\n")
PLAN = ((2, "stop"), (4, "kill"), (5, "answer"))


class Wire:
    """plan: number of a bulk request, counted over all connections, and what happens at it or soon after:
         "stop"    SIGTERM when its first bytes have been passed on
         "kill"    SIGKILL then: the request is lost, or half of it
         "answer"  SIGKILL when the daemon has answered; the client never gets the answer
    After each the daemon is started again. Until then connections are refused."""

    def __init__(self, daemon, plan):
        self.daemon = daemon
        self.todo = list(plan)
        self.armed = None  # the connection at which todo[0] is about to happen
        self.bulks = 0
        self.error = None
        self.lock = threading.Lock()
        self.open = set()
        self.listener = None
        self.port = 0
        self.listen()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def listen(self):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("127.0.0.1", self.port))
        s.listen(64)
        self.listener, self.port = s, s.getsockname()[1]
        threading.Thread(target=self.accept, args=(s,), daemon=True).start()

    def accept(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.daemon.port))
            except OSError:
                client.close()
                continue
            for s in (client, server):
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = Pair(client, server)
            self.open.add(pair)
            for f in (self.forth, self.back):
                threading.Thread(target=f, args=(pair,), daemon=True).start()

    def event(self, pair):
        """What is to happen at this bulk request: nothing while another one waits for its own."""
        with self.lock:
            self.bulks += 1
            if self.armed or not self.todo or self.bulks < self.todo[0][0] or pair not in self.open:
                return None
            self.armed = pair
            return self.todo[0]

    def forth(self, pair):
        while data := pair.read(pair.client):
            event = self.event(pair) if BULK.match(data) else None
            if event and event[1] == "answer":
                pair.silent = event
            pair.write(pair.server, data)
            if event and event[1] != "answer":
                self.restart(event)
        self.end(pair)

    def back(self, pair):
        while data := pair.read(pair.server):
            if pair.silent:
                self.restart(pair.silent)
                break
            pair.write(pair.client, data)
        self.end(pair)

    def end(self, pair):
        self.open.discard(pair)
        if self.armed is pair:
            self.armed = None
        pair.close()

    def restart(self, event):
        with self.lock:
            if not self.todo or self.todo[0] is not event:
                return  # another connection was faster
            self.unlisten()
            try:
                # After SIGTERM, answers to what is under way still go out; then connections end.
                self.daemon.restart() if event[1] == "stop" else self.daemon.crash()
            except Exception as e:  # handed to the test
                self.error = e
            for pair in list(self.open):
                self.end(pair)
            self.armed = None
            del self.todo[0]
            self.listen()

    def unlisten(self):
        # Without shutdown a thread in accept() keeps the port.
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()

    def close(self):
        self.unlisten()
        for pair in list(self.open):
            self.end(pair)

    def check(self):
        """The load was interrupted as planned."""
        if self.error:
            raise self.error
        assert not self.todo, (self.todo, self.bulks)


class Pair:
    """Both ends of one connection. Ends may be closed by any thread at any time."""

    def __init__(self, client, server):
        self.client, self.server = client, server
        self.silent = None

    @staticmethod
    def read(end):
        try:
            return end.recv(65536)
        except OSError:
            return b""

    @staticmethod
    def write(end, data):
        try:
            end.sendall(data)
        except OSError:
            pass

    def close(self):
        for s in (self.client, self.server):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()
