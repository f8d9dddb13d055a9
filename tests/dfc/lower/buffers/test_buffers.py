"""The plan of the arena: lifetimes, reuse, writes in place, sizes as formulas."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from dfc.ir.dims import Symbol, ceil_divide, dim
from dfc.ir.dtypes import F32, F64
from dfc.ir.types import tensor
from dfc.kernels.form import LoopKernel
from dfc.kernels.program import BufferRole, EntryProgram, Launch
from dfc.lower.buffers.liveness import Life, Lifetimes
from dfc.lower.buffers.slots import byte_size, plan
from dfc.lower.program import lower_graph
from dfc.lower.storage import Storage
from dfc.ops.attributes import AxisAttributes, ReduceAttributes
from tests.support.lowering import agree
from tests.support.making import Making

B = Symbol("B")


def numbers(*shape: int) -> np.ndarray:
    return np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def storage(name: str, *shape: int | Symbol) -> Storage:
    return Storage(BufferRole.ARENA, F32, tuple(map(dim, shape)), name)


def arena(entry: EntryProgram) -> list[str]:
    return [b.name for b in entry.buffers if b.role is BufferRole.ARENA]


def test_dead_memory_is_used_again():
    a, b, c = storage("a", 100), storage("b", 100), storage("c", 100)
    made = plan(Lifetimes({a: Life(0, 1, ()), b: Life(1, 2, ()), c: Life(2, 3, ())}), {})
    assert made.offsets[a] == made.offsets[c] != made.offsets[b]
    assert made.size == dim(2 * 448)
    assert made.largest_live == dim(800)
    assert set(made.peak_names) in ({"a", "b"}, {"b", "c"})


def test_slots_are_as_large_as_their_largest_member():
    a, b = storage("a", B), storage("b", B, 10)
    made = plan(Lifetimes({a: Life(0, 0, ()), b: Life(1, 1, ())}), {})
    assert made.offsets[a] == made.offsets[b] == dim(0)
    for batch in (0, 1, 7, 1000):
        assert made.size.evaluate({B: batch}) == -(-40 * batch // 64) * 64


def test_the_same_size_is_preferred():
    small, large, again = storage("s", 16), storage("l", 1000), storage("t", 16)
    made = plan(Lifetimes({small: Life(0, 0, ()), large: Life(0, 0, ()), again: Life(1, 1, ())}), {})
    assert made.offsets[again] == made.offsets[small]


def test_something_small_keeps_nothing_large_from_its_slot():
    first, small, second = storage("first", 1024), storage("small", 16), storage("second", 1024)
    arena = plan(Lifetimes({first: Life(0, 0, ()), small: Life(1, 9, ()), second: Life(2, 2, ())}), {})
    assert arena.offsets[first] == arena.offsets[second]
    assert arena.size == arena.largest_live == dim(4096 + 64)


@pytest.mark.parametrize("seed", range(20))
def test_what_lives_at_one_time_lies_apart(seed: int):
    random = np.random.default_rng(seed)
    lives: dict[Storage, Life] = {}
    for number in range(60):
        first = int(random.integers(40))
        shape = (B, int(random.integers(1, 9))) if number % 3 else (int(random.integers(1, 3000)),)
        lives[storage(f"s{number}", *shape)] = Life(first, first + int(random.integers(6)), ())
    arena = plan(Lifetimes(lives), {})
    for batch in (1, 64, 1000):
        sizes = {B: batch}
        spans = {s: (start.evaluate(sizes), byte_size(s).evaluate(sizes)) for s, start in arena.offsets.items()}
        total, least = arena.size.evaluate(sizes), arena.largest_live.evaluate(sizes)
        assert least <= total
        for (a, life), (b, other) in combinations(lives.items(), 2):
            if life.first <= other.last and other.first <= life.last:
                assert sum(spans[a]) <= spans[b][0] or sum(spans[b]) <= spans[a][0]
        assert all(sum(span) <= total for span in spans.values())


def test_offsets_are_aligned_formulas():
    a, b = storage("a", B), storage("b", 3)
    made = plan(Lifetimes({a: Life(0, 1, ()), b: Life(0, 1, ())}), {})
    assert {made.offsets[a], made.offsets[b]} <= {dim(0), ceil_divide(dim(B) * 4, dim(64)) * 64, dim(64)}
    assert made.size == ceil_divide(dim(B) * 4, dim(64)) * 64 + 64


def test_a_chain_over_products_writes_in_place():
    m = Making()
    x, w = m.feed("x", tensor(F32, B, 8)), m.feed("w", tensor(F32, 8, 8))
    h = m.op("cumsum", m.op("matmul", x, w), attributes=AxisAttributes(1))
    y = m.op("matmul", m.op("exp", h), w)
    program, _ = agree(m.graph(y, dims=[B]), {"x": numbers(3, 8), "w": numbers(8, 8)}, sizes={"B": 3})
    exp = next(s for s in program.entries[0].steps if isinstance(s, Launch) and any("exp" in n for n in s.names))
    kernel = program.kernels[exp.kernel]
    assert isinstance(kernel, LoopKernel)
    assert [operand.access for operand in kernel.operands] == ["update"]


def test_a_value_that_is_read_again_is_not_overwritten():
    m = Making()
    x, w = m.feed("x", tensor(F32, 4, 8)), m.feed("w", tensor(F32, 8, 8))
    h = m.op("cumsum", m.op("matmul", x, w), attributes=AxisAttributes(1))
    y = m.op("matmul", m.op("exp", h), m.op("matmul", w, w))
    agree(m.graph(y, m.op("matmul", h, w)), {"x": numbers(4, 8), "w": numbers(8, 8)})


def test_results_need_no_arena():
    m = Making()
    x = m.feed("x", tensor(F32, B, 4))
    y = m.op("exp", x)
    z = m.op("sum", y, attributes=ReduceAttributes((0,)))
    program, _ = agree(m.graph(y, z, dims=[B]), {"x": numbers(5, 4)}, sizes={"B": 5})
    assert arena(program.entries[0]) == []


def test_memory_that_a_loop_carries_lives_through_it():
    m = Making()
    x, w = m.feed("x", tensor(F32, 3, 3)), m.feed("w", tensor(F32, 3, 3))

    def body(_i, a, b):
        c = m.op("matmul", a, w)
        return [m.op("matmul", c, b), m.op("tanh", m.op("matmul", b, a))]

    first, second = m.count(3, (x, m.op("exp", x)), body)
    kept = m.op("matmul", w, w)
    agree(m.graph(m.op("add", m.op("add", first, second), kept)), {"x": numbers(3, 3) / 4, "w": numbers(3, 3)})


def test_equal_kernels_are_shared_and_constants_too():
    m = Making()
    x, y = m.feed("x", tensor(F64, B)), m.feed("y", tensor(F64, Symbol("C")))
    table = m.constant([1.0, 2.0, 3.0], F64)
    same = m.constant([1.0, 2.0, 3.0], F64)
    outs = [m.op("exp", m.op("neg", v)) for v in (x, y)]
    program = lower_graph(m.graph(*outs, m.op("neg", table), m.op("abs", same), dims=[B, Symbol("C")]))
    launched = [s.kernel for s in program.entries[0].steps if isinstance(s, Launch)]
    assert launched.count(launched[0]) == 2
    assert len(program.constants) == 1


def test_a_long_program_is_planned_in_little_memory():
    m = Making()
    y = x = m.feed("x", tensor(F32, 8, 8))
    for _ in range(300):
        y = m.op("tanh", m.op("matmul", y, x))
    program = lower_graph(m.graph(y))
    assert program.entries[0].arena == dim(2 * 256)
