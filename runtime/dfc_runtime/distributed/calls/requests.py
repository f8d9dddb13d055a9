"""Feeds of a call, checked against the signature of the whole program, before anything is sent.

Guarantees what calls of ordinary programs do: nothing runs before all feeds are found to be right.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence, Set
from operator import itemgetter

import numpy as np

from dfc_runtime.calls import feeds
from dfc_runtime.calls.binding import Binder
from dfc_runtime.calls.feed import Feed
from dfc_runtime.calls.results import results_type
from dfc_runtime.calls.scalars import slot_format
from dfc_runtime.calls.sizes import CallSizes, Shape, plan
from dfc_runtime.distributed.calls.client import Request
from dfc_runtime.distributed.calls.entry_plan import EntryPlan
from dfc_runtime.distributed.transport.comm import Array
from dfc_runtime.distributed.transport.wire import Value

_MOST_PLANS = 4096


class Requests:
    """Checks calls of one entry; those of batches that are filled up later need not fall into blocks, so that they are
    not `is_split`."""

    def __init__(self, of: EntryPlan, limit: int, *, is_split: bool = True) -> None:
        self._plan = of
        self._is_split = is_split
        self._entry = of.entry
        self._limit = limit
        self._binder = Binder(of.entry, restores=False)
        self._feeds = tuple(Feed(parameter) for parameter in of.entry.parameters)
        self._sizes: dict[tuple[object, ...], CallSizes] = {}
        names = [feed.parameter.name for feed in self._feeds]
        self._by_name = itemgetter(*names) if len(names) > 1 and not of.entry.dim_feeds else None
        self._names: Set[str] = frozenset(names)
        has_quick = not of.entry.dim_feeds and not any(feed.is_text for feed in self._feeds)
        self._count = len(self._feeds) if has_quick else -1
        scalars = [feed for feed in self._feeds if not feed.is_tensor and not feed.is_text]
        self._slots = struct.Struct("<" + "".join(slot_format(feed.parameter.dtype) for feed in scalars))

    def checked(self, positional: Sequence[object], named: Mapping[str, object]) -> Request:
        """The call, or a `FeedError`."""
        values = positional
        if named and not positional and self._by_name is not None and named.keys() == self._names:
            values = self._by_name(named)
        if len(values) == self._count and (values is not positional or not named):
            request = self._quickly_checked(values)
            if request is not None:
                return request
        return self._fully_checked(positional, named)

    def _quickly_checked(self, values: Sequence[object]) -> Request | None:
        """The call, if it is of shapes that were checked before, and nothing has to be converted."""
        shapes: list[Shape] = []
        scalars: list[object] = []
        for feed, value in zip(self._feeds, values, strict=True):
            if not feed.is_tensor:
                if type(value) not in feed.quick:
                    return None
                scalars.append(value)
            elif type(value) is np.ndarray and _is_ready(value, feed.dtype):
                shapes.append(value.shape)
            else:
                return None
        sizes = self._sizes.get((tuple(shapes),))
        if sizes is None:
            return None
        try:
            self._slots.pack(*scalars)
        except (struct.error, OverflowError):
            return None  # the full check says which number does not fit
        return Request(values, values, sizes.by_name, sizes.result_shapes)  # type: ignore[arg-type]

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
        return Request(values, slots, sizes.by_name, sizes.result_shapes)

    def _sized(self, shapes: tuple[Shape, ...], known_dims: Mapping[str, int]) -> CallSizes:
        key = (shapes, *known_dims.values())
        call_sizes = self._sizes.get(key)
        if call_sizes is None:
            if len(self._sizes) >= _MOST_PLANS:
                self._sizes.clear()
            call_sizes = plan(self._entry, shapes, known_dims, self._limit, 0)
            if self._is_split:
                self._plan.check_split(call_sizes.by_name)
            self._sizes[key] = call_sizes
        return call_sizes


def _is_ready(array: Array, dtype: np.dtype[np.generic]) -> bool:
    """Whether nothing has to be done for code to read it in place."""
    flags = array.flags
    return array.dtype == dtype and flags.c_contiguous and flags.aligned


def wrapper(of: EntryPlan) -> Callable[[Sequence[object]], object]:
    """What a caller gets of a list of results."""
    if of.entry.unnamed_result:
        return lambda values: values[0]
    if not of.entry.results:
        return lambda _: None
    return results_type(of.name, [each.name for each in of.entry.results])
