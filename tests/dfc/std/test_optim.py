"""The optimisers of `std.optim`, compiled, follow their transcription in NumPy for 100 steps, in f64 to 1e-12."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import dfc
import dfc_runtime

Slopes = Iterator[tuple[int, np.ndarray]]
Rule = Callable[[np.ndarray, dict[str, np.ndarray], np.ndarray, int], np.ndarray]
"""From a variable, what is remembered of it, its gradient and the number of the step to the next variable."""

PROGRAM = """dfg 1
from std.optim import {name}, clip_by_global_norm, clip_by_norm, clip_by_value
from std.schedules import cosine, warm_up
param a: {t}[3] = [1, -2, 3]
param b: {t} = 2
var optimiser = {name}(params(program){arguments})
var count: i64 = 0
fn loss(x: {t}[3]) -> {t} = sum(square(a * x - b)) + square(square(b))
entry step(x: {t}[3]) -> {t} {{
  let now = loss(x)
  {step}
  count += 1
  return now
}}
"""


def run(
    name: str, arguments: str = "", step: str = "optimiser.step(now)", count: int = 100, t: str = "f64"
) -> list[np.ndarray]:
    """Both variables after so many steps of the compiled program."""
    text = PROGRAM.format(name=name, arguments=", " + arguments if arguments else "", step=step, t=t)
    model = dfc_runtime.loads(dfc.compile(text=text).to_bytes(), threads=1)
    for k in range(count):
        model.step(x=point(k).astype(np.dtype(t.replace("f", "float"))))
    return [model.state["a"], model.state["b"]]


def point(k: int) -> np.ndarray:
    return np.sin(np.arange(3.0) + k) + 1


def slopes(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> list[np.ndarray]:
    rest = a * x - b
    return [2 * rest * x, -2 * rest.sum() + 4 * b**3]


def transcribed(
    rule: Rule, count: int = 100, clip: Callable[[list[np.ndarray]], list[np.ndarray]] = lambda g: g
) -> list[np.ndarray]:
    values = [np.array([1.0, -2.0, 3.0]), np.array(2.0)]
    memory: list[dict[str, np.ndarray]] = [{}, {}]
    for k in range(count):
        gradients = clip(slopes(values[0], values[1], point(k)))
        values = [rule(w, m, g, k + 1) for w, m, g in zip(values, memory, gradients, strict=True)]
    return values


def average(memory: dict[str, np.ndarray], name: str, keep: float, x: np.ndarray) -> np.ndarray:
    memory[name] = keep * memory.get(name, 0) + (1 - keep) * x
    return memory[name]


def sgd(w, m, g, n):
    return w - 0.01 * g


def momentum(w, m, g, n):
    m["v"] = 0.8 * m.get("v", 0) + g
    return w - 0.01 * m["v"]


def nesterov(w, m, g, n):
    m["v"] = 0.8 * m.get("v", 0) + g
    return w - 0.01 * (g + 0.8 * m["v"])


def ada_grad(w, m, g, n):
    m["v"] = m.get("v", 0) + g**2
    return w - 0.1 * g / (np.sqrt(m["v"]) + 1e-10)


def rms_prop(w, m, g, n):
    return w - 0.01 * g / (np.sqrt(average(m, "v", 0.9, g**2)) + 1e-8)


def ada_delta(w, m, g, n):
    v = average(m, "v", 0.95, g**2)
    step = np.sqrt(m.get("u", 0) + 1e-6) / np.sqrt(v + 1e-6) * g
    average(m, "u", 0.95, step**2)
    return w - step


def adam(w, m, g, n):
    mean, spread = average(m, "m", 0.9, g), average(m, "v", 0.999, g**2)
    return w - 0.1 * np.sqrt(1 - 0.999**n) / (1 - 0.9**n) * mean / (np.sqrt(spread) + 1e-8)


def adam_w(w, m, g, n):
    return adam(w - 0.1 * 0.05 * w, m, g, n)


def lamb(w, m, g, n):
    mean, spread = average(m, "m", 0.9, g) / (1 - 0.9**n), average(m, "v", 0.999, g**2) / (1 - 0.999**n)
    step = mean / (np.sqrt(spread) + 1e-6) + 0.05 * w
    return w - 0.1 * np.sqrt((w**2).sum() / (step**2).sum()) * step


RULES = {
    "Sgd": ("rate = 0.01", sgd),
    "Momentum": ("rate = 0.01, friction = 0.8", momentum),
    "Momentum, nesterov": ("rate = 0.01, friction = 0.8, nesterov = true", nesterov),
    "AdaGrad": ("rate = 0.1", ada_grad),
    "RMSProp": ("rate = 0.01", rms_prop),
    "AdaDelta": ("", ada_delta),
    "Adam": ("rate = 0.1", adam),
    "AdamW": ("rate = 0.1, decay = 0.05", adam_w),
    "Lamb": ("rate = 0.1, decay = 0.05", lamb),
}
optimisers = pytest.mark.parametrize("named", RULES)


def assert_same(found: list[np.ndarray], wanted: list[np.ndarray], tolerance: float = 1e-12) -> None:
    for one, two in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, two, rtol=tolerance)


@optimisers
def test_a_hundred_steps_equal_numpy(named: str) -> None:
    arguments, rule = RULES[named]
    start = [np.array([1.0, -2.0, 3.0]), np.array(2.0)]
    wanted = transcribed(rule)
    assert all((np.abs(x - y) > 1e-3).all() for x, y in zip(start, wanted, strict=True))
    assert_same(run(named.split(",")[0], arguments), wanted)


@optimisers
def test_gradients_can_be_changed_on_the_way_and_the_rate_scaled(named: str) -> None:
    arguments, rule = RULES[named]
    step = "optimiser.apply(clip_by_value(grad(now, params(program)), 0.5), warm_up(0, 1))"
    found = run(named.split(",")[0], arguments, step, 20)
    assert_same(found, transcribed(rule, 20, lambda gs: [np.clip(g, -0.5, 0.5) for g in gs]))


@optimisers
def test_a_rate_of_nothing_moves_nothing(named: str) -> None:
    found = run(named.split(",")[0], RULES[named][0], "optimiser.step(now, 0)", 3)
    assert_same(found, [np.array([1.0, -2.0, 3.0]), np.array(2.0)], 0)


@pytest.mark.parametrize(("t", "tolerance"), [("f32", 1e-4), ("f16", 3e-2)])
def test_variables_may_have_other_types(t: str, tolerance: float) -> None:
    found = run("Adam", "rate = 0.1, epsilon = 0.0001", count=10, t=t)
    assert str(found[0].dtype) == t.replace("f", "float")
    assert_same([x.astype(np.float64) for x in found], run("Adam", "rate = 0.1, epsilon = 0.0001", count=10), tolerance)


def test_a_schedule_scales_each_step() -> None:
    def rule(w, m, g, n):
        k = n - 1
        return w - 0.01 * min((k + 1) / 5, 1) * 0.5 * (1 + np.cos(np.pi * k / 50)) * g

    found = run("Sgd", "rate = 0.01", "optimiser.step(now, warm_up(count, 5) * cosine(count, 50))", 50)
    assert_same(found, transcribed(rule, 50))


def joint(gradients: list[np.ndarray]) -> list[np.ndarray]:
    length = np.sqrt(sum((g**2).sum() for g in gradients))
    return [g * min(1, 2 / length) for g in gradients]


def single(gradients: list[np.ndarray]) -> list[np.ndarray]:
    return [g * min(1, 2 / np.sqrt((g**2).sum())) for g in gradients]


@pytest.mark.parametrize(("name", "clip"), [("clip_by_global_norm", joint), ("clip_by_norm", single)])
def test_clipping_limits_lengths(name: str, clip: Callable[[list[np.ndarray]], list[np.ndarray]]) -> None:
    step = f"optimiser.apply({name}(grad(now, params(program)), 2))"
    assert clip(slopes(np.array([1.0, -2.0, 3.0]), np.array(2.0), point(0)))[1] < 2.001
    assert_same(run("Sgd", "rate = 0.01", step), transcribed(sgd, clip=clip))


def test_clipping_by_length_takes_f32() -> None:
    text = """dfg 1
    from std.optim import clip_by_length
    readonly entry f[N](x: f32[N], y: f32) -> (x: f32[N], y: f32) {
      let a, b = clip_by_length([x, y], 1)
      return a, b
    }
    """
    model = dfc_runtime.loads(dfc.compile(text=text).to_bytes(), threads=1)
    x, y = model.f(x=np.float32([3, 4]), y=12)
    np.testing.assert_allclose([*x, y], np.array([3, 4, 12]) / 13, rtol=1e-6)
    x, y = model.f(x=np.float32([0.5, 0.5]), y=0.5)
    assert [*x, y] == [0.5, 0.5, 0.5]
