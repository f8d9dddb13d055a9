"""Convolutions: which launches make one, said on the launch, so that a library may make it where the program runs.

Before: `patches` := windows of x; y := patches @ w.
After: the same launches. That of y says that it is a convolution of x and w; that of `patches` says that it is there
for y alone, and need not run where y is made by other means.

Assumes drafts before memory is planned. Guarantees that what a convolution names holds the same as when the launches
ran that it stands for: nothing writes there in between, and its memory stays until then. Only what is outside of loops
and branches is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from dfc.ir.dims import ZERO, Dim
from dfc.kernels.access import strides
from dfc.kernels.convolution import DATA, FORWARD, Convolution, Strided
from dfc.kernels.program import Role
from dfc.lower.convolutions.copies import Copied, copied
from dfc.lower.convolutions.roles import Flat, convolution
from dfc.lower.convolutions.sums import Sum, carried_on, sum_of
from dfc.lower.convolutions.views import Space, Terms, View, through
from dfc.lower.fuse.places import Place, Storage
from dfc.lower.schedule.draft import (
    Draft,
    DraftCopy,
    DraftFor,
    DraftHostCall,
    DraftLaunch,
    DraftLocked,
    inner_blocks,
    own_places,
)

Key = tuple[Role, str, int]
Made = tuple[Place | None, ...]
MOST_STEPS = 8
"""Copies that a view is followed through."""


def recognise(drafts: Sequence[Draft]) -> None:
    """Notes on launches what convolution they make, and which launches serve no other purpose."""
    _Block(list(_in_line(drafts)), list(_all(drafts))).note()


def _in_line(drafts: Sequence[Draft]) -> Iterator[Draft]:
    """The steps outside of loops and branches."""
    for draft in drafts:
        if isinstance(draft, DraftLocked):
            yield from _in_line(draft.body)
        else:
            yield draft


def _all(drafts: Sequence[Draft]) -> Iterator[Draft]:
    pending = list(reversed(drafts))
    while pending:
        draft = pending.pop()
        yield draft
        for block in reversed(inner_blocks(draft)):
            pending.extend(reversed(block))


def key(storage: Storage) -> Key:
    """Equal for the same memory."""
    if storage.role is Role.RESOURCE:
        return storage.role, storage.resource, 0
    if storage.role in (Role.ARGUMENT, Role.RESULT):
        return storage.role, "", storage.index
    return storage.role, "", id(storage)


def written(draft: Draft) -> Iterator[Key]:
    """What a step writes, inner steps included. A call of the host may write all state."""
    for one in _all([draft]):
        match one:
            case DraftLaunch():
                operands = zip(one.places, one.kernel.operands, strict=True)
                yield from (key(place.storage) for place, operand in operands if operand.access != "read")
            case DraftCopy():
                yield key(one.target.storage)
            case DraftHostCall():
                yield from (key(place.storage) for place in one.outputs)
                yield ANY_STATE
            case DraftFor():
                yield key(one.index.storage)
            case _:
                pass


ANY_STATE: Key = (Role.RESOURCE, "", -1)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A factor as it was at a step of the block, at one end of a chain of copies."""

    view: View
    time: int


class _Block:
    """The steps of an entry that run one after the other."""

    def __init__(self, steps: list[Draft], everything: list[Draft]) -> None:
        self._steps, self._everything = steps, everything
        self._writes = [frozenset(written(step)) for step in steps]
        self._writers: dict[Key, list[int]] = {}
        for time, found in enumerate(self._writes):
            for each in found:
                self._writers.setdefault(each, []).append(time)
        self._copies = dict(self._all_copies())

    def _all_copies(self) -> Iterator[tuple[int, Copied]]:
        for time, step in enumerate(self._steps):
            one = copied(step) if isinstance(step, DraftLaunch) else None
            if one is not None:
                yield time, one

    def note(self) -> None:
        for time, step in enumerate(self._steps):
            if isinstance(step, DraftLaunch):
                found = self._sum(time, step) or self._copy_of_sum(time)
                if found is not None:
                    step.convolution = found
        launches = [one for one in self._everything if isinstance(one, DraftLaunch)]
        for number, launch in enumerate(launches):
            launch.number = number
        for step in reversed(self._steps):
            if isinstance(step, DraftLaunch):
                step.only_for = self._only_for(step)

    # --- convolutions

    def _sum(self, time: int, step: DraftLaunch) -> tuple[Convolution, Made] | None:
        """What the launch makes; else the sums that it goes on with."""
        found = sum_of(step)
        if found is None:
            return None
        whole = None if found.made is None else self._convolution(found, time, time, None)
        return whole or self._convolution(Sum(found.extents, found.factors), time, time, None)

    def _copy_of_sum(self, time: int) -> tuple[Convolution, Made] | None:
        """A copy of a sum that nothing else reads."""
        copy = self._copies.get(time)
        writers = [] if copy is None else self._writers.get(key(copy.source.storage), [])
        if copy is None or len(writers) != 1 or writers[0] >= time or self._is_kept(copy.source.storage, time):
            return None
        step = self._steps[writers[0]]
        found = sum_of(step) if isinstance(step, DraftLaunch) else None
        if found is None or found.made is None or found.more:
            return None
        return self._convolution(found, writers[0], time, copy)

    def _is_kept(self, storage: Storage, time: int) -> bool:
        """Whether others than this step read it."""
        steps = [one for one in self._everything if any(place.storage is storage for place in own_places(one))]
        return storage.role is not Role.ARENA or len(steps) != 2 or steps[1] is not self._steps[time]

    def _convolution(self, found: Sum, made_at: int, time: int, copy: Copied | None) -> tuple[Convolution, Made] | None:
        chains = [list(self._chain(found, factor, made_at, time)) for factor in range(2)]
        for first in reversed(range(len(chains[0]))):
            for second in reversed(range(len(chains[1]))):
                one = self._try(found, (first, second), made_at, time, copy)
                if one is not None:
                    return one
        return None

    def _chain(self, found: Sum, factor: int, made_at: int, time: int) -> Iterator[_Seen]:
        """A factor, seen through one more copy each time, as long as what is read still holds what it held."""
        yield from self._seen(found.space(), found.factors[factor], made_at, time)

    def _seen(self, space: Space, view: View, made_at: int, time: int) -> Iterator[_Seen]:
        seen = _Seen(view, made_at)
        if not self._holds(view.place.storage, made_at, time):
            return
        for _ in range(MOST_STEPS):
            yield seen
            writers = self._writers.get(key(seen.view.place.storage), [])
            copy = self._copies.get(writers[0]) if len(writers) == 1 and writers[0] < seen.time else None
            if copy is None or not self._holds(copy.source.storage, writers[0], time):
                return
            further = through(space, seen.view, copy)
            if further is None:
                return
            seen = _Seen(further, writers[0])

    def _holds(self, storage: Storage, start: int, end: int) -> bool:
        """Whether no step after `start` and up to `end` writes there, nor the steps themselves."""
        wrong = {key(storage), ANY_STATE} if storage.role is Role.RESOURCE else {key(storage)}
        return not any(wrong & found for found in self._writes[start : end + 1])

    def _try(
        self, found: Sum, lengths: tuple[int, int], made_at: int, time: int, copy: Copied | None
    ) -> tuple[Convolution, Made] | None:
        space = found.space()
        views: list[View] = []
        for factor, length in enumerate(lengths):
            *_, last = islice(self._seen(space, found.factors[factor], made_at, time), length + 1)
            views.append(last.view)
        if found.made is None:
            made, target = Flat(_in_rows(found.extents[:-1]), ZERO), None
        elif copy is None:
            flat = space.flat(found.made)
            made, target = (None if flat is None else Flat(*flat)), found.made.place
        else:
            made, target = carried_on(space, found.made, copy), copy.target
        if made is None:
            return None
        for image, plain in (views, views[::-1]):
            other = space.flat(plain)
            if other is None:
                continue
            made = Flat(space.resolved(made.terms), made.offset)
            one = convolution(space, image, Flat(*other), made)
            if one is not None:
                return self._with_more(space, one, found, made, self._places(one, image, plain, target))
        return None

    def _places(self, one: Convolution, image: View, plain: View, target: Place | None) -> Made:
        """In the order of image, filter, result."""
        if one.kind == FORWARD:
            return image.place, plain.place, target
        data = (target, plain.place, image.place)
        return data if one.kind == DATA else (image.place, target, plain.place)

    def _with_more(
        self, space: Space, one: Convolution, found: Sum, made: Flat, places: Made
    ) -> tuple[Convolution, Made] | None:
        """With what is added to finished sums: a number for each channel, and a tensor like the result."""
        if not found.more:
            return one, places
        if one.kind != FORWARD or len(one.result.extents) < 2:
            return None
        bias = added = None
        for view in found.more:
            flat = space.flat(view)
            if flat is None:
                return None
            terms, offset = space.resolved(flat[0]), flat[1]
            if _same(terms, made.terms) and added is None and view.place != places[2]:
                added = Strided(len(places), offset, one.result.extents, one.result.strides)
            elif bias is None and (stride := _along_channels(space, one, terms, made.terms)) is not None:
                bias = Strided(len(places), offset, one.result.extents[1:2], (stride,))
            else:
                return None
            places = (*places, view.place)
        if bias is None:
            return None
        return replace(one, bias=bias, added=added), places

    # --- what is there for others alone

    def _only_for(self, step: DraftLaunch) -> tuple[int, ...]:
        """The launches that read what this one writes, if each of them may be left out or made by other means."""
        targets = [p for p, o in zip(step.places, step.kernel.operands, strict=True) if o.access != "read"]
        if len(targets) != 1 or targets[0].storage.role is not Role.ARENA:
            return ()
        storage = targets[0].storage
        if len(self._writers.get(key(storage), [])) != 1:
            return ()
        readers: list[int] = []
        for one in self._everything:
            if one is step or all(place.storage is not storage for place in own_places(one)):
                continue
            if not isinstance(one, DraftLaunch):
                return ()
            if not _reads_instead(one, storage) and not one.only_for:
                return ()
            readers.append(one.number)
        return tuple(readers)


def _reads_instead(launch: DraftLaunch, storage: Storage) -> bool:
    """Whether a convolution that stands for the launch has no use for this memory."""
    places = None if launch.convolution is None else launch.convolution[1]
    return places is not None and all(one is None or one.storage is not storage for one in places)


def _in_rows(extents: Sequence[Dim]) -> Terms:
    """Sums that lie together, one row after the other."""
    return dict(enumerate(strides(extents)))


def _same(one: Terms, other: Terms) -> bool:
    return one.keys() == other.keys() and all(one[axis] == other[axis] for axis in one)


def _along_channels(space: Space, one: Convolution, terms: Terms, made: Terms) -> Dim | None:
    """The stride of a vector along the channels of the result."""
    channels = _channel_axes(space, one, made)
    if channels is None or terms.keys() != channels.keys():
        return None
    inner = one.result.strides[1]
    stride = next((terms[axis] for axis, factor in channels.items() if factor == inner), None)
    if stride is None:
        return None
    fits = all(terms[axis] * inner == factor * stride for axis, factor in channels.items())
    return stride if fits else None


def _channel_axes(space: Space, one: Convolution, made: Terms) -> Terms | None:
    """The axes that make up the channels of the result: cut as they were, each with its factor there."""
    found: Terms = {}
    reached = one.result.strides[1]
    end = one.result.strides[1] * one.result.extents[1]
    left = {factor: axis for axis, factor in made.items()}
    while reached != end:
        axis = left.pop(reached, None)
        if axis is None:
            return None
        found[axis] = reached
        reached = reached * space.extents[axis]
    return found
