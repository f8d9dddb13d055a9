"""The functions behind entries: what is called, from feeds to results.

Assumes what `EntryCall` has decided when the module was loaded. Guarantees that what a call costs beyond native code is
what stands here; the quickest form that an entry allows is the one it gets.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.calls.calls import EntryCall, Machinery
from dfc_runtime.calls.device_arrays import DeviceArray
from dfc_runtime.calls.frames import Frame
from dfc_runtime.calls.hosts import Calling
from dfc_runtime.formats.manifest import SEND

Array = NDArray[np.generic]
_MOST_KINDS = 64


def make_call(machinery: Machinery, number: int) -> Callable[..., object]:
    """The function behind an entry."""
    function = _function(EntryCall(machinery, number))
    if machinery.runners is None:
        return function
    return machinery.runners.started_by(machinery.manifest, machinery.manifest.entries[number], function)


def _function(entry_call: EntryCall) -> Callable[..., object]:
    """Its function, by what it takes and gives."""
    entry, machinery = entry_call.entry, entry_call.machinery
    sending = sending_call(entry_call)
    if sending is not None:
        return sending
    plain = not entry.dims and not any(feed.is_text for feed in entry_call.feeds)
    if plain and not any(each.shape for each in (*entry.parameters, *entry.results)):
        return machinery.hosts.counted(entry.name, scalar_call(entry_call))
    return machinery.hosts.counted(entry.name, tensor_call(entry_call))


def sending_call(entry_call: EntryCall) -> Callable[..., object] | None:
    """For parts of entries that do nothing but send variables: they need no native code. None for others, for what may
    run concurrently with others, and where variables lie in the memory of a device."""
    entry, machinery = entry_call.entry, entry_call.machinery
    if entry_call.asked != frozenset({SEND}):
        return None
    calling = Calling(-1)
    requests = machinery.hosts.handed(entry.name, machinery.state.arrays, calling)
    if not requests or entry.writes or entry.results or machinery.driver.memory is not None:
        return None
    gate, unset, bind, takes_none = entry_call.gate, machinery.state.unset, entry_call.binder.bind, not entry.parameters

    def call(*arguments: object, **named: object) -> None:
        if arguments or named or not takes_none:
            entry_call.collect(bind(arguments, named).feeds)
        with gate:
            if unset:
                machinery.state.require(entry)
            calling.number += 1
            machinery.hosts.hand(requests)

    return call


def scalar_call(entry_call: EntryCall) -> Callable[..., object]:
    """For entries of one native function whose feeds and results all have rank 0."""
    count = len(entry_call.feeds)
    names, by_name = _getter(entry_call)
    known: dict[tuple[type, ...], bool] = {}
    native, pack, gate, wrap = entry_call.native, entry_call.pack, entry_call.gate, entry_call.wrap
    arena = entry_call.plan((), None).arena
    unset, entry = entry_call.machinery.state.unset, entry_call.entry
    has_one_result = entry.unnamed_result
    own_frame = None if entry_call.is_concurrent else entry_call.frame()
    frames = entry_call.frames

    def is_packable(types: tuple[type, ...]) -> bool:
        """Whether values of these types are packed as they are; remembered for the usual ones."""
        packable = all(kind in feed.quick for feed, kind in zip(entry_call.feeds, types, strict=True))
        if len(known) < _MOST_KINDS:
            known[types] = packable
        return packable

    def call(*arguments: object, **named: object) -> object:
        values: Sequence[object] = arguments
        if named or len(arguments) != count:
            if by_name is not None and len(named) == count and not arguments and named.keys() == names:
                values = by_name(named)
            else:
                values = entry_call.binder.bind(arguments, named).feeds
        ordered = values
        types = tuple(map(type, values))
        if not (known[types] if types in known else is_packable(types)):
            values, _, _ = entry_call.collect(values)
        with gate:
            frame = own_frame or (frames.pop() if frames else entry_call.frame())
            try:
                if unset:
                    entry_call.machinery.state.require(entry)
                pack(frame.buffer, 0, *values, entry_call.reserve(frame, arena) if arena else 0)
                if native(frame.address):
                    raise entry_call.fault()
                if unset:
                    entry_call.machinery.state.wrote(entry.writes)
                return frame.scalars[0][0] if has_one_result else wrap([scalar[0] for scalar in frame.scalars])
            except (struct.error, OverflowError):
                entry_call.refuse_scalars(ordered)
                raise
            finally:
                if own_frame is None:
                    frames.append(frame)

    return call


def tensor_call(entry_call: EntryCall) -> Callable[..., object]:
    """For every entry."""
    count = len(entry_call.feeds)
    binds_always = bool(entry_call.entry.dim_feeds)
    names, by_name = _getter(entry_call)
    unset, entry, pack, gate = entry_call.machinery.state.unset, entry_call.entry, entry_call.pack, entry_call.gate
    own_frame = None if entry_call.is_concurrent else entry_call.frame()
    native, plans, frames = entry_call.native, entry_call.plans, entry_call.frames
    has_text_feeds = bool(entry_call.asked) and any(feed.is_text for feed in entry_call.feeds)
    mixed = {is_tensor for _, is_tensor in entry_call.makers} == {False, True}

    def call(*arguments: object, **named: object) -> object:
        bound = None
        ordered: Sequence[object] = arguments
        if named or len(arguments) != count or binds_always:
            if by_name is not None and len(named) == count and not arguments and named.keys() == names:
                ordered = by_name(named)
            else:
                bound = entry_call.binder.bind(arguments, named)
                ordered = bound.feeds
        values, _kept, shapes = entry_call.collect(ordered)
        sizes = (plans.get(shapes) if bound is None else None) or entry_call.plan(shapes, bound)
        tensors = entry_call.allocate(sizes, values)
        if has_text_feeds:
            entry_call.set_call_context(ordered, bound)
        with gate:
            frame = own_frame or (frames.pop() if frames else entry_call.frame())
            try:
                if unset:
                    entry_call.machinery.state.require(entry)
                pack(frame.buffer, 0, *values, *sizes.dims, entry_call.reserve(frame, sizes.arena))
                if native(frame.address):
                    raise entry_call.fault()
                if unset:
                    entry_call.machinery.state.wrote(entry.writes)
                if entry_call.open:
                    entry_call.resize_results(sizes, frame, tensors)
                if mixed:
                    return entry_call.wrap(_merged(entry_call, tensors, frame))
                return entry_call.wrap([scalar[0] for scalar in frame.scalars] if frame.scalars else tensors)
            except (struct.error, OverflowError):
                entry_call.refuse_scalars(ordered)
                raise
            finally:
                if own_frame is None:
                    frames.append(frame)

    return call


def _merged(entry_call: EntryCall, tensors: Sequence[Array | DeviceArray], frame: Frame) -> list[object]:
    """Tensors and scalars in the order of the signature."""
    arrays, scalars = iter(tensors), iter(frame.scalars)
    return [next(arrays) if is_tensor else next(scalars)[0] for _, is_tensor in entry_call.makers]


def _getter(entry_call: EntryCall) -> tuple[frozenset[str], Callable[[Mapping[str, object]], Sequence[object]] | None]:
    """The names of the feeds, and the quick way from feeds by name to their order; None where there is none."""
    names = [feed.parameter.name for feed in entry_call.feeds]
    if not names or entry_call.entry.dim_feeds:
        return frozenset(names), None
    if len(names) == 1:
        return frozenset(names), lambda named: (named[names[0]],)
    return frozenset(names), itemgetter(*names)
