"""PTX of many kernel texts at once, by as many threads as there are cores.

Assumes that a text's PTX depends on nothing but the text and the architecture, and that what compiles one may run in
several threads: libNVVM is safe for that, and lets the interpreter go meanwhile. Guarantees the same result as one
after the other, that each text is compiled once a process, and that of several wrong texts the first one is reported.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass

from dfc_target_cuda.code.disk_cache import DiskCache, digest


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
    """PTX by text and architecture: compiled once a process, and kept on disk for others."""

    def __init__(self, compile_one: Compile) -> None:
        self._compile = compile_one
        self._known: dict[tuple[TextKey, str], str] = {}

    def get(
        self, keys: Sequence[TextKey], architecture: str, cache: DiskCache, compiler: str, *, threads: int = 0
    ) -> list[str]:
        """The PTX of each text. `compiler` says all that it depends on beside text and architecture; without that
        nothing is kept in the cache. `threads`: at most so many at once; 0 for one a core."""
        new = [key for key in dict.fromkeys(keys) if (key, architecture) not in self._known]
        names = {key: digest("ptx", compiler, architecture, json.dumps(astuple(key))) for key in new if compiler}
        for key, name in names.items():
            if (found := cache.get(name)) is not None:
                self._known[key, architecture] = found.decode()
        missing = [key for key in new if (key, architecture) not in self._known]
        self._add(missing, architecture, threads)
        cache.put({names[key]: self._known[key, architecture].encode() for key in missing if key in names})
        return [self._known[key, architecture] for key in keys]

    def _add(self, missing: Sequence[TextKey], architecture: str, threads: int) -> None:
        count = min(threads or cores(), len(missing))
        if count <= 1:
            made = [self._compile(key, architecture) for key in missing]
        else:
            with ThreadPoolExecutor(count) as workers:
                made = list(workers.map(self._compile, missing, [architecture] * len(missing)))
        self._known |= {(key, architecture): ptx for key, ptx in zip(missing, made, strict=True)}


def cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
