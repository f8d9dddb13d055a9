"""Direct convolutions and both of their gradients: against loops over their definition, on every instruction set."""

from __future__ import annotations

import re

import numpy as np
import pytest

from dfc.ir.dtypes import F32
from dfc.kernels.form import ContractKernel
from dfc_target_cpu.machine import MACHINES, WITHOUT_WINOGRAD, detect_host, machine_named
from dfc_target_cpu.windows.library import libraries
from dfc_target_cpu.windows.plans import plan_windows, planned_windows
from tests.support.direct_convolution import Form, by_data, by_weights, forward
from tests.support.native_run import NativeRun
from tests.support.product_arrays import product_in_order
from tests.support.sweeping import WHOLE, few
from tests.targets.cpu.compile.product.test_panels import convolving, numbers

HOST = detect_host()
assert HOST is not None
ISAS = [name + WITHOUT_WINOGRAD for name, one in MACHINES.items() if set(one.required_bits) <= set(HOST.required_bits)]
EXACT = machine_named("x86-64-v3" + WITHOUT_WINOGRAD)
assert EXACT is not None

ONE, AROUND = Form((1, 1), (1, 1), ((0, 0), (0, 0))), Form((1, 1), (1, 1), ((1, 1), (1, 1)))
FORMS = {
    "bands and panels": ((2, 21, 13, 5), (3, 3, 5, 83), AROUND),
    "no zeros around": ((2, 9, 14, 16), (3, 2, 16, 32), ONE),
    "one vector and a bit": ((1, 6, 7, 3), (3, 3, 3, 17), AROUND),
    "one channel out": ((2, 6, 9, 7), (3, 3, 7, 1), AROUND),
    "steps": ((2, 15, 13, 6), (3, 3, 6, 20), Form((2, 2), (1, 1), ((1, 1), (1, 1)))),
    "steps of three, more zeros than steps": ((1, 14, 17, 4), (5, 4, 4, 9), Form((3, 2), (1, 1), ((4, 3), (3, 4)))),
    "steps over windows of one element": ((2, 11, 20, 9), (1, 1, 9, 33), Form((2, 2), (1, 1), ((0, 0), (0, 0)))),
    "steps larger than windows": ((2, 13, 16, 3), (2, 1, 3, 5), Form((3, 2), (1, 1), ((1, 0), (0, 0)))),
    "dilation": ((2, 13, 12, 6), (3, 2, 6, 10), Form((1, 1), (2, 3), ((2, 1), (0, 3)))),
    "steps and dilation": ((1, 17, 15, 4), (2, 3, 4, 6), Form((3, 2), (2, 2), ((1, 0), (2, 2)))),
    "groups": ((2, 9, 8, 12), (3, 3, 4, 15), Form((1, 1), (1, 1), ((1, 1), (1, 1)), 3)),
    "groups and steps": ((1, 11, 12, 10), (3, 2, 5, 8), Form((2, 2), (1, 1), ((1, 0), (0, 1)), 2)),
    "groups that need no copy": ((2, 6, 7, 8), (2, 1, 4, 6), Form((1, 1), (1, 1), ((0, 0), (0, 0)), 2)),
    "blocks of channels": ((3, 9, 8, 48), (3, 3, 48, 33), AROUND),
    "blocks of channels, steps and groups": ((2, 9, 10, 96), (3, 2, 48, 34), Form((2, 2), (1, 1), ((1, 0), (0, 1)), 2)),
    "many images": ((7, 5, 6, 4), (3, 3, 4, 21), AROUND),
    "long sums": ((1, 4, 5, 260), (3, 3, 260, 18), AROUND),
    "along one axis": ((3, 41, 4), (5, 4, 6), Form((2,), (2,), ((3, 1),))),
    "steps along rows of several chunks": ((1, 7, 1300, 2), (3, 2, 2, 33), Form((2, 3), (1, 1), ((1, 1), (0, 1)))),
    "no image": ((0, 6, 7, 3), (3, 3, 3, 5), AROUND),
}


def arrays(name: str, dtype: str):
    x_shape, w_shape, form = FORMS[name]
    g_shape = (x_shape[0], *form.counts(x_shape[1:-1], w_shape[:-2]), w_shape[-1])
    return numbers(x_shape, dtype, 1), numbers(w_shape, dtype, 2), numbers(g_shape, dtype, 3)


def isas_of(name: str) -> list[str]:
    """The widest, and for every second form one of the others in turns; all where all are wanted."""
    other = {0: 1, 2: 2}.get([*FORMS].index(name) % 4, len(ISAS))
    return ISAS if WHOLE else [ISAS[0], *ISAS[other : other + 1]]


@pytest.mark.parametrize("dtype", few(["f32", "f64"], 1))
@pytest.mark.parametrize("name", FORMS)
def test_sums_follow_the_definition_and_depend_on_no_threads(name: str, dtype: str) -> None:
    x_shape, w_shape, form = FORMS[name]
    x, w, g = arrays(name, dtype)
    program = convolving(x_shape, w_shape, form, dtype, symbolic=False)
    terms = int(np.prod(w_shape[:-1])) + g[..., 0].size
    bound = 8 * terms * np.finfo(x.dtype).eps
    expected = forward(form, x, w), by_data(form, x, w, g), by_weights(form, x, w, g)
    bits: set[tuple[bytes, ...]] = set()
    for isa in isas_of(name):
        runs = [NativeRun(program, {}, n, isa).call("f", [x, w, g], {"B": x_shape[0]}) for n in (1, 2, 8)]
        for values, wanted in zip(runs[0], expected, strict=True):
            np.testing.assert_allclose(values, wanted, rtol=1e-5, atol=bound, err_msg=isa)
        results = {tuple(one.tobytes() for one in run) for run in runs}
        assert len(results) == 1, f"more threads make other bits on {isa}"
        if MACHINES[isa.removesuffix(WITHOUT_WINOGRAD)].fused_multiply_add:
            bits |= results
    assert len(bits) <= 1, "machines with fused multiply-adds differ"


@pytest.mark.parametrize("name", FORMS)
def test_what_fits_is_made_directly(name: str) -> None:
    x_shape, w_shape, form = FORMS[name]
    program = convolving(x_shape, w_shape, form, "f32", symbolic=False)
    plans = [plan_windows(k, EXACT) for k in program.kernels if isinstance(k, ContractKernel)]
    # the gradient by an image of steps and dilations has zeros between elements that windows step over
    too_odd = any(step > 1 and dilation > 1 for step, dilation in zip(form.steps, form.dilations, strict=True))
    assert [plan is not None for plan in plans] == [True, not too_odd, True]


@pytest.mark.skipif(not HOST.fused_multiply_add, reason="without fused multiply-adds other bits are stated")
@pytest.mark.parametrize("name", ["bands and panels", "steps", "many images", "long sums"])
def test_each_sum_is_one_chain_over_ascending_depth(name: str) -> None:
    x_shape, w_shape, form = FORMS[name]
    x, w, g = arrays(name, "f32")
    program = convolving(x_shape, w_shape, form, "f32", symbolic=False)
    y, _, dw = NativeRun(program, {}, 2, HOST.name + WITHOUT_WINOGRAD).call("f", [x, w, g], {"B": x_shape[0]})
    padded = np.pad(x, ((0, 0), *form.pads, (0, 0)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, w_shape[:2], (1, 2))
    seen = seen[:, :: form.steps[0], :: form.steps[1]].transpose(0, 1, 2, 4, 5, 3)
    rows = np.ascontiguousarray(seen.reshape(-1, int(np.prod(w_shape[:-1]))))
    sums = product_in_order(rows, w.reshape(rows.shape[1], -1), F32)
    assert y.tobytes() == sums.tobytes()
    turned = product_in_order(np.ascontiguousarray(rows.T), g.reshape(rows.shape[0], -1), F32)
    assert dw.tobytes() == turned.tobytes()


def test_tiles_are_made_in_the_heights_that_lines_are_cut_into_and_no_others() -> None:
    x_shape, w_shape, form = FORMS["blocks of channels"]
    program = convolving(x_shape, w_shape, form, "f32", symbolic=False)
    text = "\n".join(libraries(EXACT, planned_windows(program.kernels, EXACT)))
    made = {found.groups() for found in re.finditer(r"^define .*@window_(\w+)_float_(\d)x(\d)\(", text, re.MULTILINE)}
    widths = {(walk, vectors) for walk, vectors, _ in made}
    wanted: set[tuple[str, str, str]] = set()
    for walk, vectors in widths:
        most = {"3": 4, "2": 6}[vectors]
        count = {"positions": 8, "taps": 16}[walk]  # places along a row; channels of a block
        cut = np.array_split(range(count), -(-count // most))
        wanted |= {(walk, vectors, str(len(tile))) for tile in cut}
    assert made == wanted and {walk for walk, _ in widths} == {"positions", "taps"}
