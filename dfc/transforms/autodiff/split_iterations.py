"""split_iterations: loops of which not every iteration is kept become loops of loops (a first step of `autodiff`).

    let x: f64 = loop x = a while c(x) {       let n: i64 = loop .. while c(x) { .. }
      x = step(x)                              let x: f64 = loop x = a for s in 0..(n + 32767) / 32768 {
    }                                    ->      x = loop x = x for l in 0..min(32, ..) {
                                                   x = loop x = x for m in 0..min(32, ..) {
                                                     x = loop x = x for k in 0..min(32, ..) { x = step(x) }
                                               } } }

The backward pass through a loop needs a buffer for what each iteration started with, and buffers have sizes known
beforehand. If only the run knows the number of iterations, the three inner loops have room for 32 iterations each: the
backward pass runs a block of 32,768 iterations again from its start, then blocks of 1,024 and 32 iterations, and keeps
96 sets of carried values at a time. A `while` is run once before, to count its iterations. A loop over sizes `with
recompute = k` becomes a loop over segments of k iterations.

Only loops that a differentiated value depends on are split. They run more than once: one with effects stays, for these
alone, and what is split is a copy that has what it needs of state as carried values (`stateless`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dfc.ir import walk
from dfc.ir.dims import ZERO, Dim, ceil_divide, dim
from dfc.ir.dtypes import I64
from dfc.ir.graph import Block, Node, Value
from dfc.ir.names import name_nodes
from dfc.ir.regions import ForView, controls, for_node, for_view, view, while_node, while_view
from dfc.ir.rewrite import Cloner, Pass, RewriteSite, rebuild, with_parts
from dfc.ir.types import TensorType
from dfc.ops.attributes import ForAttributes, SliceAttributes
from dfc.ops.builder import Builder
from dfc.ops.control.iterations import size_of
from dfc.ops.effects.effects import is_pure
from dfc.transforms.autodiff.row_products import ROWS, has_products
from dfc.transforms.autodiff.stateless import pure_twin
from dfc.transforms.scalar.matching import GRADIENT_OPS, ancestors

NAME = "split_iterations"
ROOM, LEVELS = 32, 3
Iteration = Callable[[Builder, Value, Sequence[Value]], Sequence[Value]]
"""Appends one iteration: from its number, counted from zero, and carried values to the next ones and what is
emitted."""


def split_block(block: Block, *, shared: bool = False) -> Block:
    """`shared`: other calls may change state while this one runs."""
    loops = _differentiated(block)
    return name_nodes(rebuild(block, _Split(loops, shared)), block) if loops else block


def _differentiated(block: Block) -> set[Node]:
    """The loops to split that are, or are inside, something that a gradient is taken of."""
    losses = [node.operands[0] for node in walk.nodes(block) if node.op in GRADIENT_OPS]
    above = [node for node in ancestors(losses) if node.regions]
    inside = [inner for node in above for region in node.regions for inner in walk.nodes(region)]
    return {node for node in (*above, *inside) if _is_unbounded(node) or _is_in_segments(node)}


def _is_unbounded(node: Node) -> bool:
    is_for = isinstance(node.attributes, ForAttributes) and node.attributes.trips is None
    fractions = any(isinstance(v.type, TensorType) and v.tensor.machine.is_float for v in node.results)
    return fractions and (node.op == "while" or is_for)


def _is_in_segments(node: Node) -> bool:
    """`with recompute = k`, but for the one iteration of a call that is computed again."""
    attributes = node.attributes
    if not isinstance(attributes, ForAttributes) or not attributes.recompute or attributes.trips is None:
        return False
    return attributes.trips.constant != 1


class _Split(Pass):
    def __init__(self, loops: set[Node], shared: bool) -> None:
        self._loops = loops
        self._shared = shared

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        if site.node not in self._loops:
            return None
        kept = site.kept()
        builder = Builder.appending(site.output, name=kept.name, span=kept.span)
        if is_pure(kept):
            return _split(builder, kept, _count(builder, kept) if kept.op == "while" else None)
        return _outside_effects(builder, kept, shared=self._shared)


def _outside_effects(builder: Builder, node: Node, *, shared: bool) -> Sequence[Value]:
    """The loop for its effects, and the split copy without effects for its values."""
    twin = pure_twin(builder, node, shared=shared)
    plain = len(view(node).results.tensors)
    if node.op == "while":
        run = _counting(builder, node, twin.operands)
        values = _split(builder, twin.node, run.result)
        return [*values[:plain], *view(run).results.tokens]
    run = with_parts(node, twin.operands, [Cloner().block(region) for region in node.regions])
    builder.block.nodes.append(run)
    values = twin.values(_split(builder, twin.node, None))
    return [*values, *view(run).results.tokens]


def _split(builder: Builder, node: Node, count: Value | None) -> Sequence[Value]:
    """The loops that take the place of one without effects; `count` is the number of iterations of a `while`."""
    if node.op == "while":
        body = while_view(node).body

        def one_iteration(inner: Builder, _number: Value, carries: Sequence[Value]) -> Sequence[Value]:
            return Cloner().call(body, carries, inner.block.nodes)

        assert count is not None
        return _in_blocks(builder, count, node.operands, one_iteration)
    parts = for_view(node)
    if parts.attributes.trips is not None:
        return _in_segments(builder, parts, parts.attributes.trips)
    return _in_blocks(builder, trip_count(builder, parts.start, parts.stop), parts.initial.all, _iteration_of(parts))


def _iteration_of(parts: ForView) -> Iteration:
    body, start = parts.body, parts.start
    dtype = start.tensor.dtype
    assert isinstance(dtype, type(I64))

    def one_iteration(inner: Builder, number: Value, carries: Sequence[Value]) -> Sequence[Value]:
        index = inner.apply("add", start, inner.cast(number, dtype))
        return Cloner().call(body, [index, *carries], inner.block.nodes)

    return one_iteration


def _count(builder: Builder, node: Node) -> Value:
    """How many iterations a `while` runs: the same loop with one more carried value."""
    return _counting(builder, node, node.operands).result


def _counting(builder: Builder, node: Node, operands: Sequence[Value]) -> Node:
    condition, body = (Cloner().block(region) for region in node.regions)
    before, now = Value(TensorType(I64), "iteration"), Value(TensorType(I64), "iteration")
    condition.parameters = (before, *condition.parameters)
    body.parameters = (now, *body.parameters)
    inside = Builder(body, name=f"{node.name}/count", span=node.span)
    body.outputs = (inside.apply("add", now, inside.constant(1, I64)), *body.outputs)
    return builder.append(while_node((builder.constant(0, I64), *operands), condition, body, origin=builder))


def trip_count(builder: Builder, start: Value, stop: Value) -> Value:
    """From `start` to below `stop`, as i64; none if that is negative."""
    distance = builder.apply("sub", builder.cast(stop, I64), builder.cast(start, I64))
    return builder.apply("maximum", distance, builder.constant(0, I64))


# ---------------------------------------------------------------- segments --


def _in_segments(builder: Builder, parts: ForView, trips: Dim) -> Sequence[Value]:
    """A loop over segments of `recompute` iterations: of full blocks of rows where these are multiplied block by
    block."""
    count, length = len(parts.initial.values), parts.attributes.recompute
    if has_products(parts.node):
        length = -(-length // ROWS) * ROWS
    segments, one_iteration = ceil_divide(trips, dim(length)), _iteration_of(parts)
    known = all(size_of(v) is not None for v in controls(parts))
    total = builder.size(trips) if known else trip_count(builder, parts.start, parts.stop)
    full = known and segments * dim(length) == trips

    def segment(inner: Builder, number: Value, now: Sequence[Value]) -> Sequence[Value]:
        base = _times(inner, number, length)

        def single(last: Builder, offset: Value, state: Sequence[Value]) -> Sequence[Value]:
            return one_iteration(last, last.apply("add", base, offset), state)

        trips = inner.size(length) if full else _at_most(inner, inner.apply("sub", total, base), length)
        return _loop(inner, trips, dim(length), now, single)

    segment_trips = builder.size(segments) if known else _blocks(builder, total, length)
    results = _loop(builder, segment_trips, segments, parts.initial.all, segment, recompute=1)
    emits = [_rows(builder, v, trips, segments * dim(length)) for v in results[count:]]
    return [*results[:count], *emits]


def _rows(builder: Builder, stacked: Value, trips: Dim, room: Dim) -> Value:
    """What segments have emitted as one stack; the last rows may have no meaning."""
    shape = stacked.tensor.shape[2:]
    flat = builder.reshape(stacked, (room, *shape))
    if room == trips:
        return flat
    stack_shape = (trips, *shape)
    kept = SliceAttributes((ZERO,) * len(stack_shape), stack_shape, (1,) * len(stack_shape))
    return builder.apply("slice", flat, attributes=kept)


# ------------------------------------------------------------------ blocks --


def _in_blocks(builder: Builder, total: Value, carries: Sequence[Value], one_iteration: Iteration) -> Sequence[Value]:
    """The outermost loop, over as many blocks as there are."""
    size = ROOM**LEVELS

    def block(inner: Builder, number: Value, now: Sequence[Value]) -> Sequence[Value]:
        first = _times(inner, number, size)
        return _block(inner, first, inner.apply("sub", total, first), size // ROOM, now, one_iteration)

    return _loop(builder, _blocks(builder, total, size), None, carries, block)


def _block(
    builder: Builder, first: Value, left: Value, size: int, carries: Sequence[Value], one_iteration: Iteration
) -> Sequence[Value]:
    """At most `ROOM` blocks of `size` iterations, beginning with the iteration `first`, if so many are left."""

    def inside(inner: Builder, number: Value, now: Sequence[Value]) -> Sequence[Value]:
        if size == 1:
            return one_iteration(inner, inner.apply("add", first, number), now)
        offset = _times(inner, number, size)
        rest = inner.apply("sub", left, offset)
        return _block(inner, inner.apply("add", first, offset), rest, size // ROOM, now, one_iteration)

    trips = left if size == 1 else _blocks(builder, left, size)
    return _loop(builder, _at_most(builder, trips, ROOM), dim(ROOM), carries, inside)


def _loop(
    builder: Builder, trips: Value, room: Dim | None, carries: Sequence[Value], body: Iteration, recompute: int = 0
) -> Sequence[Value]:
    """`for number in 0..iterations` over the carried values, and what the iterations emit."""
    number, inner = Value(TensorType(I64), "iteration"), [Value(v.type, v.name) for v in carries]
    block = Block((number, *inner))
    block.outputs = tuple(body(Builder(block, name=builder.name, span=builder.span), number, inner))
    first = builder.constant(0, I64)
    node = for_node(first, trips, carries, block, trips=room, recompute=recompute, origin=builder)
    return builder.append(node).results


def _times(builder: Builder, value: Value, factor: int) -> Value:
    return builder.apply("mul", value, builder.constant(factor, I64))


def _at_most(builder: Builder, value: Value, most: int) -> Value:
    return builder.apply("minimum", value, builder.constant(most, I64))


def _blocks(builder: Builder, trips: Value, size: int) -> Value:
    """How many blocks of `size` cover the iterations."""
    more = builder.apply("add", trips, builder.constant(size - 1, I64))
    return builder.apply("floordiv", more, builder.constant(size, I64))
