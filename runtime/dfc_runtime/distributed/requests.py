"""Feeds of a call, checked against the signature of the whole program, before anything is sent.

Guarantees what calls of ordinary programs do: nothing runs before all feeds are found to be right.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence

from dfc_runtime import feeds
from dfc_runtime.binding import Binder
from dfc_runtime.calls import Feed
from dfc_runtime.distributed.client import Request
from dfc_runtime.distributed.comm import Array
from dfc_runtime.distributed.entry_plan import EntryPlan
from dfc_runtime.distributed.wire import Value
from dfc_runtime.results import results_type
from dfc_runtime.scalars import slot_format
from dfc_runtime.sizes import CallSizes, Shape, plan

_MOST_PLANS = 4096


class Requests:
    """Checks calls of one entry."""

    def __init__(self, of: EntryPlan, limit: int) -> None:
        self._plan = of
        self._entry = of.entry
        self._limit = limit
        self._binder = Binder(of.entry, restores=False)
        self._feeds = tuple(Feed(parameter) for parameter in of.entry.parameters)
        self._sizes: dict[tuple[object, ...], CallSizes] = {}
        plain = all(feed.quick and not feed.is_tensor for feed in self._feeds) and not of.entry.dims
        self._count = len(self._feeds) if plain else -1
        self._quick: set[tuple[type, ...]] = set()
        self._slots = struct.Struct("<" + "".join(slot_format(f.parameter.dtype) for f in self._feeds if plain))

    def checked(self, positional: Sequence[object], named: Mapping[str, object]) -> Request:
        """The call, or a `FeedError`."""
        if not named and len(positional) == self._count and tuple(map(type, positional)) in self._quick:
            try:
                self._slots.pack(*positional)
            except (struct.error, OverflowError):
                return self._fully_checked(positional, named)  # says which number does not fit
            sizes = self._sized((), {})
            return Request(positional, positional, sizes.by_name, sizes.result_shapes)  # type: ignore[arg-type]
        return self._fully_checked(positional, named)

    def _fully_checked(self, positional: Sequence[object], named: Mapping[str, object]) -> Request:
        bound = self._binder.bind(positional, named)
        values: list[object] = []
        slots: list[Value] = []
        shapes: list[Shape] = []
        for feed, value in zip(self._feeds, bound.feeds, strict=True):
            if feed.is_tensor:
                array: Array = feeds.array(self._entry, feed.parameter, value)
                shapes.append(array.shape)
                value, slot = array, array
            elif feed.is_text:
                value = slot = feeds.text(self._entry, feed.parameter, value)
            else:
                slot = feeds.scalar(self._entry, feed.parameter, value)
            values.append(value)
            slots.append(slot)
        sizes = self._sized(tuple(shapes), bound.dims)
        if all(type(v) in feed.quick for feed, v in zip(self._feeds, values, strict=True)):
            self._quick.add(tuple(map(type, values)))
        return Request(values, slots, sizes.by_name, sizes.result_shapes)

    def _sized(self, shapes: tuple[Shape, ...], given: Mapping[str, int]) -> CallSizes:
        key = (shapes, *given.values())
        found = self._sizes.get(key)
        if found is None:
            if len(self._sizes) >= _MOST_PLANS:
                self._sizes.clear()
            found = plan(self._entry, shapes, given, self._limit, 0)
            self._plan.check_cut(found.by_name)
            self._sizes[key] = found
        return found


def wrapper(of: EntryPlan) -> Callable[[Sequence[object]], object]:
    """What a caller gets of a list of results."""
    if of.entry.unnamed_result:
        return lambda values: values[0]
    if not of.entry.results:
        return lambda _: None
    return results_type(of.name, [each.name for each in of.entry.results])
