"""Records of ranks whose host does not share the folder of their job: over a connection to the supervisor, which puts
them into the folder.

    DFC_POST = "PORT TOKEN HOST HOST ..."      what a rank needs to know, in its environment like the folder
    rank:       TOKEN, then a line of JSON for each record
    supervisor: ok

Assumes that hosts reach the one of the supervisor, as the launcher itself does. Guarantees that only who knows the
token is heard, that what comes is bounded and checked before it becomes a file, and that a rank notices the end of the
supervisor as the end of the connection.
"""

from __future__ import annotations

import fcntl
import hmac
import json
import os
import secrets
import select
import socket
import struct
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from dfc_runtime.formats import fields, strict_json

POST_VARIABLE = "DFC_POST"
KINDS = ("done", "failed", "beat")
REACHED_WITHIN = 2.0
"""Seconds for one address to answer."""
_LOST_AFTER_MS = 10_000
_LONGEST = 1 << 16
_MOST_RANKS = 1 << 16
_OK = b"ok\n"
_SIOCGIFADDR = 0x8915


def put(folder: Path, epoch: int, rank: int, kind: str, data: Mapping[str, object]) -> None:
    """A record as a file, which is there as a whole or not at all; `OSError` if the folder is gone."""
    draft = folder / f"{epoch}-{rank}.{kind}-{threading.get_ident()}"
    draft.write_text(json.dumps({**data, "time": time.monotonic_ns()}), encoding="utf-8")
    os.replace(draft, folder / f"{epoch}-{rank}.{kind}")


class Post:
    """Takes records as long as the block runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._token = secrets.token_hex(16)
        self._server = _listening()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()

    @property
    def address(self) -> str:
        """What ranks need to know."""
        return " ".join([str(self._server.getsockname()[1]), self._token, *_own_addresses()])

    def __enter__(self) -> Post:
        threading.Thread(target=self._accept, name="dfc-post", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            for each in (self._server, *self._open):
                _end(each)

    def _accept(self) -> None:
        while True:
            try:
                end, _ = self._server.accept()
            except OSError:
                return  # it is over
            threading.Thread(target=self._serve, args=(end,), name="dfc-post", daemon=True).start()

    def _serve(self, end: socket.socket) -> None:
        with self._lock:
            self._open.add(end)
        try:
            end.settimeout(REACHED_WITHIN)
            lines = end.makefile("rb")
            if not hmac.compare_digest(lines.readline(_LONGEST), f"{self._token}\n".encode()):
                return
            end.sendall(_OK)
            end.settimeout(None)
            while line := lines.readline(_LONGEST):
                self._take(line)
        except (OSError, ValueError):
            return  # the connection is lost, or it is none of a rank
        finally:
            with self._lock:
                self._open.discard(end)
            _end(end)

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


def _listening() -> socket.socket:
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", 0))


def _own_addresses() -> list[str]:
    """The name of this host, and the addresses of its devices but for the one that leads back to it."""
    found = [socket.gethostname()]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(asked, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue  # it has none
            found.append(socket.inet_ntoa(answer[20:24]))
    return [each for each in found if not each.startswith("127.")]


def _end(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)  # wakes who waits for it
    except OSError:
        pass
    end.close()
