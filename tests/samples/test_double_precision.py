"""The samples in double precision equal their transcription in NumPy to 1e-10."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import dfc_runtime
from dfc.driver import api
from dfc_runtime import Module
from dfc_runtime.errors import FeedError, RunError
from tests.support.corpus import ROOT

LANGUAGE = ROOT / "samples" / "language"
SIDE = 37


@cache
def bundle(name: str) -> bytes:
    """The bundle of a sample; the plate of the heat equation is made smaller."""
    text = (LANGUAGE / name).read_text()
    smaller = text.replace("const N = 512", f"const N = {SIDE}")
    assert smaller != text or name != "08_heat_equation.dfg"
    return api.compile(text=smaller).to_bytes()


def newton() -> Module:
    return dfc_runtime.loads(bundle("06_newton_and_power.dfg"), threads=1)


def heat(threads: int = 1) -> Module:
    return dfc_runtime.loads(bundle("08_heat_equation.dfg"), threads=threads)


def near(found: object, wanted: object) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-10, atol=0)


@pytest.mark.parametrize("guess", [2.0, 10.0, -5.0, 0.9, 1e6])
def test_newton_takes_the_same_steps_to_the_same_root(guess: float) -> None:
    x, steps = guess, 0
    while abs(x**3 - 2 * x - 5) > 1e-12 and steps < 50:
        x = x - (x**3 - 2 * x - 5) / (3 * x**2 - 2)
        steps += 1
    root, count = newton().newton(guess=guess, tolerance=1e-12)
    near(root, x)
    assert count == steps


@pytest.mark.parametrize("guess", [(1.0, -1.7), (-2.0, 0.5), (0.5, 0.5)])
def test_two_curves_cross_where_numpy_finds_it(guess: tuple[float, float]) -> None:
    p, steps = np.array(guess), 0

    def curves(q: np.ndarray) -> np.ndarray:
        return np.array([q[0] ** 2 + q[1] ** 2 - 4, np.exp(q[0]) + q[1] - 1])

    while np.sqrt(np.sum(curves(p) ** 2)) > 1e-9 and steps < 50:
        slopes = np.array([[2 * p[0], 2 * p[1]], [np.exp(p[0]), 1.0]])
        p = p - np.linalg.solve(slopes, curves(p))
        steps += 1
    point, count = newton().crossing(guess=np.array(guess), tolerance=1e-9)
    near(point, p)
    assert count == steps


@pytest.mark.parametrize("size", [1, 2, 9, 40])
def test_the_dominant_direction_equals_numpy(size: int) -> None:
    rng = np.random.default_rng(size)
    half = rng.random((size, size))
    a, start = half + half.T + np.diag(np.arange(1.0, size + 1)), rng.random(size) + 0.5
    v, change, steps = start / np.linalg.norm(start), 1.0, 0
    while change > 1e-8 and steps < 10_000:
        direction = (a @ v) / np.linalg.norm(a @ v)
        change, v, steps = np.linalg.norm(direction - v), direction, steps + 1
    value, vector, count = newton().dominant(a=a, start=start, tolerance=1e-8)
    near(value, v @ (a @ v))
    near(vector, v)
    assert count == steps
    np.testing.assert_allclose(value, np.linalg.eigvalsh(a)[-1], rtol=1e-9)


def test_a_matrix_that_is_not_square_is_refused() -> None:
    with pytest.raises(FeedError, match="N"):
        newton().dominant(a=np.zeros((3, 4)), start=np.zeros(3), tolerance=1e-8)
    with pytest.raises(FeedError, match="N >= 1"):
        newton().dominant(a=np.zeros((0, 0)), start=np.zeros(0), tolerance=1e-8)


class Plate:
    """The heat equation in NumPy."""

    def __init__(self) -> None:
        self.cells = np.full((SIDE, SIDE), 293.15)
        self.cells[0, :], self.cells[-1, :] = 350.0, 250.0
        self.cells[1:-1, 0], self.cells[1:-1, -1] = 300.0, 310.5

    def flow(self, ratio: float) -> np.ndarray:
        u = self.cells
        return ratio * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])

    def advance(self, steps: int, ratio: float) -> None:
        for _ in range(steps):
            self.cells[1:-1, 1:-1] += self.flow(ratio)

    def settle(self, ratio: float, tolerance: float) -> int:
        steps, change = 0, 1e9
        while change > tolerance:
            flow = self.flow(ratio)
            self.cells[1:-1, 1:-1] += flow
            change, steps = np.abs(flow).max(), steps + 1
        return steps


def with_rim(threads: int = 1) -> Module:
    model = heat(threads)
    model.set_rim(top=350, bottom=250, left=300, right=310.5)
    return model


def test_the_rim_is_written_in_parts() -> None:
    np.testing.assert_array_equal(with_rim().state["plate"], Plate().cells)


@pytest.mark.parametrize("steps", [0, 1, 2, 250])
def test_heat_flows_as_in_numpy(steps: int) -> None:
    model, plate = with_rim(), Plate()
    plate.advance(steps, 0.2)
    near(model.advance(steps=steps, ratio=0.2, dt=0.5), 0.5 * steps)
    near(model.state["plate"], plate.cells)
    near(model.sample(row=3, column=-2), plate.cells[3, -2])


def test_the_plate_settles_after_as_many_steps() -> None:
    model, plate = with_rim(), Plate()
    wanted = plate.settle(0.24, 1e-3)
    assert wanted > 100
    assert model.settle(ratio=0.24, tolerance=1e-3).steps == wanted
    near(model.state["plate"], plate.cells)


def test_no_bit_of_the_plate_depends_on_the_number_of_threads() -> None:
    plates = []
    for threads in (1, 2):
        model = with_rim(threads)
        model.advance(steps=40, ratio=0.23, dt=1)
        model.settle(ratio=0.2, tolerance=0.05)
        plates.append(model.state["plate"].tobytes())
    assert plates[0] == plates[1]


def test_a_ratio_that_would_blow_up_is_refused_with_its_line() -> None:
    model = with_rim()
    before = model.state["plate"].tobytes()
    with pytest.raises(RunError, match="the explicit scheme needs ratio < 1/4") as caught:
        model.advance(steps=3, ratio=0.25, dt=1)
    assert caught.value.line == 29
    assert model.state["plate"].tobytes() == before


@pytest.mark.parametrize(("row", "column"), [(SIDE, 0), (0, -SIDE - 1), (2**31 - 1, 0)])
def test_a_cell_outside_the_plate_is_refused(row: int, column: int) -> None:
    with pytest.raises(RunError, match="out of range") as caught:
        heat().sample(row=row, column=column)
    assert (caught.value.code, caught.value.line) == ("E0904", 50)


def test_init_starts_over() -> None:
    model = with_rim()
    model.init()
    assert (model.state["plate"] == 293.15).all()
