"""What is computed once and what is repeated: the figures against counting, and decisions that follow from them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dfc.diagnostics.source import Span
from dfc.ir.dims import Symbol, dim
from dfc.ir.dtypes import F32, F64, DType
from dfc.ir.types import tensor
from dfc.kernels.form import ContractKernel, LoopKernel
from dfc.kernels.program import Launch, Program
from dfc.lower.fuse.fuse import fuse
from dfc.lower.fuse.fused import kernels
from dfc.lower.fuse.items.cost import (
    ASSUMED,
    Decision,
    Rates,
    Work,
    assumed,
    compare,
    evaluations,
    stage_decision,
)
from dfc.lower.fuse.items.items import ComputeItem, ReduceItem
from dfc.ops.attributes import ReduceAttributes, ShapeAttributes, SliceAttributes
from dfc.ops.lowering.index_maps import Point, along
from tests.support.graphs import variable
from tests.support.lowering import agree
from tests.support.making import Making

B = Symbol("B")
CHANNELS = 32


def numbers(*shape: int) -> np.ndarray:
    return np.linspace(0.5, 2, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def compute_item(*shape: int | Symbol) -> ComputeItem:
    m = Making()
    node = m.op("exp", m.feed("x", tensor(F32, *shape))).node
    assert node is not None
    extents = tuple(map(dim, shape))
    return ComputeItem(0, "e", Span.nowhere(), node, extents, tuple(map(along, range(len(shape)))))


@pytest.mark.parametrize("axes", [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_what_inner_loops_do_not_change_is_computed_before_them(axes: tuple[int, ...]) -> None:
    """Against a nest of loops that remembers what it has computed last."""
    extents = (3, 4, 5)
    count, last = 0, None
    for index in itertools.product(*map(range, extents)):
        known = index[: max(axes, default=-1) + 1]
        count += known != last
        last = known
    point: Point = tuple(along(axis) for axis in axes)
    assert evaluations(compute_item(*extents), [point]) == count


def test_folded_axes_are_inside_the_others() -> None:
    m = Making()
    total = m.op("sum", m.feed("x", tensor(F32, 3, 4)), attributes=ReduceAttributes((0,), False)).node
    assert total is not None
    extents, point = (dim(3), dim(4)), (along(0), along(1))
    item = ReduceItem(0, "s", Span.nowhere(), total, extents, point, (along(1),))
    assert (evaluations(item, [(along(1),)]), evaluations(item, [(along(0),)])) == (4, 12)


def test_every_point_of_a_stencil_is_computed() -> None:
    item = compute_item(10)
    assert evaluations(item, [(along(0),), (along(0),)]) == 20


def test_sizes_of_the_call_are_assumed() -> None:
    assert assumed(dim(B) * 3) == 3 * ASSUMED
    assert evaluations(compute_item(B, 7), [(along(1),)]) == 7 * ASSUMED


def test_the_cheaper_way_is_taken_and_ties_are_repeated() -> None:
    rates = Rates(memory=10, cache=1, operation=5, launch=100)
    assert Work(2, 3, 4, 1).time(rates) == 2 * 5 + 3 * 10 + 4 + 100
    assert compare(Work(memory=1), Work(operations=3), rates)
    assert not compare(Work(memory=1), Work(operations=2), rates)


def test_a_decision_says_its_figures() -> None:
    repeated = Decision("y", Work(100, memory=4_000_000), Work(12_600_100), ("B",))
    assert str(repeated) == "y is computed once: moves 4.0 MB more, saves 12.6 M operations, with B = 64"
    cheap = Decision("y", Work(100, memory=4_000_000), Work(1_100))
    assert str(cheap) == "y is repeated: saves 4.0 MB of traffic, repeats 1.0 k operations"


@pytest.mark.parametrize(
    ("weight", "dtype", "keeps"), [(4, F32, False), (8, F32, True), (4, F64, False), (8, F64, True)]
)
def test_a_later_stage_reads_back_what_is_heavy(weight: int, dtype: DType, keeps: bool) -> None:
    value = Making().feed("x", tensor(dtype, B, 100))
    assert stage_decision(value, weight, 1).keeps is keeps


# ---------------------------------------------------------------- in programs --


def reasons(program: Program) -> str:
    launches = (step for entry in program.entries for step in entry.steps if isinstance(step, Launch))
    return "\n".join(reason for launch in launches for reason in launch.reasons)


def test_a_heavy_value_of_each_channel_is_computed_once() -> None:
    m = Making()
    x, v = m.feed("x", tensor(F32, B, 64, CHANNELS)), m.feed("v", tensor(F32, CHANNELS))
    y = m.op("mul", x, m.op("rsqrt", m.op("add", v, m.constant(1e-5, F32))))
    feeds = {"x": numbers(2, 64, CHANNELS), "v": numbers(CHANNELS)}
    program, ran = agree(m.graph(y, dims=[B]), feeds, sizes={"B": 2})
    assert ran.launches == 2
    assert "rsqrt is computed once" in reasons(program)


def test_a_light_value_of_each_channel_is_repeated() -> None:
    m = Making()
    x, v = m.feed("x", tensor(F32, B, 64, CHANNELS)), m.feed("v", tensor(F32, CHANNELS))
    y = m.op("mul", x, m.op("add", v, m.constant(1e-5, F32)))
    _, ran = agree(m.graph(y, dims=[B]), {"x": numbers(2, 64, CHANNELS), "v": numbers(CHANNELS)}, sizes={"B": 2})
    assert ran.launches == 1


def test_a_heavy_value_of_each_row_is_computed_before_the_row() -> None:
    m = Making()
    x, v = m.feed("x", tensor(F32, B, 4096)), m.feed("v", tensor(F32, B, 1))
    y = m.op("mul", x, m.op("rsqrt", v))
    _, ran = agree(m.graph(y, dims=[B]), {"x": numbers(2, 4096), "v": numbers(2, 1)}, sizes={"B": 2})
    assert ran.launches == 1


def test_what_is_read_at_few_points_is_worth_no_launch() -> None:
    m = Making()
    x, v = m.feed("x", tensor(F32, 4, 8)), m.feed("v", tensor(F32, 8))
    _, ran = agree(m.graph(m.op("mul", x, m.op("exp", v))), {"x": numbers(4, 8), "v": numbers(8)})
    assert ran.launches == 1


def test_a_product_keeps_its_epilogue_when_that_reads_such_a_value() -> None:
    """The value is made after the product in the program, and has to come before it."""
    m = Making()
    x, w = m.feed("x", tensor(F32, B, 64)), m.feed("w", tensor(F32, 64, 512))
    v, u = m.feed("v", tensor(F32, 512)), m.feed("u", tensor(F32, 512))
    product = m.op("matmul", x, w)
    y = m.op("tanh", m.op("sub", m.op("mul", product, m.op("rsqrt", v)), m.op("exp", u)))
    graph = m.graph(y, dims=[B])
    feeds = {"x": numbers(3, 64), "w": numbers(64, 512), "v": numbers(512), "u": numbers(512)}
    agree(graph, feeds, sizes={"B": 3})
    first, second = (part.kernel for part in kernels(fuse(graph).entries[0].block))
    assert isinstance(first, LoopKernel)
    assert sum(len(stage.stores) for stage in first.stages) == 2
    assert isinstance(second, ContractKernel)
    assert second.epilogue


@pytest.mark.parametrize(("rows", "decision"), [(64, "computed once"), (1 << 16, "repeated")])
def test_what_two_kernels_use_is_repeated_if_it_does_not_fit_the_cache(rows: int, decision: str) -> None:
    m = Making()
    x = m.feed("x", tensor(F32, rows, 64))
    e = m.op("exp", x)
    graph = m.graph(
        m.op("sum", e, attributes=ReduceAttributes((0,), False)),
        m.op("sum", e, attributes=ReduceAttributes((1,), False)),
    )
    texts = [reason for part in kernels(fuse(graph).entries[0].block) for reason in part.reasons]
    assert any(text.startswith(f"e/exp is {decision}") for text in texts)


def test_a_fold_keeps_the_order_of_its_axes_when_it_reads_such_a_value() -> None:
    """Channels are the last axis: a kernel that goes over them first would read with long strides."""
    m = Making()
    x, v = m.feed("x", tensor(F32, B, 100, 64)), m.feed("v", tensor(F32, 64))
    graph = m.graph(m.op("sum", m.op("mul", x, m.op("rsqrt", v)), attributes=ReduceAttributes((0, 1, 2))), dims=[B])
    agree(graph, {"x": numbers(2, 100, 64), "v": numbers(64)}, sizes={"B": 2})
    once, total = (part.kernel for part in kernels(fuse(graph).entries[0].block))
    assert isinstance(total, LoopKernel)
    assert [str(axis.extent) for axis in once.axes + total.axes] == ["64", "B", "100", "64"]


def test_a_scalar_update_runs_once_beside_values_that_are_read_at_many_points() -> None:
    """Such values are computed right before their users, among the scalars that come early too."""
    m = Making(resources=[variable("n", tensor(F32))])
    x, y, z = (m.feed(name, tensor(F32, 16, 16, 32)) for name in "xyz")
    columns = m.op("sum", x, attributes=ReduceAttributes((0, 1), False))
    rows = m.op("sum", y, attributes=ReduceAttributes((2,), True))
    first = m.op("exp", m.feed("v", tensor(F32, 32)))
    reversed_ = m.op("slice", columns, attributes=SliceAttributes((dim(31),), (dim(32),), (-1,)))
    second = m.op("tanh", reversed_)
    one = m.op("slice", columns, attributes=SliceAttributes((dim(3),), (dim(1),), (1,)))
    scalar = m.op("tanh", m.op("exp", m.op("reshape", one, attributes=ShapeAttributes(()))))
    results = m.op("mul", m.op("mul", z, first), rows), m.op("mul", m.op("mul", z, first), second)
    m.assign("n", scalar, mode="+=")
    feeds = {name: numbers(16, 16, 32) / 100 for name in "xyz"} | {"v": numbers(32)}
    agree(m.graph(*results), feeds, {"n": np.float32(1)})
