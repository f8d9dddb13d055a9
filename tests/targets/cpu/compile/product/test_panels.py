"""Products of windows: convolutions and both of their gradients against loops over their definition."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from dfc.driver import pipeline
from dfc.kernels.form import ContractKernel
from dfc.kernels.program import Program
from tests.support.building import graph_of
from tests.support.direct_convolution import Form, by_data, by_weights, forward
from tests.support.native_run import NativeRun
from tests.support.sweeping import few

Array = np.ndarray[Any, Any]
TYPES = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "f16": np.float16}

PLAIN = Form((1, 1), (1, 1), ((0, 0), (0, 0)))
FORMS = {
    "windows inside": ((2, 6, 7, 3), (3, 2, 3, 5), PLAIN),
    "zeros around": ((3, 5, 6, 4), (3, 3, 4, 17), Form((1, 1), (1, 1), ((1, 1), (1, 1)))),
    "more zeros on one side": ((1, 5, 4, 2), (2, 3, 2, 3), Form((1, 1), (1, 1), ((0, 2), (2, 1)))),
    "steps": ((2, 9, 8, 3), (3, 2, 3, 4), Form((2, 3), (1, 1), ((1, 1), (0, 1)))),
    "dilation": ((2, 9, 9, 2), (3, 2, 2, 4), Form((1, 1), (2, 3), ((2, 1), (0, 3)))),
    "steps and dilation": ((1, 11, 9, 2), (2, 3, 2, 4), Form((3, 2), (2, 1), ((1, 0), (2, 2)))),
    "groups": ((2, 5, 6, 6), (3, 2, 2, 9), Form((1, 1), (1, 1), ((1, 1), (0, 1)), 3)),
    "groups, steps and dilation": ((2, 8, 9, 8), (2, 3, 4, 6), Form((2, 1), (1, 2), ((1, 0), (1, 2)), 2)),
    "one channel": ((2, 9, 21, 1), (3, 3, 1, 4), Form((1, 1), (1, 1), ((1, 1), (1, 1)))),
    "one channel, steps": ((1, 9, 21, 1), (3, 3, 1, 4), Form((2, 2), (1, 1), ((1, 1), (2, 1)))),
    "one channel out": ((2, 6, 5, 3), (3, 3, 3, 1), Form((1, 1), (1, 1), ((1, 1), (1, 1)))),
    "one place": ((1, 3, 3, 2), (3, 3, 2, 5), PLAIN),
    "windows of one element": ((2, 4, 5, 3), (1, 1, 3, 4), Form((2, 2), (1, 1), ((0, 0), (1, 1)))),
    "many channels": ((1, 4, 3, 70), (3, 3, 70, 40), Form((1, 1), (1, 1), ((1, 1), (1, 1)))),
    "long sums": ((4, 12, 13, 2), (2, 2, 2, 3), Form((1, 1), (1, 1), ((0, 1), (1, 0)))),
    "along one axis": ((3, 19, 4), (5, 4, 6), Form((2,), (2,), ((3, 1),))),
}


@cache  # the same program has the same code
def convolving(x: Any, w: Any, form: Form, dtype: str, *, symbolic: bool) -> Program:
    """y, and the gradients of sum(y * g) by x and w."""
    places = len(form.steps)
    image = ["B", *(["H", "W"][:places] if symbolic else map(str, x[1:-1])), str(x[-1])]
    counts = form.counts(x[1:-1], w[:-2])
    kinds = [f"{dtype}[{', '.join(each)}]" for each in (image, map(str, w))]
    line = f"let y = conv{places}d(x, w, {form.options()})"
    out = ["B", *(["_"] * places if symbolic else map(str, counts)), str(w[-1])]
    generic = ["B", *(["H", "W"][:places] if symbolic else [])]
    weighted = "let loss = sum(y * y)" if symbolic else "let loss = sum(y * g)"
    given = "" if symbolic else f", g: {dtype}[{', '.join(out)}]"
    results = f"(dx: {kinds[0]}, dw: {kinds[1]})"
    made = "grad(loss, x), grad(loss, w)"
    if not symbolic:
        results, made = f"(y: {dtype}[{', '.join(out)}], {results[1:]}", f"y, {made}"
    head = f"readonly entry f[{', '.join(generic)}](x: {kinds[0]}, w: {kinds[1]}{given}) -> {results}"
    text = f"dfg 1\n{head} {{\n  {line}\n  {weighted}\n  return {made}\n}}\n"
    return pipeline.scheduled(pipeline.optimise(graph_of(text)))


def numbers(shape: Any, dtype: str, seed: int) -> Array:
    values = np.random.default_rng(seed).standard_normal(shape)
    return values.astype(TYPES[dtype])


def assert_close(found: Array, expected: Array, dtype: str, terms: int) -> None:
    """Within rounding of sums of so many terms of about one, and of the result."""
    accumulated = np.finfo(np.float64 if dtype == "f64" else np.float32).eps * terms
    rounded = float(ml_dtypes.finfo(TYPES[dtype]).eps)
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=2 * rounded, atol=8 * accumulated + 1e-30)


@pytest.mark.parametrize("dtype", few(["f32", "f64", "bf16"], 1))
@pytest.mark.parametrize("name", FORMS)
def test_a_convolution_and_its_gradients_follow_their_definition(name: str, dtype: str) -> None:
    x_shape, w_shape, form = FORMS[name]
    x, w = numbers(x_shape, dtype, 1), numbers(w_shape, dtype, 2)
    g = numbers((x_shape[0], *form.counts(x_shape[1:-1], w_shape[:-2]), w_shape[-1]), dtype, 3)
    program = convolving(x_shape, w_shape, form, dtype, symbolic=False)
    alone, together = (NativeRun(program, {}, threads).call("f", [x, w, g], {"B": x_shape[0]}) for threads in (1, 3))
    expected = forward(form, x, w), by_data(form, x, w, g), by_weights(form, x, w, g)
    for one, other, wanted in zip(alone, together, expected, strict=True):
        assert_close(one, wanted, dtype, terms=int(np.prod(w_shape[:-1])) + g[..., 0].size)
        assert one.tobytes() == other.tobytes(), "more threads make other bits"


@pytest.mark.parametrize("groups", [1, 2])
def test_sizes_may_be_known_only_when_it_runs(groups: int) -> None:
    form = Form((1, 2), (2, 1), ((2, 2), (1, 3)), groups)
    w_shape = (3, 2, 4 // groups, 6)
    run = NativeRun(convolving((1, 5, 6, 4), w_shape, form, "f32", symbolic=True), {})
    for size in ((1, 5, 6), (2, 3, 9), (3, 1, 1), (0, 5, 6), (2, 0, 4)):
        x, w = numbers((*size, 4), "f32", 4), numbers(w_shape, "f32", 5)
        dx, dw = run.call("f", [x, w], dict(zip("BHW", size, strict=True)))
        g = 2 * forward(form, x, w)
        np.testing.assert_allclose(dx, by_data(form, x, w, g), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(dw, by_weights(form, x, w, g), rtol=1e-4, atol=1e-4)


CUT = {"more zeros on one side", "windows of one element"}
"""Zeros that windows do not need: the gradient of the image with its zeros is made, and cut."""


@pytest.mark.parametrize("name", [name for name in FORMS if name not in CUT])
def test_no_buffer_holds_windows(name: str) -> None:
    x_shape, w_shape, form = FORMS[name]
    program = convolving(x_shape, w_shape, form, "f32", symbolic=False)
    assert all(isinstance(kernel, ContractKernel) for kernel in program.kernels), "something is copied"
    assert program.entries[0].arena.constant == 0


def test_whole_numbers_are_convolved_as_well() -> None:
    form = Form((2, 1), (1, 2), ((1, 0), (0, 2)))
    rng = np.random.default_rng(6)
    x, w = rng.integers(-9, 9, (2, 6, 7, 3), np.int32), rng.integers(-9, 9, (2, 3, 3, 4), np.int32)
    text = "dfg 1\nreadonly entry f[B, H](x: i32[B, H, 7, 3], w: i32[2, 3, 3, 4]) -> (total: i32) {\n"
    text += f"  return sum(conv2d(x, w, {form.options()}) * 3)\n}}\n"
    program = pipeline.scheduled(pipeline.optimise(graph_of(text)))
    for rows in (6, 0):
        (total,) = NativeRun(program, {}).call("f", [x[:, :rows], w], {"B": 2, "H": rows})
        assert total == 3 * forward(form, x[:, :rows], w).sum()
