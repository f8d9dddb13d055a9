"""State, loops and conditions: order of effects, writes in place, hazards."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.diagnostics.source import NOWHERE
from dfc.ir.dims import Symbol, dim
from dfc.ir.dtypes import BOOL, F32, F64, I32, I64, U64
from dfc.ir.graph import Resource, ResourceKind
from dfc.ir.types import tensor
from dfc.kernels.program import BufferRole
from dfc.ops.attributes import (
    AxesAttributes,
    AxisAttributes,
    OperandSelector,
    PermutationAttributes,
    RangeSelector,
    ReduceAttributes,
    SliceAttributes,
)
from dfc.ops.creation import philox
from tests.support.graphs import variable
from tests.support.kernel_interpreter import run
from tests.support.kernel_points import Failed
from tests.support.lowering import agree
from tests.support.making import Making

N = Symbol("N")
W = variable("w", tensor(F32, 4, 3))
V = variable("v", tensor(F32, 6))
S = variable("s", tensor(F64))


def numbers(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return np.linspace(-2, 3, int(np.prod(shape)), dtype=dtype).reshape(shape)


def test_an_update_writes_in_place():
    m = Making(resources=[W, variable("total", tensor(F32, 4, 3))])
    g = m.feed("g", tensor(F32, 4, 3))
    m.assign("total", m.op("mul", g, g), mode="+=")
    m.assign("w", m.op("div", g, m.op("sqrt", m.read("total"))), mode="-=")
    program, ran = agree(
        m.graph(), {"g": numbers(4, 3)}, {"w": numbers(4, 3) + 1, "total": np.ones((4, 3), np.float32)}
    )
    assert ran.launches == 1
    assert not any(b.role is BufferRole.ARENA for b in program.entries[0].buffers)


def test_a_snapshot_survives_a_write():
    m = Making(resources=[W])
    old = m.read("w")
    m.assign("w", m.op("exp", old))
    new = m.read("w")
    agree(m.graph(old, new, m.op("add", old, new)), {}, {"w": numbers(4, 3)})


def test_a_snapshot_needed_after_a_dependent_value():
    m = Making(resources=[V])
    old = m.read("v")
    m.assign("v", m.op("exp", old))
    total = m.op("sum", m.read("v"), attributes=ReduceAttributes((0,)))
    agree(m.graph(m.op("mul", old, total)), {}, {"v": numbers(6)})


def test_a_sum_is_added_once_though_a_later_stage_needs_it_too():
    m = Making(resources=[V, variable("total", tensor(F32))])
    everything = ReduceAttributes((0,))
    m.assign("total", m.op("sum", m.read("v"), attributes=everything), mode="-=")
    m.assign("v", m.constant(3.0, F32), mode="-=", selectors=(RangeSelector(dim(1), dim(3)),))
    m.assign("total", m.op("sum", m.read("v"), attributes=everything), mode="+=")
    total = m.read("total")
    scaled = m.op("mul", m.read("v"), total)
    m.assign("v", m.op("square", total), mode="+=", selectors=(RangeSelector(dim(1), dim(5)),))
    agree(m.graph(scaled), {}, {"v": numbers(6), "total": np.float32(3)})


def test_a_stencil_in_place_goes_through_memory():
    m = Making(resources=[W])
    u = m.read("w")

    def part(i: int, j: int):
        return m.op("slice", u, attributes=SliceAttributes((dim(i), dim(j)), (dim(2), dim(1)), (1, 1)))

    near = m.op("add", m.op("add", part(0, 1), part(2, 1)), m.op("add", part(1, 0), part(1, 2)))
    middle = (RangeSelector(dim(1), dim(2)), RangeSelector(dim(1), dim(1)))
    m.assign("w", near, mode="+=", selectors=middle)
    _, ran = agree(m.graph(m.read("w")), {}, {"w": numbers(4, 3)})
    assert ran.launches == 3


def test_what_is_assigned_from_a_reversal_of_itself_is_returned_too():
    m = Making(resources=[V])
    m.assign("v", m.op("slice", m.read("v"), attributes=SliceAttributes((dim(5),), (dim(6),), (-1,))))
    agree(m.graph(m.read("v")), {}, {"v": numbers(6)})


def test_a_whole_assignment_from_a_reversal_of_itself():
    m = Making(resources=[V])
    r = m.op("slice", m.read("v"), attributes=SliceAttributes((dim(5),), (dim(6),), (-1,)))
    m.assign("v", r)
    agree(m.graph(), {}, {"v": numbers(6)})


@pytest.mark.parametrize("mode", [":=", "+=", "-=", "*=", "/="])
def test_rows_picked_by_ids_in_order(mode: str):
    m = Making(resources=[W])
    ids, rows = m.feed("ids", tensor(I32, 5)), m.feed("rows", tensor(F32, 5, 3))
    places = (OperandSelector(0), RangeSelector(dim(0), dim(3)))
    m.assign("w", rows, ids, mode=mode, selectors=places)
    feeds = {"ids": np.array([1, -1, 1, 0, 3], np.int32), "rows": numbers(5, 3) + 5}
    agree(m.graph(), feeds, {"w": numbers(4, 3)})


def test_a_point_by_operands():
    m = Making(resources=[W])
    i, j = m.feed("i", tensor(I64)), m.feed("j", tensor(I32))
    m.assign("w", m.constant(7, F32), i, j, mode="+=", selectors=(OperandSelector(0), OperandSelector(1)))
    agree(m.graph(), {"i": np.int64(2), "j": np.int32(-1)}, {"w": numbers(4, 3)})


def test_an_index_outside_names_its_fault():
    m = Making()
    x, i = m.feed("x", tensor(F32, 4)), m.feed("i", tensor(I64))
    program, _ = agree(
        m.graph(m.op("gather", x, i, attributes=AxisAttributes(0))), {"x": numbers(4), "i": np.int64(-4)}
    )
    with pytest.raises(Failed) as failed:
        run(program, "e", [numbers(4), np.int64(4)])
    assert program.faults[failed.value.site].kind == "index"


def test_integer_division_by_zero_names_its_fault():
    m = Making()
    x, y = m.feed("x", tensor(I32, 3)), m.feed("y", tensor(I32, 3))
    graph = m.graph(m.op("floordiv", x, y), m.op("mod", x, y))
    program, _ = agree(graph, {"x": np.int32([7, -7, 3]), "y": np.int32([2, 2, -2])})
    with pytest.raises(Failed) as failed:
        run(program, "e", [np.int32([1, 2, 3]), np.int32([1, 0, 1])])
    assert program.faults[failed.value.site].kind == "division"


def test_a_negative_power_of_an_integer_names_its_fault():
    m = Making()
    x, y = m.feed("x", tensor(I32, 3)), m.feed("y", tensor(I32, 3))
    program, _ = agree(m.graph(m.op("pow", x, y)), {"x": np.int32([7, -7, 3]), "y": np.int32([2, 0, 5])})
    with pytest.raises(Failed) as failed:
        run(program, "e", [np.int32([1, 2, 3]), np.int32([1, -1, 1])])
    assert program.faults[failed.value.site].kind == "power"


def test_a_constant_power_that_is_not_negative_needs_no_check():
    m = Making()
    x = m.feed("x", tensor(I32, 3))
    program, _ = agree(m.graph(m.op("pow", x, m.constant(5, I32))), {"x": np.int32([7, -7, 3])})
    assert not program.faults


def test_an_assertion_that_fails():
    m = Making(resources=[S])
    x = m.feed("x", tensor(F64))
    m.check(m.op("less", x, m.constant(1, F64)), "x is large")
    m.assign("s", x)
    program, _ = agree(m.graph(), {"x": np.float64(0.5)}, {"s": np.float64(0)})
    state = {"s": np.array(0.0)}
    with pytest.raises(Failed) as failed:
        run(program, "e", [np.float64(2)], state)
    assert program.faults[failed.value.site].message == "x is large"
    assert state["s"] == 0


def test_a_while_loop_over_scalars_uses_registers_only():
    m = Making()
    x, k = m.feed("x", tensor(F64)), m.feed("k", tensor(I32))
    half, least, one = m.constant(0.5, F64), m.constant(1, F64), m.constant(1, I32)
    out = m.loop(
        (x, k),
        lambda a, _b: [m.op("greater", a, least)],
        lambda a, b: [m.op("mul", a, half), m.op("add", b, one)],
    )
    program, _ = agree(m.graph(*out), {"x": np.float64(100), "k": np.int32(0)})
    assert {b.role for b in program.entries[0].buffers} == {BufferRole.ARGUMENT, BufferRole.REGISTER, BufferRole.RESULT}


def test_carries_that_swap():
    m = Making()
    a, b = m.feed("a", tensor(F32, 3)), m.feed("b", tensor(F32, 3))
    p, q = m.feed("p", tensor(F32)), m.feed("q", tensor(F32))
    out = m.count(3, (a, b, p, q), lambda i, a, b, p, q: [b, m.op("add", a, b), q, m.op("add", p, q)])
    agree(m.graph(*out), {"a": numbers(3), "b": numbers(3) + 1, "p": np.float32(0), "q": np.float32(1)})


@pytest.mark.parametrize("n", [0, 1, 4])
def test_emits_are_stacked(n: int):
    m = Making()
    h, x = m.feed("h", tensor(F32, 2)), m.feed("x", tensor(F32, N, 2))

    def body(i, h):
        new = m.op("tanh", m.op("add", h, m.op("gather", x, i, attributes=AxisAttributes(0))))
        return [new, m.op("neg", new), m.op("sum", h, attributes=ReduceAttributes((0,)))]

    out = m.count(N, (h,), body)
    agree(m.graph(*out, dims=[N]), {"h": numbers(2), "x": numbers(n, 2)}, sizes={"N": n})


def test_a_loop_that_carries_a_matrix_through_a_product():
    m = Making()
    x, w = m.feed("x", tensor(F32, 2, 3)), m.feed("w", tensor(F32, 3, 3))
    out = m.count(3, (x,), lambda i, a: [m.op("tanh", m.op("matmul", a, w))])
    agree(m.graph(*out), {"x": numbers(2, 3), "w": numbers(3, 3)})


def test_effects_in_a_loop_and_a_captured_snapshot():
    m = Making(resources=[V, S])
    old = m.read("v")

    def body(i):
        m.assign("v", m.op("mul", old, m.constant(2, F32)), mode="+=")
        m.assign("s", m.constant(1.5, F64), mode="+=")
        return []

    m.count(4, (), body)
    agree(
        m.graph(m.read("s"), m.op("sum", old, attributes=ReduceAttributes((0,)))),
        {},
        {"v": numbers(6), "s": np.float64(1)},
    )


@pytest.mark.parametrize("chosen", [True, False])
def test_both_sides_of_a_condition(chosen: bool):
    m = Making(resources=[V])
    c, x = m.feed("c", tensor(BOOL)), m.feed("x", tensor(F32, 6))

    def then():
        m.assign("v", x)
        return [m.op("exp", x), m.constant(1, I64)]

    out = m.when(c, then, lambda: [x, m.constant(2, I64)])
    agree(m.graph(*out, m.read("v")), {"c": np.bool_(chosen), "x": numbers(6)}, {"v": numbers(6) * 2})


def test_draws_follow_each_other():
    rng = Resource("r", ResourceKind.RNG, tensor(U64, 4), False, None, NOWHERE)
    m = Making(resources=[rng])
    a, b = m.draw("r", tensor(F32, 2, 3)), m.draw("r", tensor(F32, 5), "normal")
    agree(m.graph(a, m.op("exp", b)), {}, {"r": philox.initial_state(3, "r")})


def test_the_same_value_twice_and_arguments_as_results():
    m = Making(resources=[V])
    x, s = m.feed("x", tensor(F32, 3)), m.feed("s", tensor(F32))
    y = m.op("exp", x)
    agree(
        m.graph(y, y, x, s, s, m.read("v"), m.constant(3, F32)),
        {"x": numbers(3), "s": np.float32(2)},
        {"v": numbers(6)},
    )


def test_a_carried_sum_of_products_is_updated_in_the_kernel_of_the_product():
    m = Making()
    x, d, start = m.feed("x", tensor(F32, 4, 2)), m.feed("d", tensor(F32, 4, 3)), m.feed("start", tensor(F32, 2, 3))
    turned = PermutationAttributes((1, 0))

    def body(_i, total, e):
        gradient = m.op("matmul", m.op("transpose", x, attributes=turned), e)
        return [m.op("add", total, gradient), m.op("tanh", e)]

    program, ran = agree(
        m.graph(*m.count(3, (start, d), body)),
        {"x": numbers(4, 2), "d": numbers(4, 3), "start": numbers(2, 3)},
    )
    assert ran.launches == 3 + 3 * 2
    assert not any(b.role is BufferRole.ARENA for b in program.entries[0].buffers)


def test_two_carried_arrays_change_in_one_kernel():
    m = Making()
    a, b = m.feed("a", tensor(F32, 5)), m.feed("b", tensor(F32, 5))
    out = m.count(4, (a, b), lambda _i, a, b: [m.op("add", a, b), m.op("sub", a, b)])
    program, ran = agree(m.graph(*out), {"a": numbers(5), "b": numbers(5) + 1})
    assert ran.launches == 3 + 4
    assert not any(b.role is BufferRole.ARENA for b in program.entries[0].buffers)


def test_a_value_carried_and_emitted_from_a_reversal():
    m = Making()
    a = m.feed("a", tensor(F32, 3, 3))

    def body(_i, a):
        turned = m.op("reverse", a, attributes=AxesAttributes((1,)))
        return [turned, turned]

    agree(m.graph(*m.count(3, (a,), body)), {"a": numbers(3, 3)})


def test_a_result_of_a_loop_survives_the_next_write():
    m = Making(resources=[V])
    (first,) = m.count(2, (m.read("v"),), lambda _i, a: [m.op("exp", m.op("tanh", a))])
    m.assign("v", m.op("neg", first))
    (second,) = m.count(2, (m.read("v"),), lambda _i, a: [m.op("tanh", a)])
    agree(m.graph(first, second, m.read("v")), {}, {"v": numbers(6)})
