"""Functions of many launches and nothing else are written out as they stand, but not scalar code and loops."""

import numpy as np
import pytest

from dfc.driver.pipeline import optimise
from dfc.ir.dims import Symbol, dim
from dfc.ir.dtypes import F32, I64
from dfc.kernels.program import BufferRole, Copy, For, Launch, Program, Step
from dfc.kernels.programs.outline import LONGEST
from dfc.lower.program import lower_graph
from dfc_driver_cpu.driver import aligned_bytes
from dfc_target_cpu.entries.program import AS_WRITTEN, has_few_rows, lower_program, widest
from dfc_target_cpu.machine import X86_64_V3
from dfc_target_cpu.product.gemm.shape import ANY_WIDTH
from tests.support.building import graph_of
from tests.targets.cpu.compile.entries.test_steps import Entry, build, scalar, slots, twice

N = dim(Symbol("N"))


def chain(entry: Entry, count: int) -> list[Step]:
    """x + x, and then as often the sum of the last two, from one place of the arena to the next of three."""
    places = [entry.add(F32, (N,), BufferRole.ARENA, offset=N * 4 * number) for number in range(3)]
    steps: list[Step] = [Launch(0, (0, 0, places[0]), (N,)), Launch(0, (0, places[0], places[1]), (N,))]
    for number in range(count):
        steps.append(Launch(0, tuple(places[(number + k) % 3] for k in range(3)), (N,)))
    return [*steps, Launch(0, (0, places[(count + 1) % 3], 1), (N,))]


def as_written(entry: Entry, kernels: list, steps: list[Step]) -> int:
    """How many functions of an entry are."""
    lowered = lower_program(Program("t", kernels, [entry.finish(*steps)]), X86_64_V3, ())
    assert AS_WRITTEN not in "".join(lowered.texts), "the optimiser is not given them"
    return "".join(lowered.written_out).count(AS_WRITTEN)


def test_many_launches_are_written_out_as_they_stand_and_compute_the_same() -> None:
    e = Entry([(F32, (N,))], [(F32, (N,))])
    steps = chain(e, 25)
    repeated = [step for _ in range(12) for step in steps]
    assert as_written(e, [twice()], repeated) >= 3
    driver, _ = build([twice()], e.finish(*repeated))
    x, out, arena = np.linspace(0, 1, 9, dtype=np.float32), np.zeros(9, np.float32), aligned_bytes(9 * 64)
    assert driver.entry(0).call(slots(x, out, 9, arena).ctypes.data) == 0
    values = [x + x, x + (x + x)]
    for _ in range(25):
        values.append(values[-2] + values[-1])
    assert np.array_equal(out, x + values[-1])


def test_few_launches_among_other_steps_are_optimised() -> None:
    e = Entry([(F32, (N,))], [(F32, (N,))])
    steps = [each for step in chain(e, 300) for each in (step, Copy(0, 1), Copy(0, 1))]
    assert as_written(e, [twice()], steps) == 0


def test_scalar_code_between_launches_is_optimised() -> None:
    e = Entry([(F32, (N,))], [(F32, (N,))])
    one, other = e.register(F32), e.register(F32)
    steps = [each for step in chain(e, 300) for each in (step, step, step, Launch(1, (one, one, other), ()))]
    assert as_written(e, [twice(), scalar("add", F32)], steps) == 0


def test_a_single_number_among_many_launches_is_written_out_like_them() -> None:
    e = Entry([(F32, (N,))], [(F32, (N,))])
    one, other = e.register(F32), e.register(F32)
    steps = [*chain(e, 100), Launch(1, (one, one, other), ()), *chain(e, 100)]
    assert as_written(e, [twice(), scalar("add", F32)], steps) >= 1
    assert as_written(e, [twice(), scalar("add", F32)], steps) == as_written(e, [twice()], [*chain(e, 100)] * 2)


def test_launches_in_a_loop_of_their_own_are_optimised() -> None:
    e = Entry([(F32, (N,))], [(F32, (N,))])
    index, start, stop = (e.register(I64) for _ in range(3))
    steps = [For(index, start, stop, tuple(chain(e, 3))), *chain(e, LONGEST - 10)]  # as many as a function has
    assert as_written(e, [twice()], steps * 4) == 0


@pytest.mark.parametrize(
    "products, columns",
    [
        ({"x @ v": "[B, 40]"}, 40),
        ({"x @ v": "[B, 40]", "v @ z": "[20, B]"}, ANY_WIDTH),
        ({"x @ v": "[B, 40]", "w @ v": "[30, 40]"}, 40),
        ({"w @ v": "[30, 40]", "w @ u": "[30, 1]"}, 40),
        ({"x @ u": "[B, 1]"}, 0),
    ],
)
def test_the_widest_product_is_known_where_sizes_are(products: dict[str, str], columns: int) -> None:
    """A matrix by a single column is no matrix product, but loops."""
    results = ", ".join(f"y{number}: f32{shape}" for number, shape in enumerate(products.values()))
    text = f"""
        dfg 1
        readonly entry e[B](
          x: f32[B, 20], z: f32[40, B], u: f32[20, 1], v: f32[20, 40], w: f32[30, 20],
        ) -> ({results}) {{
          return {", ".join(products)}
        }}
    """
    assert widest(lower_graph(optimise(graph_of(text))).kernels) == columns


@pytest.mark.parametrize(
    "product, shape, is_few",
    [
        ("x @ v", "[B, 40]", True),
        ("reshape(y, [B * 5, 20]) @ v", "[B * 5, 40]", False),
        ("reshape(y, [B * 5, 20]) @ z", "[B * 5, B]", True),
        ("u @ v", "[4, 40]", True),
        ("w @ v", "[30, 40]", False),
    ],
)
def test_few_rows_are_known_where_rows_are_a_multiple_of_many(product: str, shape: str, *, is_few: bool) -> None:
    """A single column, which `B` may be, is the row of the transposed product."""
    text = f"""
        dfg 1
        readonly entry e[B](
          x: f32[B, 20], y: f32[B, 5, 20], z: f32[20, B], u: f32[4, 20], v: f32[20, 40], w: f32[30, 20],
        ) -> (result: f32{shape}) {{
          return {product}
        }}
    """
    assert has_few_rows(lower_graph(optimise(graph_of(text))).kernels) is is_few
