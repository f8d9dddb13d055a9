"""The optimisers of `std.optim` step as their formulas say, for several steps and variables of different shapes."""

from __future__ import annotations

import numpy as np

from dfc.ops.evaluate import evaluate, initial_state
from dfc.passes.autodiff import autodiff
from tests.support.building import graph_of

PROGRAM = """
    from std.optim import Adam, Momentum, Sgd, clip_by_length
    param a: f64[3] = [1, -2, 3]
    param b: f64 = 2
    var optimiser = {optimiser}
    fn loss(x: f64[3]) -> f64 = sum(square(a * x - b)) + b ** 4
    entry step(x: f64[3]) -> f64 {{
      let now = loss(x)
      {step}
      return now
    }}
"""


def run(optimiser: str, step: str = "optimiser.step(now as f32)", count: int = 5) -> dict[str, np.ndarray]:
    graph = autodiff(graph_of(PROGRAM.format(optimiser=optimiser, step=step)))
    state = initial_state(graph)
    for k in range(count):
        state = evaluate(graph, "step", {"x": np.arange(3.0) + k}, state).state
    return state


def slopes(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> list[np.ndarray]:
    rest = a * x - b
    return [2 * rest * x, -2 * rest.sum() + 4 * b**3]


def expected(update: object, count: int = 5) -> list[np.ndarray]:
    values = [np.array([1.0, -2.0, 3.0]), np.array(2.0)]
    memory: list[dict[str, np.ndarray]] = [{}, {}]
    for k in range(count):
        gradients = slopes(*values, np.arange(3.0) + k)
        values = update(values, gradients, memory, k + 1)  # type: ignore[operator]
    return values


def assert_same(state: dict[str, np.ndarray], values: list[np.ndarray], tolerance: float = 1e-6) -> None:
    np.testing.assert_allclose(state["a"], values[0], rtol=tolerance)
    np.testing.assert_allclose(state["b"], values[1], rtol=tolerance)


def test_gradient_descent() -> None:
    state = run("Sgd(params(program), rate = 0.01)")
    assert_same(state, expected(lambda v, g, m, k: [x - 0.01 * s for x, s in zip(v, g, strict=True)]))


def test_momentum() -> None:
    def update(values, slopes, memory, k):
        for m, g in zip(memory, slopes, strict=True):
            m["v"] = 0.9 * m.get("v", 0) + g
        return [x - 0.01 * m["v"] for x, m in zip(values, memory, strict=True)]

    assert_same(run("Momentum(params(program), rate = 0.01)"), expected(update))


def test_adam() -> None:
    def update(values, slopes, memory, k):
        rate = 0.1 * np.sqrt(1 - 0.999**k) / (1 - 0.9**k)
        for m, g in zip(memory, slopes, strict=True):
            m["m"] = 0.9 * m.get("m", 0) + 0.1 * g
            m["v"] = 0.999 * m.get("v", 0) + 0.001 * g**2
        return [x - rate * m["m"] / (np.sqrt(m["v"]) + 1e-8) for x, m in zip(values, memory, strict=True)]

    state = run("Adam(params(program), rate = 0.1)")
    assert_same(state, expected(update), 1e-4)  # the rate is folded in f32
    assert state["optimiser.count"] == 5
    assert "optimiser.slots[a].m" in state


def test_clipping_limits_the_joint_length() -> None:
    step = """
      let ga, gb = grad(now, [a, b])
      let ca, cb = clip_by_length([ga as f32, gb as f32], 1)
      a -= ca as f64
      b -= cb as f64
    """
    state = run("Sgd(params(program))", step, 1)
    gradients = slopes(np.array([1.0, -2.0, 3.0]), np.array(2.0), np.arange(3.0))
    length = np.sqrt(sum((g**2).sum() for g in gradients))
    assert length > 1
    np.testing.assert_allclose(state["a"], np.array([1.0, -2.0, 3.0]) - gradients[0] / length, rtol=1e-6)
    np.testing.assert_allclose(state["b"], 2 - gradients[1] / length, rtol=1e-6)
