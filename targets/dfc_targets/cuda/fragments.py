"""PTX of many kernel texts at once: in this process, and where there are many, in others beside it.

Assumes that a text's PTX depends on nothing but the text. Guarantees the same result as one after the other: what
another process does not deliver is compiled here, where a mistake is reported. A worker is this module run as a
program, with texts on its standard input and PTX on its standard output.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import IO

_WORTH = 6
"""Texts that are worth a process of their own: one begins in about the time that three take."""


@dataclass(frozen=True, slots=True)
class TextKey:
    """What of a text matters to its code."""

    source: str
    pointers: tuple[str, ...]
    sizes: int
    workspace: bool
    threads: int


Compile = Callable[[TextKey, str], str]


class Fragments:
    """PTX by text and architecture; each is compiled once."""

    def __init__(self, compile_one: Compile) -> None:
        self._compile = compile_one
        self._known: dict[tuple[TextKey, str], str] = {}

    def get(self, keys: Sequence[TextKey], architecture: str, *, processes: int = 0) -> list[str]:
        """The PTX of each text. `processes`: at most so many, this one among them; 0 for one a core."""
        missing = [key for key in dict.fromkeys(keys) if (key, architecture) not in self._known]
        count = min(processes or _cores(), len(missing) // _WORTH)
        shares = [missing[number::count] for number in range(1, count)]
        with ThreadPoolExecutor(max(count, 1)) as waiting:
            workers = [waiting.submit(_work, share, architecture) for share in shares]
            for key in missing[0 :: max(count, 1)]:
                self._known[key, architecture] = self._compile(key, architecture)
            for share, worker in zip(shares, workers, strict=True):
                made = zip(share, worker.result(), strict=False)
                self._known |= {(key, architecture): ptx for key, ptx in made}
        for key in missing:
            if (key, architecture) not in self._known:
                self._known[key, architecture] = self._compile(key, architecture)
        return [self._known[key, architecture] for key in keys]


def _cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _work(share: Sequence[TextKey], architecture: str) -> list[str]:
    """What another process makes of its share; nothing if it fails, or if there is no process to be had."""
    given = json.dumps([architecture, [asdict(key) for key in share]]).encode()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__], input=given, capture_output=True, env=environment, check=False
        )
    except OSError:
        return []
    made: list[str] = json.loads(done.stdout) if done.returncode == 0 else []
    return made


def serve(compile_one: Compile, given: IO[bytes], made: IO[bytes]) -> None:
    """What a worker does."""
    architecture, texts = json.loads(given.read())
    keys = [TextKey(t["source"], tuple(t["pointers"]), t["sizes"], t["workspace"], t["threads"]) for t in texts]
    made.write(json.dumps([compile_one(key, architecture) for key in keys]).encode())


def _main() -> None:
    from dfc_targets.cuda.compile import fragment  # only here: that module uses this one

    made = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what else prints does not belong to the result
    with made:
        serve(fragment, sys.stdin.buffer, made)


if __name__ == "__main__":
    _main()
