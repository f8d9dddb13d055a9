"""Every record says what passes ask about its op, or means the default; and the defaults are safe."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from dfc.ir.dims import Symbol, dim
from dfc.ir.dtypes import F32, I64
from dfc.ir.graph import Block, Node
from dfc.ir.types import TensorType
from dfc.ops import registry, table
from dfc.ops.attributes import AxisAttributes, PermutationAttributes, ReduceAttributes, ShapeAttributes
from dfc.ops.builder import Builder
from dfc.ops.linalg.rules import factorisation
from dfc.ops.lowering.forms import Decompose, View
from dfc.ops.lowering.index_maps import added, along
from dfc.ops.record import OpRecord
from dfc.ops.rules.costs import Cost, product
from dfc.ops.rules.degrees import FLAT, Degree, Sizes
from dfc.ops.rules.lookup import cost_of, degree_of, use_of
from dfc.ops.rules.op_rules import DEFAULTS, OpRules
from dfc.ops.rules.row_factors import rows_of, sign_of
from dfc.ops.rules.row_sparsity import Sparse, Term
from dfc.ops.rules.sharding import COMMON, SUM, Cutting, Split
from dfc.ops.rules.signs import Sign
from dfc.ops.rules.use import NeededWhole
from tests.support.one_test_for_all import one_test_for_all

RULES = [field.name for field in fields(OpRules) if getattr(DEFAULTS, field.name) is not None and field.default is None]
"""The fields that are rules; the others are facts, which hold or not."""
MET = [record for record in registry.all_records() if not isinstance(record.lowering, Decompose)]
"""Ops that passes meet: `expand` has replaced the others."""
B = Symbol("B")
BLOCKS = Cutting(B, 4)


def test_the_rules_are_these() -> None:
    assert RULES == ["sharding", "degree", "cost", "row_sparsity", "sign", "statistic"]


@one_test_for_all(MET)
def test_a_record_states_each_rule_or_means_the_default(record: OpRecord) -> None:
    assert [name for name in RULES if getattr(record.rules, name) is None] == []


def test_loops_keep_products_and_factorisations_for_the_backward_pass() -> None:
    saved = {record.name for record in registry.all_records() if record.rules.saved_for_backward}
    assert saved == {record.name for record in registry.all_records() if record.rules.cost in (product, factorisation)}
    assert {"matmul", "einsum", "conv1d", "conv2d", "cholesky", "solve", "inverse", "qr", "svd"} <= saved


def node_of(op: str, *shapes: tuple[object, ...], attributes: object = None) -> tuple[Builder, Node]:
    builder = Builder(Block())
    operands = [builder.apply("broadcast", builder.constant(np.float32(2), F32), attributes=_shape(s)) for s in shapes]
    extra = {} if attributes is None else {"attributes": attributes}
    value = builder.apply(op, *operands, **extra)  # type: ignore[arg-type]
    assert value.node is not None
    return builder, value.node


def _shape(shape: tuple[object, ...]) -> ShapeAttributes:
    return ShapeAttributes(tuple(dim(size) for size in shape))  # type: ignore[arg-type]


@pytest.fixture(params=["sum", "cumsum", "add", "exp"])
def bare(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Builder, Node]:
    """A node of an op whose record has no rules, as one from another package may be."""
    name = request.param
    attributes = {"sum": ReduceAttributes((0,)), "cumsum": AxisAttributes(0)}.get(name)
    found = node_of(name, *[(B, 3)] * (2 if name == "add" else 1), attributes=attributes)
    monkeypatch.setitem(table.RECORDS, name, replace(registry.record(name), rules=OpRules()))
    return found


def test_without_a_rule_pieces_go_through_element_wise_ops_alone(bare: tuple[Builder, Node]) -> None:
    node = bare[1]
    pieces = [Split(0)] * len(node.operands)
    if node.op in ("add", "exp"):
        assert use_of(node, pieces, BLOCKS).results == (Split(0),)
    else:
        with pytest.raises(NeededWhole, match=f"`{node.op}` looks at all of it"):
            use_of(node, pieces, BLOCKS)


def test_without_a_rule_a_view_gives_pieces_along_axes_that_it_reads_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = node_of("transpose", (B, 3), attributes=PermutationAttributes((1, 0)))[1]
    monkeypatch.setitem(table.RECORDS, "transpose", replace(registry.record("transpose"), rules=OpRules()))
    assert use_of(node, [Split(0)], BLOCKS).results == (Split(1),)
    assert use_of(node, [SUM], BLOCKS).results == (SUM,)
    monkeypatch.setitem(
        table.RECORDS,
        "transpose",
        replace(registry.record("transpose"), lowering=View(lambda _node: (along(1), added(along(0), along(1))))),
    )
    for axis in (0, 1):
        with pytest.raises(NeededWhole, match="along the axis that is cut"):
            use_of(node, [Split(axis)], BLOCKS)


def test_without_a_rule_parts_of_sums_are_never_taken(bare: tuple[Builder, Node]) -> None:
    node = bare[1]
    with pytest.raises(NeededWhole):
        use_of(node, [SUM] * len(node.operands), BLOCKS)
    assert use_of(node, [COMMON] * len(node.operands), BLOCKS).results == (COMMON,)


def test_without_a_rule_nothing_is_known_of_what_grows(bare: tuple[Builder, Node]) -> None:
    node, sizes = bare[1], Sizes({B: 1.0})
    assert degree_of(node, [Degree(1.0)] * len(node.operands), sizes) is None
    assert degree_of(node, [FLAT] * len(node.operands), sizes) == FLAT


def test_without_a_rule_a_node_takes_the_time_of_its_memory(bare: tuple[Builder, Node]) -> None:
    node = bare[1]
    values = (*node.operands, node.result)
    moved = sum(4 * np.prod([5 if size.symbols() else size.constant for size in v.tensor.shape]) for v in values)
    assert cost_of(node, lambda size: size.evaluate({B: 5})) == Cost(bytes=moved)


def test_what_picks_elements_takes_the_time_of_what_it_picks() -> None:
    builder = Builder(Block())
    whole = builder.apply("broadcast", builder.constant(np.float32(2), F32), attributes=_shape((10**6, 8)))
    ids = builder.constant(np.array([5, 0, 7], np.int64), I64)
    node = builder.apply("gather", whole, ids, attributes=AxisAttributes(0)).node
    assert node is not None
    assert cost_of(node, lambda size: size.evaluate({})) == Cost(bytes=3 * 8 + 2 * 4 * 3 * 8)


def test_without_a_rule_rows_become_dense_but_where_zeros_stay_zeros(bare: tuple[Builder, Node]) -> None:
    builder, node = bare
    rows = Sparse((Term((node.operands[0],), node.operands[0], distinct=True),))
    assert rows_of(builder, node, [rows] * len(node.operands)) is None or node.op == "add"
    assert sign_of(node.result) is Sign.UNKNOWN


def test_a_type_of_a_cut_value_is_that_of_its_piece() -> None:
    whole = TensorType(F32, (dim(B), dim(3)))
    assert BLOCKS.type_of(whole, Split(0)) == whole
    assert BLOCKS.type_of(whole, COMMON) == TensorType(F32, (4 * dim(B), dim(3)))
