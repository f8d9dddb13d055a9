"""Gradients of the largest elements of windows against a loop over windows that shares each one out."""

import itertools

import numpy as np
import pytest

import dfc
from dfc.ops import registry
from dfc_runtime import loads
from tests.support.ops import Scratch, backward, type_of, weighted_sum
from tests.support.sweeping import few

WINDOWS = [each for each in itertools.product((1, 2, 3, 5), (1, 2, 3, 4), (0, 1, 2)) if each[2] < each[0]]
SHAPES = [(2, 7, 6, 3), (1, 9, 2), (1, 5, 6, 5, 2)]


def _window(position: tuple[int, ...], size: int, step: int, low: tuple[int, ...]) -> tuple[slice, ...]:
    first = [p * step - before for p, before in zip(position, low, strict=True)]
    return tuple(slice(max(start, 0), start + size) for start in first)


def _shared_out(x: np.ndarray, dy: np.ndarray, size: int, step: int, low: tuple[int, ...]) -> np.ndarray:
    dx = np.zeros(x.shape)
    for batch, *position, channel in np.ndindex(dy.shape):
        window = (batch, *_window(tuple(position), size, step, low), channel)
        largest = x[window] == x[window].max()
        dx[window] += largest * dy[(batch, *position, channel)] / largest.sum()
    return dx


@pytest.mark.parametrize(("shape", "window"), few([(s, w) for s in SHAPES for w in WINDOWS], 40))
def test_each_window_shares_its_gradient_out(shape: tuple[int, ...], window: tuple[int, int, int]) -> None:
    size, step, pad = window
    if min(shape[1:-1]) + 2 * pad < size:
        shape = (*shape[:1], *(max(n, size) for n in shape[1:-1]), shape[-1])
    x = np.random.default_rng(1).integers(0, 4, shape).astype(np.float64)  # with ties
    bind = registry.record("max_pool").bind
    assert bind is not None
    scratch = Scratch()
    value = scratch.feed(x)
    attributes = bind({"size": size, "stride": step, "pad": pad}, [type_of(x)])
    (result,) = scratch.builder.node("max_pool", [value], attributes).results
    gradient = backward(scratch.builder, weighted_sum(scratch, result, 1), value)
    assert gradient is not None
    (weights,) = [array for fed, array in scratch.feeds if fed is not value]
    (got,) = scratch.run([gradient])
    np.testing.assert_allclose(got, _shared_out(x, weights, size, step, (pad,) * (x.ndim - 2)), rtol=0, atol=1e-13)


PROGRAM = """dfg 1

entry of[H, W](x: f32[2, H, W, 3]) -> (dx: f32[2, H, W, 3]) where H >= 1, W >= 1 {
  return grad(0.5 * sum(square(max_pool(x, size = 3, stride = 2, pad = "same"))), x)
}
"""


def test_padding_that_the_run_alone_knows_is_left_out_in_native_code() -> None:
    module = loads(dfc.compile(text=PROGRAM).to_bytes())
    for extents in ((5, 6), (8, 3), (1, 1)):
        x = np.random.default_rng(2).integers(1, 5, (2, *extents, 3)).astype(np.float32)
        counts = [-(-n // 2) for n in extents]
        low = tuple(max((c - 1) * 2 + 3 - n, 0) // 2 for c, n in zip(counts, extents, strict=True))
        dy = np.zeros((2, *counts, 3))
        for batch, i, j, channel in np.ndindex(dy.shape):
            dy[batch, i, j, channel] = x[(batch, *_window((i, j), 3, 2, low), channel)].max()
        (got,) = module.entries["of"](x)
        np.testing.assert_allclose(got, _shared_out(x, dy, 3, 2, low), rtol=1e-6)
