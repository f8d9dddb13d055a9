"""Records of ranks whose host does not share the folder of their job: over a connection to the supervisor, which puts
them into the folder.

    DFC_POST = "PORT TOKEN HOST HOST ..."      what a rank needs to know, in its environment like the folder
    rank:       TOKEN, then a line of JSON for each record
    supervisor: ok

Assumes that hosts reach the one of the supervisor, as the launcher itself does. Guarantees that only who knows the
token is heard: each job has its own, nothing else is read before it, it has a time limit, and strangers who keep silent
make room for whoever comes. What comes is bounded and checked before it becomes a file, and a rank notices the end of
the supervisor as the end of the connection. Connections are taken at the addresses that ranks are told, and no others.
"""

from __future__ import annotations

import errno
import fcntl
import hmac
import ipaddress
import json
import os
import secrets
import select
import socket
import struct
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType

from dfc_runtime.distributed.launch.record_files import put
from dfc_runtime.formats import fields, strict_json

POST_VARIABLE = "DFC_POST"
KINDS = ("done", "failed", "beat", "ended")
REACHED_WITHIN = 2.0
"""Seconds for one address to answer."""
PROVED_WITHIN = 10.0
"""Seconds in which who has connected has said the token, and has been answered."""
MOST_STRANGERS = 64
"""Connections that have not said it yet: one more ends the oldest."""
_PORTS_TRIED = 16
_LOST_AFTER_MS = 10_000
_LONGEST = 1 << 16
_MOST_RANKS = 1 << 16
_OK = b"ok\n"
_SIOCGIFADDR = 0x8915
_WIDE = "00"
"""The scope of addresses that lead here from anywhere."""


class Post:
    """Takes records as long as the block runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._token = secrets.token_hex(16)
        self._addresses = _own_addresses()
        self._servers = _listening(self._addresses)
        self._open: set[socket.socket] = set()
        self._strangers: dict[socket.socket, None] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()

    @property
    def address(self) -> str:
        """What ranks need to know."""
        port = self._servers[0].getsockname()[1] if self._servers else 0
        return " ".join([str(port), self._token, *self._addresses])

    def __enter__(self) -> Post:
        for server in self._servers:
            threading.Thread(target=self._accept, args=(server,), name="dfc-post", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._over.set()
            for each in (*self._servers, *self._strangers, *self._open):
                _end(each)

    def _accept(self, server: socket.socket) -> None:
        while not self._over.is_set():
            try:
                end, _ = server.accept()
            except OSError:  # it is over; or who called has gone, or there is no room for one more at the moment
                self._over.wait(0.05)
                continue
            with self._lock:
                self._strangers[end] = None
                if len(self._strangers) > MOST_STRANGERS:
                    oldest = next(iter(self._strangers))
                    del self._strangers[oldest]
                    _hang_up(oldest)
            threading.Thread(target=self._serve, args=(end,), name="dfc-post", daemon=True).start()

    def _serve(self, end: socket.socket) -> None:
        try:
            if not self._is_known(end):
                return
            with self._lock:
                self._open.add(end)
                self._strangers.pop(end, None)
            end.sendall(_OK)
            end.settimeout(None)
            lines = end.makefile("rb")
            while line := lines.readline(_LONGEST):
                self._take(line)
        except (OSError, ValueError):
            return  # the connection is lost, or it is none of a rank
        finally:
            with self._lock:
                self._strangers.pop(end, None)
                self._open.discard(end)
            _end(end)

    def _is_known(self, end: socket.socket) -> bool:
        """Whether it says the token, and that in time: not a byte more is read."""
        token, received = f"{self._token}\n".encode(), b""
        until = time.monotonic() + PROVED_WITHIN
        while len(received) < len(token):
            end.settimeout(max(until - time.monotonic(), 0.001))
            piece = end.recv(len(token) - len(received))
            if not piece or time.monotonic() > until:
                return False
            received += piece
        return hmac.compare_digest(received, token)

    def _take(self, line: bytes) -> None:
        data = fields.mapping(strict_json.parse(line.decode()), "a record")
        epoch, rank = fields.integer(data.pop("epoch", None), "epoch"), fields.integer(data.get("rank"), "rank")
        kind = data.pop("kind", None)
        if kind not in KINDS or rank >= _MOST_RANKS:
            raise ValueError("no record of a rank")
        put(self._folder, epoch, rank, str(kind), data)


class Line:
    """The connection of a rank to its supervisor."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    @classmethod
    def to_supervisor(cls) -> Line | None:
        """None if there is no supervisor, or none of its addresses can be reached."""
        port, *words = os.environ.get(POST_VARIABLE, "").split() or [""]
        if not port.isdigit() or not words:
            return None
        token, *hosts = words
        for host in hosts:
            try:
                end = socket.create_connection((host, int(port)), REACHED_WITHIN)
                end.settimeout(PROVED_WITHIN)
                end.sendall(f"{token}\n".encode())
                if end.recv(len(_OK)) == _OK:
                    end.settimeout(REACHED_WITHIN)
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _LOST_AFTER_MS)
                    return cls(end)
                end.close()
            except OSError:
                continue
        return None

    def send(self, epoch: int, rank: int, kind: str, data: Mapping[str, object]) -> None:
        """A record. What is lost with the connection is told by `is_over`."""
        try:
            self._end.sendall(json.dumps({**data, "epoch": epoch, "rank": rank, "kind": kind}).encode() + b"\n")
        except OSError:
            _end(self._end)

    @property
    def is_over(self) -> bool:
        """Whether the supervisor is gone, or out of reach."""
        if self._end.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(self._end, select.POLLIN)
        return bool(poll.poll(0))  # it has said all it says: what comes now is the end


def _listening(addresses: Iterable[str]) -> list[socket.socket]:
    """A socket at each of these, which may be names, too: all have the same port. A port that is free at one address
    may be taken at another one: then there are others."""
    servers: list[socket.socket] = []
    for _ in range(_PORTS_TRIED):
        port, taken = 0, False
        for address in filter(_is_number, addresses):
            try:
                family = socket.AF_INET6 if ":" in address else socket.AF_INET
                servers.append(socket.create_server((address, port), family=family))
                port = servers[0].getsockname()[1]
            except OSError as problem:
                taken = taken or problem.errno == errno.EADDRINUSE  # else it has just gone, and nobody gets there
        if not taken:
            break
        while servers:
            servers.pop().close()
    return servers


def _is_number(address: str) -> bool:
    """Whether it is an address, and not a name of one."""
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return True


def _own_addresses() -> list[str]:
    """The name of this host, and the addresses of its devices but for those that lead back to it."""
    addresses = [socket.gethostname()]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(asked, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue  # it has none
            addresses.append(socket.inet_ntoa(answer[20:24]))
    return [*(each for each in addresses if not each.startswith("127.")), *_own_wide_addresses()]


def _own_wide_addresses() -> list[str]:
    """Likewise of version 6, but for those that only neighbours on one link understand."""
    try:
        lines = Path("/proc/net/if_inet6").read_text(encoding="ascii").splitlines()
    except OSError:
        return []  # there is no such version here
    words = (line.split() for line in lines)
    return [str(ipaddress.IPv6Address(int(each[0], 16))) for each in words if each[3] == _WIDE]


def _hang_up(end: socket.socket) -> None:
    """Ends a connection that another thread waits for, and closes."""
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def _end(end: socket.socket) -> None:
    _hang_up(end)  # wakes who waits for it
    end.close()
