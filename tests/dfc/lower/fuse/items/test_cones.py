"""What a value takes from memory on: counted by hand."""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir import walk
from dfc.ir.dims import Symbol
from dfc.ir.dtypes import F32
from dfc.ir.graph import Value
from dfc.ir.types import tensor
from dfc.lower.fuse.inline import is_inline, weight
from dfc.lower.fuse.items.cones import NEVER, Cone, cones_of
from dfc.lower.fuse.items.cost import HIDDEN
from tests.support.making import Making

B = Symbol("B")


def cones(m: Making, results: Sequence[Value], forced: Sequence[Value] = ()) -> dict[Value, Cone]:
    block = m.graph(*results, dims=[B]).entries["e"].block
    users: dict[Value, list[object]] = {}
    for node in walk.nodes(block):
        for operand in node.operands:
            users.setdefault(operand, []).append(node)
    inline = [node for node in walk.nodes(block) if is_inline(node)]
    return cones_of(inline, set(forced), users, lambda value: NEVER)


def weights(*values: Value) -> int:
    return sum(weight(value.node) for value in values if value.node is not None)


def test_a_chain_is_counted_down_to_memory() -> None:
    m = Making()
    x, y = m.feed("x", tensor(F32, B, 5)), m.feed("y", tensor(F32, B, 5))
    e = m.op("exp", x)
    z = m.op("mul", e, y)
    assert (cones(m, [z])[z].weight, cones(m, [z])[z].loaded) == (weights(e, z), 8)
    kept = cones(m, [z], forced=[e])[z]
    assert (kept.weight, kept.loaded) == (weights(z), 8)


def test_a_heavy_value_of_each_channel_is_not_counted_for_each_element() -> None:
    m = Making()
    x, v = m.feed("x", tensor(F32, B, 5)), m.feed("v", tensor(F32, 5))
    r = m.op("rsqrt", v)
    n = m.op("neg", v)
    heavy, light = m.op("mul", x, r), m.op("mul", x, n)
    assert weights(r) > HIDDEN
    cone = cones(m, [heavy, light])
    assert (cone[heavy].weight, cone[heavy].loaded) == (weights(heavy), 4)
    assert (cone[light].weight, cone[light].loaded) == (weights(light, n), 4)


def test_all_that_a_product_is_used_for_replaces_it() -> None:
    m = Making()
    x, w, v = m.feed("x", tensor(F32, B, 5)), m.feed("w", tensor(F32, 5, 5)), m.feed("v", tensor(F32, B, 5))
    h = m.op("add", m.op("matmul", x, w), v)
    cheap, heavy = m.op("neg", h), m.op("exp", h)
    cone = cones(m, [cheap, heavy])
    assert [cone[one].replaces for one in (h, cheap, heavy)] == [True, False, False]
    assert [cone[one].is_stored_by_product for one in (h, cheap, heavy)] == [True, False, True]
    assert (cone[cheap].weight, cone[cheap].several_weight) == (weights(h, cheap), weights(cheap))
    assert (cone[cheap].loaded, cone[cheap].several_loaded) == (8, 4)
