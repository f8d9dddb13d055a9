"""PTX of kernel texts: compiled once a process, and kept on disk for others, with the prelude functions they needed.

Assumes that a text's PTX depends on nothing but the text and the architecture. Guarantees that each text is compiled
once a process, and nothing that the cache has.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
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


Compile = Callable[[Sequence[TextKey], str, Mapping[str, bytes], int], tuple[list[str], Mapping[str, bytes]]]
"""(texts, architecture, known code of prelude functions, how many at once) -> PTX, and the code that was missing."""

Needed = Callable[[str], Iterable[str]]
"""The prelude functions that a text needs."""


class Fragments:
    """PTX by text and architecture, and the code of prelude functions."""

    def __init__(self, compile_texts: Compile, needed: Needed) -> None:
        self._compile, self._needed = compile_texts, needed
        self._known: dict[tuple[TextKey, str], str] = {}
        self._library: dict[tuple[str, str], bytes] = {}

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
            library = _Library(architecture, cache, compiler, self._library)
            functions = sorted({name for key in missing for name in self._needed(key.source)})
            compiled, more = self._compile(missing, architecture, library.known(functions), at_once or cores())
            self._known |= {(key, architecture): ptx for key, ptx in zip(missing, compiled, strict=True)}
            library.add(more)
            cache.put({names[key]: ptx.encode() for key, ptx in zip(missing, compiled, strict=True) if key in names})
        return [self._known[key, architecture] for key in keys]


class _Library:
    """Code of prelude functions for one architecture: what this process has, then what the cache has."""

    def __init__(self, architecture: str, cache: DiskCache, compiler: str, known: dict[tuple[str, str], bytes]) -> None:
        self._architecture, self._cache, self._compiler, self._known = architecture, cache, compiler, known

    def known(self, functions: Sequence[str]) -> dict[str, bytes]:
        """Of these, what was compiled before."""
        for name in functions:
            if (name, self._architecture) not in self._known and self._compiler:
                cached = self._cache.get(self._name(name))
                if cached is not None:
                    self._known[name, self._architecture] = cached
        pairs = ((name, self._known.get((name, self._architecture))) for name in functions)
        return {name: code for name, code in pairs if code is not None}

    def add(self, compiled: Mapping[str, bytes]) -> None:
        self._known |= {(name, self._architecture): code for name, code in compiled.items()}
        if self._compiler:
            self._cache.put({self._name(name): code for name, code in compiled.items()})

    def _name(self, function: str) -> str:
        return digest("prelude function", self._compiler, self._architecture, function)


def cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
