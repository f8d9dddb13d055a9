"""The process of `worker`, as others ask it: one for each request, which may begin before it is known what to ask.

Loading numba takes about as long as reading a program, so that both are done at once (`begun`). Assumes that a request
is made only where numba-cuda is installed. Guarantees that no process stays behind: one that nobody asked is ended.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict

from dfc.kernels.errors import CodeGenerationError
from dfc_runtime.errors import UnsupportedError
from dfc_target_cuda.code.fragments import TextKey

WORKER = "dfc_target_cuda.code.worker"


class CompilerProcess:
    """One that gets ready for an architecture, such as compute_80, then waits for a request."""

    def __init__(self, architecture: str) -> None:
        self.architecture = architecture
        self._folder = tempfile.TemporaryDirectory(prefix="dfc-")  # where no file configures numba
        self._process = subprocess.Popen(
            [sys.executable, "-m", WORKER, architecture],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(),
            cwd=self._folder.name,
        )

    def ask(self, request: bytes) -> bytes:
        """The answer, with which the process ends. `CodeGenerationError` if it ends without one."""
        with self._folder:
            answer, words = self._process.communicate(request)
        if self._process.returncode != 0 or not answer:
            last = words.decode(errors="replace").strip()
            raise CodeGenerationError(f"the compiler of kernels ended with {self._process.returncode}: {last}")
        return answer

    def end(self) -> None:
        """Of one that nobody asks."""
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()


def _environment() -> dict[str, str]:
    """That of this process, but for what would make numba's code another one; modules are found where they are here."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)
    return {**kept, "PYTHONPATH": paths, "PYTHONHASHSEED": "0"}


_waiting: list[CompilerProcess] = []
_lock = threading.Lock()


@contextmanager
def begun(architecture: str) -> Generator[None]:
    """Has a process get ready, which the next request for this architecture takes."""
    process = CompilerProcess(architecture)
    with _lock:
        _waiting.append(process)
    try:
        yield
    finally:
        with _lock:
            is_left = process in _waiting
            if is_left:
                _waiting.remove(process)
        if is_left:
            process.end()


def _taken(architecture: str) -> CompilerProcess:
    with _lock:
        for process in _waiting:
            if process.architecture == architecture:
                _waiting.remove(process)
                return process
    return CompilerProcess(architecture)


def compile_texts(keys: Sequence[TextKey], architecture: str, at_once: int) -> list[str]:
    """The PTX of each text."""
    request = {"texts": [asdict(key) for key in keys], "at_once": at_once}
    answer = json.loads(_taken(architecture).ask(json.dumps(request).encode()))
    if "missing" in answer:
        raise missing_compiler(answer["missing"])
    if "refused" in answer:
        raise CodeGenerationError(answer["refused"])
    return answer["ptx"]


def missing_compiler(reason: str) -> UnsupportedError:
    text = f"the target cuda needs the package numba-cuda ({reason}): pip install 'dfc[cuda]', or --target cpu"
    return UnsupportedError(text, code="E1004")
