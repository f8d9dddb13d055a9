"""The compiler of GPU kernels without its start: processes that are forks of one that has loaded numba already.

A program of a few kernels is compiled in a fraction of the time that numba takes to load; so tests that are not about
the process itself share one that has (`warm_compilers`). Each request gets a fork of its own, which serves it with the
code of `worker` alone and then ends, as the process of the product does. The first process ends with the one that asked
for it.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import pytest

from dfc.kernels.errors import CodeGenerationError
from dfc_target_cuda.code import compiler_process, worker

needs_numba = pytest.mark.skipif(find_spec("numba_cuda") is None, reason="no numba-cuda")
"""Asked without loading it, which takes time and memory from all that is collected with the test."""

VARIABLE = "DFC_TESTS_COMPILER"
"""In the environment: the socket of a warm process that another process has begun."""

ARCHITECTURE = "compute_80"
"""For which numba warms up; what it has read by then serves all."""


class WarmProcess:
    """In the place of `compiler_process.CompilerProcess`."""

    def __init__(self, architecture: str) -> None:
        self.architecture = architecture

    def ask(self, request: bytes) -> bytes:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(server())
            connection.sendall(self.architecture.encode() + b"\n" + request)
            connection.shutdown(socket.SHUT_WR)
            with connection.makefile("rb") as answers:
                answer = answers.read()
        if not answer:
            raise CodeGenerationError("the compiler of kernels ended without an answer")
        return answer

    def end(self) -> None:
        pass  # it has not begun


@contextmanager
def warm_compilers() -> Iterator[None]:
    """Kernels that this process asks for are compiled by forks of a warm process."""
    with mock.patch.object(compiler_process, "CompilerProcess", WarmProcess):
        yield


@cache
def begin() -> subprocess.Popen[bytes]:
    """A warm process, which says where it listens when it has loaded; it ends when its standard input does, at the
    latest with this process and its forks."""
    folder = tempfile.mkdtemp(prefix="dfc-warm-")
    return subprocess.Popen(
        [sys.executable, "-m", __name__, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=compiler_process._environment(),
        cwd=folder,
    )


@cache
def server() -> str:
    """The socket of a warm process that listens."""
    if VARIABLE in os.environ:
        return os.environ[VARIABLE]
    process = begin()
    assert process.stdout is not None
    path = process.stdout.readline().decode().strip()
    assert path, f"the warm compiler ended with {process.wait()}"
    return path


def _main(folder: str) -> None:
    import selectors
    import shutil

    output = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    device = worker._ready(ARCHITECTURE)
    worker._ready = lambda _: device
    try:
        with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as waiting:
            path = str(Path(folder) / "socket")
            listener.bind(path)
            listener.listen()
            os.write(output, path.encode() + b"\n")
            waiting.register(listener, selectors.EVENT_READ)
            waiting.register(sys.stdin, selectors.EVENT_READ)
            while all(key.fileobj is listener for key, _ in waiting.select()):
                connection, _ = listener.accept()
                if not os.fork():
                    _serve(connection)
                connection.close()
                _reap()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _serve(connection: socket.socket) -> None:
    try:
        with connection.makefile("rb") as requests, connection.makefile("wb") as replies:
            worker.serve(requests, replies, requests.readline().decode().strip())
    finally:
        connection.close()
        os._exit(0)


def _reap() -> None:
    """Forks that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


if __name__ == "__main__":
    _main(sys.argv[1])
