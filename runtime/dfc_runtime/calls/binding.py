"""Arguments of a call to the feeds of an entry: by position, by name, and the sizes that no shape decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from typing import NoReturn, SupportsIndex, cast

from dfc_runtime.calls.sizes import declared
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.errors import FeedError
from dfc_runtime.formats.manifest import Entry
from dfc_runtime.kinds import brief
from dfc_runtime.names import did_you_mean

RESTORE_OPTIONS = ("rename", "only")


@dataclass(frozen=True, slots=True)
class Bound:
    """Feeds in the order of the signature, sizes by name, and options of what restores."""

    feeds: Sequence[object]
    dims: Mapping[str, int]
    options: Mapping[str, object]


class Binder:
    """Binds calls of one entry; one that restores state has options."""

    def __init__(self, entry: Entry, restores: bool = False) -> None:
        self._entry = entry
        self._names = tuple(p.name for p in entry.parameters)
        taken = {*self._names, *entry.dim_feeds}
        self._options = tuple(name for name in RESTORE_OPTIONS if restores and name not in taken)

    def bind(self, positional: Sequence[object], named: Mapping[str, object]) -> Bound:
        """`FeedError` names what is missing, unknown or given twice."""
        names = self._names
        if len(positional) > len(names):
            self._refuse(f"takes {self._listed()}, but got {len(positional)} by position")
        feeds = dict(zip(names, positional, strict=False))
        for name in named:
            if name in feeds:
                self._refuse(f"got the feed {name} twice, by position and by name")
            if name not in names and name not in self._entry.dim_feeds and name not in self._options:
                self._unknown(name)
        feeds.update({name: value for name, value in named.items() if name in names})
        missing = [p for p in self._entry.parameters if p.name not in feeds]
        if missing:
            self._refuse("misses " + ", ".join(f"the feed {p.name}: {p}" for p in missing))
        dims = {name: self._size(name, named) for name in self._entry.dim_feeds}
        options = {name: named[name] for name in self._options if name in named}
        return Bound([feeds[name] for name in names], dims, options)

    def _size(self, name: str, named: Mapping[str, object]) -> int:
        if name not in named:
            self._refuse(f"misses the size {name}, which no feed's shape decides: {name}=...")
        value = named[name]
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            self._refuse(f"wants a whole number for the size {name}, but got {brief(value)}")
        size = index(cast("SupportsIndex", value))
        if size < 0:
            self._refuse(f"wants a size of at least 0 for {name}, but got {brief(size)}")
        return size

    def _unknown(self, name: str) -> NoReturn:
        if name in self._entry.dims:
            self._refuse(f"takes no feed {name}: the shapes of its feeds decide that size")
        known = [*self._names, *self._entry.dim_feeds]
        self._refuse(f"has no feed {name}{did_you_mean(name, known) or f'; it takes {self._listed()}'}")

    def _listed(self) -> str:
        names = [*self._names, *self._entry.dim_feeds]
        return f"the feeds {', '.join(names)}" if names else "no feeds"

    def _refuse(self, text: str) -> NoReturn:
        entry = self._entry
        raise FeedError(f"`{entry.name}` {text}{declared(entry)}", code="E0901", spans=[entry.location])
