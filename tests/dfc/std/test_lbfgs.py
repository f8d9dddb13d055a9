"""`std.lbfgs` follows its transcription in NumPy, ends at the lowest point, and stays where nothing is lower."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import dfc
import dfc_runtime

HEAD = "dfg 1\nfrom std.lbfgs import Lbfgs\n"
STEP = "entry step() -> f64 {\n let now = search.step()\n return now\n}\n"
VALLEY = """
param a: f64[3] = [1.2, 1, 0.5]
param b: f64[2] = 0.3
var search = Lbfgs([a, b], objective, history = 4)
fn objective() -> f64 {
  let x = concat([a, b], axis = 0)
  return sum(100 * square(x[1:] - square(x[:-1])) + square(1 - x[:-1]))
}
"""


def loaded(text: str) -> dfc_runtime.Module:
    return dfc_runtime.loads(dfc.compile(text=HEAD + text + STEP).to_bytes(), threads=1)


def rosen(x: np.ndarray) -> float:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def rosen_slope(x: np.ndarray) -> np.ndarray:
    slope = np.zeros_like(x)
    across = x[1:] - x[:-1] ** 2
    slope[:-1] = -400 * x[:-1] * across - 2 * (1 - x[:-1])
    slope[1:] += 200 * across
    return slope


class Search:
    """The same method over one vector."""

    def __init__(self, f: Callable, slope: Callable, x: np.ndarray, history: int) -> None:
        self.f, self.slope, self.x, self.history = f, slope, x, history
        self.pairs: list[tuple[np.ndarray, np.ndarray]] = []

    def direction(self, g: np.ndarray) -> np.ndarray:
        d, shares = -g, []
        for s, y in reversed(self.pairs):
            shares.append(s @ d / (s @ y))
            d = d - shares[-1] * y
        s, y = self.pairs[-1] if self.pairs else (g, g * max(1, np.sqrt(g @ g)))
        d = d * (s @ y) / (y @ y)
        for (s, y), share in zip(self.pairs, reversed(shares), strict=True):
            d = d + (share - y @ d / (s @ y)) * s
        return d

    def step(self) -> None:
        before, g = self.f(self.x), self.slope(self.x)
        d, length, low, high = self.direction(g), 1.0, 0.0, 0.0
        while True:
            x = self.x + length * d
            fits = self.f(x) <= before + 1e-4 * length * (g @ d)
            if fits and self.slope(x) @ d >= 0.9 * (g @ d):
                break
            low, high = (length, high) if fits else (low, length)
            length = (low + high) / 2 if high else 2 * length
        self.pairs = [*self.pairs, (x - self.x, self.slope(x) - g)][-self.history :]
        self.x = x


def test_steps_equal_numpy() -> None:
    model = loaded(VALLEY)
    search = Search(rosen, rosen_slope, np.array([1.2, 1, 0.5, 0.3, 0.3]), 4)
    for k in range(20):
        value = model.step()
        search.step()
        found = np.concatenate([model.state["a"], model.state["b"]])
        np.testing.assert_allclose(found, search.x, rtol=1e-12 * 4**k)
        np.testing.assert_allclose(value, rosen(found), rtol=1e-12)


def test_the_lowest_point_is_found_downhill_all_the_way() -> None:
    model = loaded(VALLEY)
    values = [model.step() for _ in range(60)]
    np.testing.assert_allclose(np.concatenate([model.state["a"], model.state["b"]]), np.ones(5), rtol=1e-9)
    assert values == sorted(values, reverse=True)


def test_nothing_moves_at_the_lowest_point() -> None:
    model = loaded("param x: f64[2] = 3\nvar search = Lbfgs([x], f)\nfn f() -> f64 = sum(square(x - 3)) + 1\n")
    assert [model.step() for _ in range(3)] == [1, 1, 1]
    assert (model.state["x"] == 3).all()
    assert model.state["search.count"] == 0


def test_a_search_that_finds_nothing_lower_leaves_the_variables() -> None:
    """A gradient of the wrong sign: every trial is higher."""
    text = "param x: f64 = 2\nvar search = Lbfgs([x], f)\nfn f() -> f64 = 2 * stop_gradient(square(x)) - square(x)\n"
    model = loaded(text)
    assert model.step() == 4
    assert model.state["x"] == 2
    assert model.state["search.count"] == 0


@pytest.mark.parametrize("t", ["f32", "f64"])
def test_a_quadratic_of_either_type_is_solved(t: str) -> None:
    text = f"""
    param x: {t}[2, 2] = 0
    var search = Lbfgs([x], f)
    fn f() -> f64 = sum(square(x - [[1, -2], [3, 40]]) * [[1, 10], [100, 1]]) as f64
    """
    model = loaded(text)
    for _ in range(30):
        model.step()
    np.testing.assert_allclose(model.state["x"], [[1, -2], [3, 40]], rtol=1e-4 if t == "f32" else 1e-9)
