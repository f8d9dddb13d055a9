"""Convolutions by Winograd's algorithm: against their definition, within the stated bound, on every instruction set."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.driver import pipeline
from dfc.ir.options import TargetOptions
from dfc.kernels.form import ContractKernel
from dfc.kernels.program import Program
from dfc.kernels.winograd.tiling import Winograd
from dfc_runtime.errors import UnsupportedError
from dfc_target_cpu.machine import MACHINES, WITHOUT_WINOGRAD, Machine, machine_named
from dfc_target_cpu.target import machines
from dfc_target_cpu.windows.plans import plan_windows
from tests.support.building import graph_of
from tests.support.cpu_code import runnable_machines
from tests.support.direct_convolution import Form, by_data, forward
from tests.support.native_run import NativeRun
from tests.support.sweeping import WHOLE, few
from tests.support.winograd_bound import error_bound
from tests.targets.cpu.compile.product.test_panels import convolving, numbers

AROUND = Form((1, 1), (1, 1), ((1, 1), (1, 1)))
FORMS = {
    "tails of tiles, channels and columns": ((2, 13, 22, 37), (3, 3, 37, 83), AROUND),
    "small tiles": ((5, 6, 6, 48), (3, 3, 48, 40), AROUND),
    "no zeros around": ((2, 12, 14, 24), (3, 3, 24, 32), Form((1, 1), (1, 1), ((0, 0), (0, 0)))),
    "more zeros on one side": ((1, 15, 10, 32), (3, 3, 32, 24), Form((1, 1), (1, 1), ((2, 0), (0, 2)))),
    "groups": ((2, 12, 9, 72), (3, 3, 24, 78), Form((1, 1), (1, 1), ((1, 1), (1, 1)), 3)),
    "several blocks of tiles": ((3, 25, 28, 16), (3, 3, 16, 20), AROUND),
    "no image": ((0, 12, 12, 32), (3, 3, 32, 32), AROUND),
}


def plans(program: Program, machine: Machine) -> list[int]:
    """The tile of each kernel that is made by the algorithm."""
    made = [plan_windows(kernel, machine) for kernel in program.kernels if isinstance(kernel, ContractKernel)]
    return [plan.tile for plan in made if isinstance(plan, Winograd)]


def machines_of(name: str) -> list[Machine]:
    """The widest, and the others in turns, form by form; all where all are wanted."""
    widest, *others = runnable_machines()
    number = [*FORMS].index(name) % max(1, len(others))
    return [widest, *(others if WHOLE else others[number : number + 1])]


@pytest.mark.parametrize("dtype", few(["f32", "f64"], 1))
@pytest.mark.parametrize("name", FORMS)
def test_sums_are_within_their_bound_and_depend_on_no_threads(name: str, dtype: str) -> None:
    x_shape, w_shape, form = FORMS[name]
    g_shape = (x_shape[0], *form.counts(x_shape[1:-1], w_shape[:-2]), w_shape[-1])
    x, w, g = numbers(x_shape, dtype, 1), numbers(w_shape, dtype, 2), numbers(g_shape, dtype, 3)
    program = convolving(x_shape, w_shape, form, dtype, symbolic=False)
    turned = np.concatenate([part[::-1, ::-1].swapaxes(2, 3) for part in np.split(w, form.groups, axis=3)], axis=3)
    around = tuple((2 - low, 2 - high) for low, high in form.pads)
    wanted = forward(form, x, w), by_data(form, x, w, g)
    for machine in machines_of(name):
        tiles = plans(program, machine)
        assert len(tiles) == 2, f"{machine.name} makes {tiles}"
        runs = [NativeRun(program, {}, n, machine.name).call("f", [x, w, g], {"B": x_shape[0]}) for n in (1, 2, 8)]
        bounds = (
            error_bound(x, w, form.pads, form.groups, tiles[0]),
            error_bound(g, turned, around, form.groups, tiles[1]),
        )
        for values, exact, bound in zip(runs[0], wanted, bounds, strict=False):
            assert np.all(np.abs(values - exact) <= bound), machine.name
        results = {tuple(one.tobytes() for one in run[:2]) for run in runs}
        assert len(results) == 1, f"more threads make other bits on {machine.name}"


EPILOGUES = """dfg 1

readonly entry f[B](x: f32[B, 11, 14, 32], w: f32[3, 3, 32, 40], b: f32[40], r: f32[B, 11, 14, 40])
    -> (y: f32[B, 11, 14, 40], h: f16[B, 11, 14, 40]) {
  let narrow = relu(conv2d(x + 1, w, pad = 1) + b) as f16
  return relu(conv2d(x, w, pad = 1) * b + r), narrow
}
"""


def test_what_follows_the_sums_is_done_where_they_are_made() -> None:
    """In the result, and of another type in rows of tiles."""
    program = pipeline.scheduled(pipeline.optimise(graph_of(EPILOGUES)))
    x, w = numbers((3, 11, 14, 32), "f32", 1), numbers((3, 3, 32, 40), "f32", 2)
    b, r = numbers((40,), "f32", 3), numbers((3, 11, 14, 40), "f32", 4)
    for machine in runnable_machines():
        tiles = plans(program, machine)
        assert len(tiles) == 2
        runs = [NativeRun(program, {}, n, machine.name).call("f", [x, w, b, r], {"B": 3}) for n in (1, 2)]
        y, h = runs[0]
        bound = error_bound(x, w, AROUND.pads, 1, tiles[0]) * np.abs(b) + 1e-5
        assert np.all(np.abs(y - np.maximum(forward(AROUND, x, w) * b + r, 0)) <= bound)
        exact = np.maximum(forward(AROUND, x + np.float32(1), w) + b, 0)
        more = error_bound(x + np.float32(1), w, AROUND.pads, 1, tiles[1]) + np.abs(exact) * 2.0**-11
        assert np.all(np.abs(h.astype(np.float64) - exact) <= more + 1e-5)
        assert runs[0][0].tobytes() == runs[1][0].tobytes() and h.tobytes() == runs[1][1].tobytes()


def test_a_variant_can_do_without() -> None:
    x_shape, w_shape, form = FORMS["no zeros around"]
    program = convolving(x_shape, w_shape, form, "f32", symbolic=False)
    for machine in runnable_machines():
        (exact,) = machines(TargetOptions((machine.name + WITHOUT_WINOGRAD,)))
        assert exact == machine_named(exact.name) and exact.required_bits == machine.required_bits
        assert plans(program, machine) and not plans(program, exact)


def test_one_bundle_has_the_algorithm_in_all_variants_or_in_none() -> None:
    names = ("x86-64-v3", "x86-64-v2" + WITHOUT_WINOGRAD)
    with pytest.raises(UnsupportedError, match="write x86-64-v3-winograd, too"):
        machines(TargetOptions(names))
    both = machines(TargetOptions(tuple(name.removesuffix(WITHOUT_WINOGRAD) + WITHOUT_WINOGRAD for name in names)))
    assert [one.name for one in both] == ["x86-64-v3-winograd", "x86-64-v2-winograd"]
    assert machine_named("x86-64-v9-winograd") is None and set(MACHINES) >= {"x86-64-v2", "x86-64-v3"}
