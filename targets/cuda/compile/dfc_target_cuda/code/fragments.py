"""PTX of kernel texts: compiled once a process, and kept on disk for others.

Assumes that a text's PTX depends on nothing but the text and the architecture. Guarantees that each text is compiled
once a process, and nothing that the cache has.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import astuple

from dfc.bundle.disk_cache import DiskCache, digest
from dfc.deferred.dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextKey:
    """What of a text matters to its code."""

    source: str
    pointers: tuple[str, ...]
    sizes: int
    workspace: bool
    threads: int


Compile = Callable[[Sequence[TextKey], str, int], list[str]]
"""(texts, architecture, how many at once) -> PTX."""


class Fragments:
    """PTX by text and architecture."""

    def __init__(self, compile_texts: Compile) -> None:
        self._compile = compile_texts
        self._known: dict[tuple[TextKey, str], str] = {}

    def get(
        self, keys: Sequence[TextKey], architecture: str, cache: DiskCache, compiler: str, *, at_once: int = 0
    ) -> list[str]:
        """The PTX of each text. `compiler` says all that it depends on beside text and architecture; without that
        nothing is kept in the cache. `at_once`: at most so many at a time; 0 for one a core."""
        new = [key for key in dict.fromkeys(keys) if (key, architecture) not in self._known]
        names = {key: digest("ptx", compiler, architecture, json.dumps(astuple(key))) for key in new if compiler}
        for key, name in names.items():
            if (cached := cache.get(name)) is not None:
                self._known[key, architecture] = cached.decode()
        missing = [key for key in new if (key, architecture) not in self._known]
        if missing:
            compiled = dict(zip(missing, self._compile(missing, architecture, at_once or cores()), strict=True))
            self._known |= {(key, architecture): ptx for key, ptx in compiled.items()}
            cache.put({names[key]: ptx.encode() for key, ptx in compiled.items() if key in names})
        return [self._known[key, architecture] for key in keys]


def cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
