"""Programs of the ops that are loops and windows, with symbolic sizes, compiled and compared with NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dfc
from dfc.diagnostics.diagnostic import CompileError

ORDER = """dfg 1

readonly entry order[B, N](x: f32[B, N]) -> (up: f32[B, N], places: i64[B, N], down: f32[B, N]) {
  return sort(x), argsort(x, into = i64), sort(x, axis = 0, descending = true)
}

readonly entry top[N, K](x: f32[N]) -> (best: f32[K], places: i32[K]) {
  let best, places = top_k(x, K)
  return best, places
}

readonly entry slopes[N](x: f64[N]) -> (sorted: f64[N], top: f64[N]) {
  let ranks = iota(i64[N]) as f64
  let best, places = top_k(x, 3)
  return grad(sum(sort(x) * ranks), x), grad(sum(square(best)), x)
}

readonly entry seek[N, M](row: f32[N], values: f32[M]) -> (left: i32[M], right: i32[M]) {
  return search(row, values), search(row, values, right = true)
}
"""
IMAGES = """dfg 1

readonly entry filter[B, H](x: f32[B, H, 6, 2], k: f32[3, 3, 2, 4]) -> (y: f32[B, ceil_div(H, 2), 3, 4]) {
  return conv2d(x, k, stride = 2, pad = "same")
}

readonly entry slopes[B, H](x: f64[B, H, 6, 2], k: f64[3, 2, 2, 3])
    -> (dx: f64[B, H, 6, 2], dk: f64[3, 2, 2, 3], pooled: f64[B, H, 6, 2]) {
  let y = conv2d(x, k, pad = 1, dilation = 2)
  let dx, dk = grad(sum(square(y)), [x, k])
  return dx, dk, grad(sum(square(max_pool(x, size = 3, stride = 2))), x)
}

readonly entry attend[B, T, S](q: f32[B, T, 2, 4], k: f32[B, S, 2, 4]) -> (a: f32[B, 2, T, S]) {
  return einsum("bthd,bshd->bhts", q, k)
}
"""
DRAWS = """dfg 1

var dice: rng = philox(seed = 3)

entry draw[N](logits: f32[N, 3], below: i64) -> (c: i32[N], l: i64[N], t: f32[N], p: i32[N]) {
  let c = dice.categorical(logits)
  let l = dice.log_uniform(i64[N], below = below)
  let t = dice.truncated_normal(f32[N], mean = 1, deviation = 2)
  let p = dice.permutation(i32[N])
  return c, l, t, p
}
"""


def _module(text: str, folder: Path) -> dfc.Module:
    dfc.compile(text=text).save(folder / "p.bundle")
    return dfc.load(folder / "p.bundle")


POWERS = """dfg 1

readonly entry power[N](x: i64[N], y: i64[N]) -> (z: i64[N]) {
  return x ** y
}

readonly entry guarded(x: i32, y: i32) -> (z: i32) {
  return if y < 0 then 0 else x ** y
}

readonly entry folded() -> (z: i32) {
  let x = stack([2, 3]) as i32
  return sum(x ** (x - 4))
}
"""


@pytest.fixture(scope="module")
def order(tmp_path_factory: pytest.TempPathFactory) -> dfc.Module:
    return _module(ORDER, tmp_path_factory.mktemp("order"))


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> dfc.Module:
    return _module(IMAGES, tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def draws(tmp_path_factory: pytest.TempPathFactory) -> dfc.Module:
    return _module(DRAWS, tmp_path_factory.mktemp("draws"))


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 64, 100, 1025])
def test_rows_of_every_length_are_sorted(order: dfc.Module, size: int) -> None:
    x = np.random.default_rng(size).integers(0, 50, (3, size)).astype(np.float32)
    up, places, down = order.order(x=x)
    np.testing.assert_array_equal(up, np.sort(x))
    np.testing.assert_array_equal(places, np.argsort(x, kind="stable"))
    np.testing.assert_array_equal(down, -np.sort(-x, axis=0))


def test_the_largest_elements_come_first(order: dfc.Module) -> None:
    x = np.random.default_rng(1).integers(0, 20, 500).astype(np.float32)
    for count in (0, 1, 5, 40):
        best, places = order.top(x=x, K=count)
        wanted = np.argsort(-x, kind="stable")[:count]
        np.testing.assert_array_equal(places, wanted)
        np.testing.assert_array_equal(best, x[wanted])


def test_asking_for_more_elements_than_there_are_is_refused_at_the_call(order: dfc.Module) -> None:
    with pytest.raises(dfc.FeedError, match="N >= K"):
        order.top(x=np.zeros(3, np.float32), K=5)


def test_gradients_go_back_to_where_elements_came_from(order: dfc.Module) -> None:
    x = np.random.default_rng(2).normal(size=70)
    by_sort, by_top = order.slopes(x=x)
    np.testing.assert_array_equal(by_sort, np.argsort(np.argsort(x)))
    wanted = np.zeros(70)
    wanted[np.argsort(-x)[:3]] = 2 * np.sort(x)[::-1][:3]
    np.testing.assert_allclose(by_top, wanted)


def test_places_in_a_sorted_row(order: dfc.Module) -> None:
    rng = np.random.default_rng(3)
    values = np.arange(-1, 31).astype(np.float32)
    for size in (0, 1, 50):
        row = np.sort(rng.integers(0, 30, size)).astype(np.float32)
        left, right = order.seek(row=row, values=values)
        np.testing.assert_array_equal(left, np.searchsorted(row, values))
        np.testing.assert_array_equal(right, np.searchsorted(row, values, "right"))


def _correlate(x: np.ndarray, kernel: np.ndarray, step: int, dilation: int, low: list[int], out: list[int]) -> object:
    """Element by element, in f64."""
    result = np.zeros((x.shape[0], *out, kernel.shape[-1]))
    padded = np.pad(x.astype(np.float64), ((0, 0), (low[0], 9), (low[1], 9), (0, 0)))
    for i, j in np.ndindex(*out):
        for u, v in np.ndindex(*kernel.shape[:2]):
            result[:, i, j] += padded[:, i * step + u * dilation, j * step + v * dilation] @ kernel[u, v]
    return result


@pytest.mark.parametrize("height", [1, 5, 6])
def test_a_strided_filter_of_images_of_any_height(images: dfc.Module, height: int) -> None:
    rng = np.random.default_rng(height)
    x = rng.normal(size=(2, height, 6, 2)).astype(np.float32)
    k = rng.normal(size=(3, 3, 2, 4)).astype(np.float32)
    count = -(-height // 2)
    missing = max((count - 1) * 2 + 3 - height, 0)
    wanted = _correlate(x, k, 2, 1, [missing // 2, 0], [count, 3])
    np.testing.assert_allclose(images.filter(x=x, k=k).y, wanted, rtol=1e-4, atol=1e-5)


def test_gradients_of_filters_and_pools_are_differences(images: dfc.Module) -> None:
    rng = np.random.default_rng(7)
    x, k = rng.normal(size=(1, 7, 6, 2)), rng.normal(size=(3, 2, 2, 3))
    dx, dk, pooled = images.slopes(x=x, k=k)

    def filtered(x: np.ndarray, k: np.ndarray) -> float:
        return float(np.sum(np.square(_correlate(x, k, 1, 2, [1, 1], [5, 6]))))

    def maxima(x: np.ndarray, _k: np.ndarray) -> float:
        return sum(
            float(np.sum(np.square(x[:, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3].max((1, 2)))))
            for i, j in np.ndindex(3, 2)
        )

    for function, slope, by_kernel in ((filtered, dx, 0), (filtered, dk, 1), (maxima, pooled, 0)):
        direction = rng.normal(size=slope.shape)
        step = 1e-6 * direction
        ahead = function(x, k + step) if by_kernel else function(x + step, k)
        behind = function(x, k - step) if by_kernel else function(x - step, k)
        assert np.sum(slope * direction) == pytest.approx((ahead - behind) / 2e-6, rel=1e-5)


def test_a_product_with_named_axes(images: dfc.Module) -> None:
    rng = np.random.default_rng(8)
    q, k = (rng.normal(size=(2, n, 2, 4)).astype(np.float32) for n in (3, 5))
    np.testing.assert_allclose(images.attend(q=q, k=k).a, np.einsum("bthd,bshd->bhts", q, k), rtol=1e-5, atol=1e-6)


def test_draws_have_their_distributions(draws: dfc.Module) -> None:
    count, below = 100_000, 1000
    logits = np.tile(np.array([0, 1, 2], np.float32), (count, 1))
    classes, ranks, normal, shuffled = draws.draw(logits=logits, below=below)
    chances = np.exp([0, 1, 2]) / np.exp([0, 1, 2]).sum()
    np.testing.assert_allclose(np.bincount(classes) / count, chances, atol=6e-3)
    k = np.arange(below)
    wanted = np.log((k + 2) / (k + 1)) / np.log(below + 1)
    np.testing.assert_allclose(np.bincount(ranks, minlength=below) / count, wanted, atol=4e-3)
    assert normal.min() >= -3 and normal.max() <= 5 and abs(normal.mean() - 1) < 0.03
    assert abs(normal.std() - 2 * 0.8796) < 0.03
    assert not np.array_equal(shuffled, np.arange(count))
    np.testing.assert_array_equal(np.sort(shuffled), np.arange(count))


def test_every_draw_is_new(draws: dfc.Module) -> None:
    logits = np.zeros((50, 3), np.float32)
    first, second = (draws.draw(logits=logits, below=10_000_000) for _ in range(2))
    assert all(not np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("dice.categorical(i32[3])", "a tensor is needed here"),
        ("dice.log_uniform(f32[3], below = 5)", "whole numbers"),
        ("dice.permutation(i32[3, 3])", "makes a vector"),
        ("dice.truncated_normal(i32[3])", "floating-point numbers"),
        ("dice.permutation(i32[3], 4)", "at most 1 argument"),
    ],
)
def test_draws_that_make_no_sense_are_refused(call: str, message: str) -> None:
    text = f"dfg 1\n\nvar dice: rng = philox(seed = 3)\n\nentry e() {{\n  let x = {call}\n}}\n"
    with pytest.raises(CompileError, match=message):
        dfc.compile(text=text)


def test_whole_numbers_have_no_negative_powers(tmp_path: Path) -> None:
    module = _module(POWERS, tmp_path)
    x, y = np.array([2, -3, 0, 1, -1] * 9), np.array([3, 2, 0, 7, 3] * 9)
    np.testing.assert_array_equal(module.power(x=x, y=y).z, x**y)
    for place in (0, 17, 44):
        exponents = y.copy()
        exponents[place] = -1
        with pytest.raises(dfc.RunError, match=r"an integer to a negative power at .*:4:10"):
            module.power(x=x, y=exponents)
    assert module.guarded(x=3, y=-2).z == 0 and module.guarded(x=3, y=2).z == 9
    with pytest.raises(dfc.RunError, match=r"an integer to a negative power at .*:13:14"):
        module.folded()
