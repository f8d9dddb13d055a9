"""Arrays of other libraries on the device, results that stay there, and what is said when it is too small."""

from __future__ import annotations

import numpy as np
import pytest

import dfc
import dfc_runtime
from dfc_runtime.calls.device_arrays import DeviceArray
from dfc_runtime.errors import LimitError, RunError

PROGRAM = """dfg 1

var total: f32 = 0

entry scale[N](x: f32[N], rate: f32) -> (y: f32[N]) {
  total += sum(x)
  return x * rate
}

readonly entry pick(x: f32[4], id: i64) -> f32 {
  return x[id]
}
"""
X = np.arange(1000, dtype=np.float32)


@pytest.fixture(scope="module")
def bundle(architecture: str) -> bytes:
    return dfc.compile(text=PROGRAM, target="cuda", variants=[architecture]).to_bytes()


@pytest.fixture
def model(bundle: bytes) -> dfc_runtime.Module:
    return dfc_runtime.loads(bundle, results="device")


def test_a_result_stays_and_is_fed_again(model: dfc_runtime.Module) -> None:
    y = model.scale(X, 2.0).y
    assert isinstance(y, DeviceArray)
    np.testing.assert_array_equal(model.scale(y, 2.0).y.to_host(), 4 * X)
    assert model.state["total"] == X.sum() * 3


@pytest.mark.parametrize("library", ["torch", "cupy", "jax.dlpack"])
def test_other_libraries_give_and_take_arrays(library: str, model: dfc_runtime.Module) -> None:
    other = pytest.importorskip(library)
    if library == "torch":
        if not other.cuda.is_available():
            pytest.skip("torch has no CUDA here")
        theirs = other.asarray(X).cuda()
    elif library == "cupy":
        theirs = other.asarray(X)
    else:
        jax = pytest.importorskip("jax")
        if jax.default_backend() != "gpu":
            pytest.skip("jax has no GPU here")
        theirs = jax.numpy.asarray(X)
    y = model.scale(theirs, 3.0).y
    back = other.from_dlpack(y)
    np.testing.assert_array_equal(
        np.asarray(back.cpu() if library == "torch" else back.get() if library == "cupy" else back), 3 * X
    )


def test_a_fault_on_the_device_names_the_line_and_later_calls_go_on(model: dfc_runtime.Module) -> None:
    with pytest.raises(RunError) as caught:
        model.pick(X[:4], 7)
    assert caught.value.code == "E0904" and caught.value.line == 11
    assert model.pick(X[:4], 3) == 3


def test_too_large_a_program_says_what_is_free(architecture: str) -> None:
    text = "dfg 1\n\nreadonly entry wide[N](x: f32) -> (y: f32) {\n  let a = x + iota(f32[N])\n"
    text += "  return sum(sort(a, axis = 0)[0:1])\n}\n"
    model = dfc.loads(dfc.compile(text=text, target="cuda", variants=[architecture]).to_bytes())
    with pytest.raises(LimitError) as caught:
        model.wide(1.0, N=1 << 38)
    assert caught.value.code == "E0925" and "of GPU memory" in caught.value.message
