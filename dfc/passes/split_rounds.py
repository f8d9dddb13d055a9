"""split_rounds: loops whose number of rounds only the run knows become loops of loops (a first step of `autodiff`).

    let x: f64 = loop x = a while c(x) {       let n: i64 = loop .. while c(x) { .. }
      x = step(x)                              let x: f64 = loop x = a for s in 0..(n + 1023) / 1024 {
    }                                    ->      x = loop x = x for m in 0..min(32, ..) {
                                                   x = loop x = x for k in 0..min(32, ..) { x = step(x) }
                                               } }

The way back through a loop needs a place for what each round started with, and places have sizes known beforehand. The
two inner loops have room for 32 rounds each: the way back runs a block of 1,024 rounds again from its start, then
blocks of 32 rounds, and keeps 64 sets of carried values at a time. A `while` is run once before, to count its rounds.

Only loops that a differentiated value depends on are split, and only such without effects: they run more than once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dfc.ir import walk
from dfc.ir.dims import Dim, dim
from dfc.ir.dtypes import I64
from dfc.ir.graph import Block, Node, Value
from dfc.ir.names import name_nodes
from dfc.ir.rewrite import Cloner, Pass, Site, rebuild
from dfc.ir.types import TensorType
from dfc.ops.attributes import ForAttributes
from dfc.ops.builder import Builder
from dfc.ops.effects import is_pure
from dfc.passes.matching import GRADIENT_OPS, ancestors

NAME = "split_rounds"
ROOM = 32
Round = Callable[[Builder, Value, Sequence[Value]], Sequence[Value]]
"""Appends one round: from its number, counted from zero, and the carried values to the next ones."""


def split_block(block: Block) -> Block:
    found = _differentiated(block)
    return name_nodes(rebuild(block, _Split(found)), block) if found else block


def _differentiated(block: Block) -> set[Node]:
    """The loops of unknown length that are, or are inside, something that a gradient is taken of."""
    losses = [node.operands[0] for node in walk.nodes(block) if node.op in GRADIENT_OPS]
    above = [node for node in ancestors(losses) if node.regions]
    inside = [inner for node in above for region in node.regions for inner in walk.nodes(region)]
    return {node for node in (*above, *inside) if _is_unbounded(node) and is_pure(node)}


def _is_unbounded(node: Node) -> bool:
    is_for = isinstance(node.attributes, ForAttributes) and node.attributes.trips is None
    fractions = any(isinstance(v.type, TensorType) and v.tensor.machine.is_float for v in node.results)
    return fractions and (node.op == "while" or is_for)


class _Split(Pass):
    def __init__(self, found: set[Node]) -> None:
        self._found = found

    def visit(self, site: Site) -> Sequence[Value] | None:
        if site.node not in self._found:
            return None
        kept = site.kept()
        builder = Builder.appending(site.output, name=kept.name, span=kept.span)
        return _split_while(builder, kept) if kept.op == "while" else _split_for(builder, kept)


def _split_while(builder: Builder, node: Node) -> Sequence[Value]:
    _, body = node.regions

    def one_round(inner: Builder, _number: Value, carries: Sequence[Value]) -> Sequence[Value]:
        return Cloner().call(body, carries, inner.block.nodes)

    return _in_blocks(builder, _count(builder, node), node.operands, one_round)


def _count(builder: Builder, node: Node) -> Value:
    """How many rounds a `while` runs: the same loop with one more carried value."""
    condition, body = (Cloner().block(region) for region in node.regions)
    before, now = Value(TensorType(I64), "round"), Value(TensorType(I64), "round")
    condition.parameters = (before, *condition.parameters)
    body.parameters = (now, *body.parameters)
    inside = Builder(body, name=f"{node.name}/count", span=node.span)
    body.outputs = (inside.apply("add", now, inside.constant(1, I64)), *body.outputs)
    operands = (builder.constant(0, I64), *node.operands)
    return builder.add("while", operands, [v.type for v in operands], regions=(condition, body)).result


def _split_for(builder: Builder, node: Node) -> Sequence[Value]:
    (body,) = node.regions
    start, stop = node.operands[:2]
    assert isinstance(start.tensor.dtype, type(I64))
    dtype = start.tensor.dtype

    def one_round(inner: Builder, number: Value, carries: Sequence[Value]) -> Sequence[Value]:
        index = inner.apply("add", start, inner.cast(number, dtype))
        return Cloner().call(body, [index, *carries], inner.block.nodes)

    return _in_blocks(builder, rounds_to_run(builder, start, stop), node.operands[2:], one_round)


def rounds_to_run(builder: Builder, start: Value, stop: Value) -> Value:
    """From `start` to below `stop`, as i64; none if that is negative."""
    distance = builder.apply("sub", builder.cast(stop, I64), builder.cast(start, I64))
    return builder.apply("maximum", distance, builder.constant(0, I64))


def _in_blocks(builder: Builder, total: Value, carries: Sequence[Value], one_round: Round) -> Sequence[Value]:
    def large(inner: Builder, number: Value, now: Sequence[Value]) -> Sequence[Value]:
        base = _times(inner, number, ROOM * ROOM)
        left = inner.apply("sub", total, base)

        def small(innermost: Builder, place: Value, then: Sequence[Value]) -> Sequence[Value]:
            first = innermost.apply("add", base, _times(innermost, place, ROOM))

            def single(last: Builder, offset: Value, state: Sequence[Value]) -> Sequence[Value]:
                return one_round(last, last.apply("add", first, offset), state)

            rest = innermost.apply("sub", total, first)
            return _loop(innermost, _at_most(innermost, rest), dim(ROOM), then, single)

        return _loop(inner, _at_most(inner, _blocks(inner, left, ROOM)), dim(ROOM), now, small)

    return _loop(builder, _blocks(builder, total, ROOM * ROOM), None, carries, large)


def _loop(builder: Builder, rounds: Value, room: Dim | None, carries: Sequence[Value], body: Round) -> Sequence[Value]:
    """`for number in 0..rounds` over the carried values."""
    number, inner = Value(TensorType(I64), "round"), [Value(v.type, v.name) for v in carries]
    block = Block((number, *inner))
    block.outputs = tuple(body(Builder(block, name=builder.name, span=builder.span), number, inner))
    operands = (builder.constant(0, I64), rounds, *carries)
    attributes = ForAttributes(len(carries), room)
    return builder.add("for", operands, [v.type for v in carries], attributes, (block,)).results


def _times(builder: Builder, value: Value, factor: int) -> Value:
    return builder.apply("mul", value, builder.constant(factor, I64))


def _at_most(builder: Builder, value: Value) -> Value:
    return builder.apply("minimum", value, builder.constant(ROOM, I64))


def _blocks(builder: Builder, rounds: Value, size: int) -> Value:
    """How many blocks of `size` cover the rounds."""
    more = builder.apply("add", rounds, builder.constant(size - 1, I64))
    return builder.apply("floordiv", more, builder.constant(size, I64))
