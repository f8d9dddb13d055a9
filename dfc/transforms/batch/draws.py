"""Random numbers for a batch, as numbers that each block can compute for itself.

    let x: f32[B, 4] = draw(dice)   ->   let s = read(dice)
                                         dice := s + [0, 0, 1, 0]
                                         let x = random_at(4 * row + column, s[0], s[1], s[2])

A number depends on its position in the whole draw alone, so every block has those that the undivided program gives it;
and the rng counts one draw, however many blocks there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dfc.ir.dims import ONE, Dim, product
from dfc.ir.dtypes import I64, U64
from dfc.ir.graph import Entry, Value
from dfc.ir.names import name_nodes
from dfc.ir.rewrite import Pass, RewriteSite, rebuild
from dfc.ir.types import TensorType
from dfc.ops.attributes import (
    AssignAttributes,
    AxisAttributes,
    DrawAttributes,
    RandomAtAttributes,
    RandomAttributes,
    RedrawAttributes,
    ResourceAttributes,
    TypeAttributes,
)
from dfc.ops.builder import Builder
from dfc.ops.creation.philox import stream_key
from dfc.ops.effects.state import RNG
from dfc.ops.rules.sharding import Cutting


def numbered(entry: Entry, cutting: Cutting) -> Entry:
    """The entry with every draw that can be cut as numbers of its elements."""
    block = rebuild(entry.block, _Numbering(cutting))
    return entry if block is entry.block else replace(entry, block=name_nodes(block, entry.block))


class _Numbering(Pass):
    def __init__(self, cutting: Cutting) -> None:
        self._cutting = cutting

    def visit(self, site: RewriteSite) -> Sequence[Value] | None:
        how = site.node.attributes
        if not isinstance(how, DrawAttributes | RandomAttributes | RedrawAttributes):
            return None
        if self._cutting.first_axis(how.type.shape) is None:
            return None
        output = Builder.appending(site.output, name=f"{site.node.name}/place", span=site.node.span)
        elements = _elements(output, how.type.shape)
        if isinstance(how, RandomAttributes):
            key = [output.constant(np.uint64(word), U64) for word in (*stream_key(how.seed, how.stream), 0)]
            tokens: tuple[Value, ...] = ()
        elif isinstance(how, RedrawAttributes):
            key, tokens = _words(output, site.operands[0]), ()
        else:
            key, token = _next(output, how.resource, site.operands[0])
            tokens = (token,)
        output.name = site.node.name
        attributes = RandomAtAttributes(how.distribution, how.type.machine)
        return (output.apply("random_at", elements, *key, attributes=attributes), *tokens)


def _next(output: Builder, resource: str, token: Value) -> tuple[list[Value], Value]:
    """The key and the number of the next draw of an rng, which has counted it."""
    before, token = output.add("read", (token,), (RNG, token.type), ResourceAttributes(resource)).results
    one_more = output.constant(np.array([0, 0, 1, 0], np.uint64), U64)
    after = output.apply("add", before, one_more)
    counted = output.add("assign", (after, token), (token.type,), AssignAttributes(resource, ":=")).result
    return _words(output, before), counted


def _words(output: Builder, state: Value) -> list[Value]:
    """The key of an rng in this state, and the number of its next draw."""
    first = AxisAttributes(0)
    return [output.apply("gather", state, output.constant(word, I64), attributes=first) for word in range(3)]


def _elements(output: Builder, shape: Sequence[Dim]) -> Value:
    """The row-major number of every element of a tensor."""
    total: Value | None = None
    for axis, size in enumerate(shape):
        if size == ONE:
            continue
        positions = output.apply("iota", attributes=TypeAttributes(TensorType(I64, (size,))))
        stride = product(shape[axis + 1 :])
        if stride != ONE:
            positions = output.apply("mul", positions, output.size(stride))
        term = output.reshape(positions, tuple(size if other == axis else ONE for other in range(len(shape))))
        total = term if total is None else output.apply("add", total, term)
    assert total is not None
    return total
