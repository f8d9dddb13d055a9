"""Convolutions by cuDNN on the device, where it is installed: the numbers of the program's own kernels, each time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from dfc.bundle.target import Lowered
from dfc.ir.options import TargetOptions
from dfc.kernels.program import Program
from dfc_driver_cuda import libcuda
from dfc_driver_cuda.libraries import cudnn_backend
from dfc_driver_cuda.libraries.native import LibraryError
from dfc_target_cuda.target import CudaTarget
from tests.dfc.kernels.matching.test_convolutions import FORMS, WHAT, numbers, text_of
from tests.support.simulated_programs import SimulatedRun, program_of

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
"""Sums of at most a few hundred products of about 1, in f32, in another order."""

TRAINED = """
var w: f32[3, 3, 16, 32] = 0
var v: f32[3, 3, 32, 16] = 0
entry f[B](x: f32[B, 16, 16, 16]) -> (loss: f32) {
  let loss = mean(square(conv2d(relu(conv2d(x, w, pad = 1)), v, stride = 2, pad = 1)))
  w -= 0.1 * grad(loss, w)
  v -= 0.1 * grad(loss, v)
  return loss
}"""


@pytest.fixture(autouse=True)
def library() -> None:
    try:
        if cudnn_backend.find_library() is None:
            pytest.skip("cuDNN is not installed")
    except LibraryError as problem:
        pytest.skip(str(problem))


def called(
    program: Program, architecture: str, feeds: list[Any], state: dict[str, Any], calls: int = 1
) -> tuple[list[Any], dict[str, str]]:
    """Results and state after some calls, and who made the convolutions."""

    def lower(one: Program) -> Lowered:
        made = CudaTarget().lower(one, TargetOptions((architecture,)))
        return replace(made, images=made.images[:1])

    run = SimulatedRun(program, state, device=libcuda.open_device(0), lower=lower)
    try:
        found: list[Any] = []
        for _ in range(calls):
            found += run.call("f", feeds, {"B": len(feeds[0])})
        return [*found, *(np.array(one) for one in run.state.values())], run.driver.convolutions
    finally:
        run.driver.close()


@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("form", FORMS)
def test_every_form(form: str, what: str, architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A form that the library has no engine for is made by kernels, and says so."""
    x, w, y, _ = FORMS[form]
    feeds = [numbers(f"B, {x}", 4), numbers(w, 4), numbers(f"B, {y}", 4)]
    program = program_of(text_of(form, what))
    found, who = called(program, architecture, feeds, {})
    assert who
    monkeypatch.setenv("DFC_CUDNN", "0")
    expected, nobody = called(program, architecture, feeds, {})
    assert not nobody
    np.testing.assert_allclose(found[0], expected[0], **CLOSE)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64"])
def test_every_element_type(dtype: str, architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f64": np.float64}[dtype]
    text = f"readonly entry f[B](x: {dtype}[B, 8, 8, 16], w: {dtype}[3, 3, 16, 32]) -> (y: {dtype}[B, 8, 8, 32])"
    program = program_of(text + " { return conv2d(x, w, pad = 1) }")
    feeds = [numbers("B, 8, 8, 16", 4).astype(kind), numbers("3, 3, 16, 32", 4).astype(kind)]
    found, who = called(program, architecture, feeds, {})
    assert all(one.startswith("cuDNN") for one in who.values()), who
    monkeypatch.setenv("DFC_CUDNN", "0")
    expected, _ = called(program, architecture, feeds, {})
    close = 1e-6 if dtype == "f64" else 4e-2
    np.testing.assert_allclose(found[0].astype(float), expected[0].astype(float), rtol=close, atol=close)


def test_training_gives_the_same_bits_each_time(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, feeds = program_of(TRAINED), [numbers("B, 16, 16, 16", 4)]
    state = {"w": 0.1 * numbers("3, 3, 16, 32", 2), "v": 0.1 * numbers("3, 3, 32, 16", 2)}
    first, who = called(program, architecture, feeds, state, 3)
    again, _ = called(program, architecture, feeds, state, 3)
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
    assert any(one.startswith("cuDNN") for one in who.values()), who
    monkeypatch.setenv("DFC_CUDNN", "0")
    expected, _ = called(program, architecture, feeds, state, 3)
    for one, other in zip(first, expected, strict=True):
        np.testing.assert_allclose(one, other, **CLOSE)
