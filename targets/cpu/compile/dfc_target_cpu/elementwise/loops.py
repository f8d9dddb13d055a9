"""Loop nests of kernels: ranges over several axes, and the vector loop with its masked end.

Assumes extents >= 0. Guarantees that every point of a range is visited once, in ascending order, and that the last,
incomplete vector runs under a mask rather than as single elements.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager

from dfc_target_cpu.elementwise.accesses import Point
from dfc_target_cpu.llvm.text import FunctionText, Value
from dfc_target_cpu.llvm.values import i64, literal_int

Emit = Callable[[Value, Value | None, Value], None]
"""Called with the index of a vector's first lane, the lanes that count (None: all), and the copy it is for."""


@contextmanager
def odometer(f: FunctionText, begin: Value, end: Value, extents: Sequence[Value]) -> Generator[list[Value]]:
    """Runs over the points number `begin` to `end` (row-major) of a box; yields the index along each axis."""
    with numbered(f, begin, end, extents) as (_, indices):
        yield indices


@contextmanager
def numbered(
    f: FunctionText, begin: Value, end: Value, extents: Sequence[Value]
) -> Generator[tuple[Value, list[Value]]]:
    """`odometer` that yields the number of each point, too."""
    if len(extents) == 1:
        with f.counted_loop(begin, end, hint="row") as loop:
            yield loop.index, [loop.index]
        return
    starts = _split(f, begin, extents)
    with f.counted_loop(begin, end, hint="point") as loop:
        indices = [loop.carry(start) for start in starts]
        yield loop.index, indices
        carry: Value | None = None
        for index, extent in reversed(list(zip(indices, extents, strict=True))):
            following = f.add(index, i64(1))
            stepped = following if carry is None else f.select(carry, following, index)
            full = f.icmp("sge", stepped, extent)
            loop.next(index, f.select(full, i64(0), stepped))
            carry = full


def _split(f: FunctionText, number: Value, extents: Sequence[Value]) -> list[Value]:
    """A row-major point number as indices."""
    if literal_int(number) == 0:
        return [i64(0)] * len(extents)
    values: list[Value] = []
    for extent in reversed(extents[1:]):
        safe = f.maximum(extent, i64(1))
        values.append(f.urem(number, safe))
        number = f.udiv(number, safe)
    return [number, *reversed(values)]


@contextmanager
def nested(
    f: FunctionText,
    axes: Sequence[int],
    extents: Sequence[Value],
    point: Point,
    enter: Callable[[int, Point], None],
) -> Generator[Point]:
    """Loops over all of `axes`, outer first; `enter(depth, point)` is called in each for what becomes known there."""
    if not axes:
        yield point
        return
    with f.counted_loop(i64(0), extents[0]) as loop:
        inside = point.inner(axes[0], loop.index)
        enter(len(axes), inside)
        with nested(f, axes[1:], extents[1:], inside, enter) as innermost:
            yield innermost


def vector_loop(
    f: FunctionText,
    start: Value,
    stop: Value,
    lanes: int,
    unroll: int,
    emit: Emit,
    *,
    exact: bool = False,
    rolled: bool = False,
    masks: Sequence[Value] = (),
) -> None:
    """`emit(first index, mask, copy)` for every vector of the range: `unroll` at a time, then the rest; with `exact`
    there is none. The copy is the number of a vector modulo `unroll`, a literal unless it is `rolled`: then those at a
    time are iterations of a loop. `masks`: what `tail_masks` has made for a range of this length, if there are any."""
    if lanes == 1 and unroll == 1:
        with f.counted_loop(start, stop) as loop:
            emit(loop.index, None, i64(0))
        return
    begin = start
    if unroll > 1:
        begin = _whole_steps(f, begin, stop, lanes * unroll, lanes, emit, rolled=rolled)
        if not rolled:
            return _last_turn(f, begin, stop, lanes, unroll, emit, masks)
    turn = begin

    def behind(index: Value, mask: Value | None, _: Value) -> None:
        return emit(index, mask, f.udiv(f.sub(index, turn), i64(lanes)) if unroll > 1 else i64(0))

    begin = _whole_steps(f, begin, stop, lanes, lanes, behind, rolled=rolled)
    if lanes > 1 and not exact:
        _rest(f, begin, stop, lanes, behind, masks)


def tail_masks(f: FunctionText, length: Value, lanes: int, unroll: int, *, rolled: bool) -> list[Value]:
    """The masks of `vector_loop` for ranges whose length is `length`, or that much more than a multiple of what it
    takes at a time: computed once for many ranges. None where a vector is one lane."""
    if lanes == 1:
        return []
    copies = 1 if rolled else unroll
    rest = f.bit_and(length, i64(lanes * copies - 1))
    return [f.tail_mask(f.sub(rest, i64(copy * lanes)), lanes) for copy in range(copies)]


def _last_turn(
    f: FunctionText, start: Value, stop: Value, lanes: int, unroll: int, emit: Emit, masks: Sequence[Value]
) -> None:
    """The vectors behind the last whole turn, under masks where only the run knows how many there are."""
    known_start, known_stop = literal_int(start), literal_int(stop)
    if known_start is not None and known_stop is not None:
        for copy, first in enumerate(range(known_start, known_stop, lanes)):
            whole = first + lanes <= known_stop
            emit(i64(first), None if whole else f.tail_mask(i64(known_stop - first), lanes), i64(copy))
        return
    with ExitStack() as open_blocks:
        for copy in range(unroll):
            first = f.add(start, i64(copy * lanes))
            open_blocks.enter_context(f.when(f.icmp("slt", first, stop), "rest"))
            mask = masks[copy] if masks else None if lanes == 1 else f.tail_mask(f.sub(stop, first), lanes)
            emit(first, mask, i64(copy))


def _whole_steps(
    f: FunctionText,
    start: Value,
    stop: Value,
    step: int,
    lanes: int,
    emit: Emit,
    *,
    rolled: bool,
) -> Value:
    """Full steps only; where they end."""
    known_start, known_stop = literal_int(start), literal_int(stop)
    if known_start is not None and known_stop is not None:
        count = max(0, known_stop - known_start) // step
        end = i64(known_start + count * step)
        if count == 1:
            _one_step(f, i64(known_start), step // lanes, lanes, emit, rolled)
        if count <= 1:
            return end
    else:
        end = f.add(start, f.bit_and(f.maximum(f.sub(stop, start), i64(0)), i64(-step)))
    with f.counted_loop(start, end, step, "vector") as loop:
        _one_step(f, loop.index, step // lanes, lanes, emit, rolled)
    return end


def _one_step(f: FunctionText, start: Value, copies: int, lanes: int, emit: Emit, rolled: bool) -> None:
    if rolled and copies > 1:
        with f.counted_loop(i64(0), i64(copies), hint="turn") as turn:
            emit(f.add(start, f.mul(turn.index, i64(lanes))), None, turn.index)
        return
    for copy in range(copies):
        emit(f.add(start, i64(copy * lanes)), None, i64(copy))


def _rest(f: FunctionText, start: Value, stop: Value, lanes: int, emit: Emit, masks: Sequence[Value]) -> None:
    known_start, known_stop = literal_int(start), literal_int(stop)
    if known_start is not None and known_stop is not None:
        if known_start < known_stop:
            emit(start, f.tail_mask(i64(known_stop - known_start), lanes), i64(0))
        return
    with f.when(f.icmp("slt", start, stop), "rest"):
        emit(start, masks[0] if masks else f.tail_mask(f.sub(stop, start), lanes), i64(0))
