"""C libraries of NVIDIA as they are found where a program runs, with a plan for each shape that was asked for.

Assumes device addresses, and one caller at a time with the device current. Guarantees that a library that is handed out
has all functions that are called of it, and the same answer for the same shape. What a library cannot do is
`LibraryError`: the caller then takes the kernel of the program, and says so.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

Signatures = Mapping[str, Sequence[Any]]
"""The types of the arguments of functions by name; each gives a status, 0 for success."""


class LibraryError(RuntimeError):
    """The library refuses; the message says what."""


class Library(Protocol):
    """Functions by name."""

    def __getattr__(self, name: str) -> Any: ...


def packaged(folders: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    """Files of these names in folders of NVIDIA's Python packages."""
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        paths = (Path(root) / folder / name for folder in folders for name in names)
        yield from (str(path) for path in paths if path.is_file())


def candidates(folders: Sequence[str], names: Sequence[str], short: str) -> Iterator[str]:
    """Where a library may be: in a package, else in the system."""
    yield from packaged(folders, names)
    yield from names
    library = ctypes.util.find_library(short)
    if library is not None:
        yield library


def open_first(names: Iterable[str], signatures: Signatures, results: Mapping[str, Any]) -> Library | None:
    """The first library that can be loaded and has these functions; None if there is none."""
    for name in names:
        try:
            library = ctypes.CDLL(name)
            for function, result in results.items():
                getattr(library, function).restype = result
            for function, arguments in signatures.items():
                getattr(library, function).argtypes = arguments
        except (OSError, AttributeError):
            continue
        return library
    return None


class Planned(Protocol):
    """What a library offers for a shape."""

    @property
    def shape(self) -> Any: ...

    @property
    def workspace(self) -> int:
        """Bytes of scratch memory that it needs, at a multiple of 256."""
        ...


S = TypeVar("S")
P = TypeVar("P", bound=Planned)


class Planner(ABC, Generic[S, P]):
    """One handle of a library. Within `workspace_bytes` of scratch memory for one call."""

    name: ClassVar[str]
    version_function: ClassVar[str]
    destroy_function: ClassVar[str]

    def __init__(self, library: Library, workspace_bytes: int) -> None:
        self._library, self._most = library, workspace_bytes
        self._plans: dict[S, P | str] = {}
        self._handle = self.open()

    def version(self) -> str:
        """What `dfc inspect` says of it: 13.1.0."""
        number = int(getattr(self._library, self.version_function)())
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"

    def plan(self, shape: S) -> P:
        """What the library offers for a shape; asked once. `LibraryError` if nothing fits."""
        known = self._plans.get(shape)
        if known is None:
            try:
                known = self.new_plan(shape)
            except LibraryError as error:
                known = str(error)
            self._plans[shape] = known
        if isinstance(known, str):
            raise LibraryError(known)
        return known

    def close(self) -> None:
        """Gives everything back; the object is of no use afterwards."""
        for plan in self._plans.values():
            if not isinstance(plan, str):
                self.drop(plan)
        self._plans.clear()
        self.call(self.destroy_function, self._handle)

    @abstractmethod
    def open(self) -> ctypes.c_void_p:
        """A new handle."""

    @abstractmethod
    def new_plan(self, shape: S) -> P:
        """What is offered first of what fits."""

    @abstractmethod
    def drop(self, plan: P) -> None:
        """Gives back what a plan holds."""

    @abstractmethod
    def run(self, plan: P, addresses: Sequence[int], workspace: int, stream: int) -> None:
        """Queues the work on a stream, which may be recording a graph, with `plan.workspace` bytes or more."""

    @abstractmethod
    def call(self, function: str, *arguments: Any) -> None:
        """Calls a function; `LibraryError` for a status other than 0."""
