"""Gradients through loops: against differences, against unrolled programs, and compiled with one and two threads."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest

import dfc
from dfc.ir.verify import verify
from dfc.ops.check import check_node
from dfc.transforms.autodiff.autodiff import autodiff
from dfc_runtime import loads
from tests.support.building import graph_of, run
from tests.support.sweeping import WHOLE, few

STEP = 1e-6
TOLERANCE = 2e-6
RNG = np.random.default_rng(7)


def numbers(*shape: int) -> np.ndarray:
    return RNG.uniform(0.4, 1.2, shape)


X, XS, M, W = np.array(0.7), numbers(5), numbers(4, 3), numbers(3, 3)
COUNTS = {"a": np.int32(2), "n": np.int32(7)}
NOTHING = np.zeros(0)

# parameters of f64, the feeds for them, other parameters, and the body of `fn loss`
PROGRAMS: dict[str, tuple[str, Mapping[str, np.ndarray], str]] = {
    "carried": ("x: f64", {"x": X}, "let y = loop y = x for i in 0..4 { y = y * sin(y) }\n return y"),
    "no rounds": ("x: f64", {"x": X}, "let y = loop y = x * x for i in 3..3 { y = y * sin(y) }\n return y"),
    "run-time bounds": (
        "x: f64",
        {"x": X},
        "let y = loop y = x for i in a..n { y = y * cos(y) + (i as f64)}\n return y",
    ),
    "no run-time rounds": ("x: f64", {"x": X}, "let y = loop y = x * x for i in n..a { y = y * cos(y) }\n return y"),
    "while": (
        "x: f64, w: f64",
        {"x": X, "w": np.array(1.3)},
        "let y, _ = loop y = x, k: i64 = 0 while y < 3 { y = y * w + 0.1 * sin(y)\n k = k + 1 }\n return y * y",
    ),
    "while without rounds": ("x: f64", {"x": X}, "let y = loop y = x * x while y > 9 { y = y / 2 }\n return y"),
    "newton": (
        "x: f64",
        {"x": np.array(5.0)},
        "let r, _ = loop r = x, k: i64 = 0 while k < 3 and abs(r * r - x) > 1e-12 {"
        "\n r = r - (r * r - x) / (2 * r)\n k = k + 1 }\n return r",
    ),
    "cumulative product": (
        "xs: f64[5]",
        {"xs": XS},
        "let _, e = loop p: f64 = 1 for x in xs { p = p * x\n emit p }\n return sum(e * e)",
    ),
    "emit of what was": (
        "xs: f64[5], x: f64",
        {"xs": XS, "x": X},
        "let p, e = loop p = x for v in xs { emit p * v\n p = sin(p) + v }\n return sum(exp(e)) * p",
    ),
    "one emit unused": (
        "xs: f64[5]",
        {"xs": XS},
        "let p, e = loop p: f64 = 1 for v in xs { p = p * v + v\n emit p * 100 }\n return p",
    ),
    "sequence used twice": (
        "xs: f64[5], w: f64",
        {"xs": XS, "w": X},
        "let p = loop p: f64 = 0 for v in xs { p = p * w + v * mean(xs) }\n return p + sum(xs * xs)",
    ),
    "neighbours": (
        "xs: f64[5]",
        {"xs": XS},
        "let e = for i in 1..5 { emit xs[i] * xs[i - 1] }\n return sum(e * e)",
    ),
    "empty sequence": (
        "xs: f64[0], w: f64",
        {"xs": NOTHING, "w": X},
        "let p, e = loop p = w for v in xs { p = p * v\n emit p }\n return p * 3 + sum(e)",
    ),
    "network": (
        "xs: f64[4, 3], w: f64[3, 3], b: f64[3], h: f64[3]",
        {"xs": M, "w": W, "b": numbers(3), "h": numbers(3)},
        "let h, hs = loop h = h for x in xs { h = tanh(x @ w + h @ w + b)\n emit h }\n return mean(hs * hs) + sum(h)",
    ),
    "memory cells": (
        "xs: f64[4, 2, 3], w: f64[3, 12], u: f64[3, 12], b: f64[12]",
        {"xs": numbers(4, 2, 3), "w": numbers(3, 12), "u": numbers(3, 12), "b": numbers(12)},
        "let m, hs = loop m: (h: f64[2, 3], c: f64[2, 3]) = 0 for x in xs {\n"
        " let z = x @ w + m.h @ u + b\n"
        " let c = sigmoid(z[:, 3:6]) * m.c + sigmoid(z[:, :3]) * tanh(z[:, 6:9])\n"
        " let h = sigmoid(z[:, 9:]) * tanh(c)\n m = (h = h, c = c)\n emit h }\n return mean(hs * hs) + sum(m.c)",
    ),
    "nested": (
        "xs: f64[4, 3], x: f64",
        {"xs": M, "x": X},
        "let y = loop y = x for row in xs { y = loop z = y for v in row { z = sin(z * v) + x } }\n return y",
    ),
    "nested emits": (
        "xs: f64[4, 3], w: f64",
        {"xs": M, "w": X},
        "let s, e = loop s: f64 = 1 for row in xs { let t, r = loop t = s for v in row { t = t * v + w\n emit t * t }\n"
        " s = tanh(t)\n emit sum(r) * s }\n return sum(e * e) + s",
    ),
    "while in for": (
        "xs: f64[5], x: f64",
        {"xs": XS, "x": X},
        "let y = loop y = x for v in xs { y = loop z = y * 0.3 while z < 1 { z = z * 2 + v * z } }\n return y",
    ),
    "for in while": (
        "xs: f64[5], x: f64",
        {"xs": XS, "x": X},
        "let y = loop y = x while y < 4 { y = loop z = y for v in xs { z = z * (1 + v * v / 4) } }\n return y",
    ),
    "branch in a round": (
        "xs: f64[5], x: f64",
        {"xs": XS, "x": X},
        "let y = loop y = x for v in xs { y = if v > 0.8 { yield sin(y * v) } else { yield y * x } }\n return y",
    ),
    "loop in a branch": (
        "xs: f64[5], x: f64",
        {"xs": XS, "x": X},
        "let y = if x < 3 { let z = loop z = x for v in xs { z = z * v + x }\n yield z } else { yield x }\n"
        " return y * y",
    ),
    "several carried": (
        "x: f64, w: f64",
        {"x": X, "w": np.array(1.1)},
        "let p, q = loop p = x, q = w for i in 0..5 { let s = p\n p = q * sin(p)\n q = s + w * (i as f64) }\n"
        " return p * q",
    ),
    "slope in a round": (
        "x: f64, w: f64",
        {"x": X, "w": np.array(0.3)},
        "let y = loop y = x for i in 0..3 { let l = y ** 3 * w\n y = y - 0.1 * grad(l, y) }\n return y * w",
    ),
    "rows by number": (
        "t: f64[4, 3], w: f64",
        {"t": M, "w": X},
        "let ids = stack([2, 0, 2])\n let s = loop s: f64[3] = 0 for i in ids { s = s * w + sin(t[i]) }\n"
        " return sum(s * s)",
    ),
}


def source(name: str, *, with_value: bool = True) -> str:
    """The entry `slopes`, and `value`, of which differences are taken."""
    parameters, feeds, body = PROGRAMS[name]
    names = ", ".join(feeds)
    more = ", a: i32, n: i32"
    types = [p.split(": ", 1)[1] for p in parameters.replace("], ", "];").replace("f64, ", "f64;").split(";")]
    many = len(types) > 1
    declared = f"({', '.join(f'g{i}: {t}' for i, t in enumerate(types))})" if many else types[0]
    targets = f"[{names}]" if many else names
    taken = ", ".join(f"g{i}" for i in range(len(types)))
    value = f"entry value({parameters}{more}) -> f64 {{\n return loss({names}, a, n)\n}}\n" if with_value else ""
    return (
        f"dfg 1\n\nfn loss({parameters}{more}) -> f64 {{\n {body}\n}}\n{value}"
        f"entry slopes({parameters}{more}) -> {declared} {{\n"
        f" let {taken} = grad(loss({names}, a, n), {targets})\n return {taken}\n}}\n"
    )


@pytest.mark.parametrize("name", few(PROGRAMS, 10))
def test_gradients_are_differences_and_compiled_code_finds_them_too(name: str) -> None:
    _, feeds, _ = PROGRAMS[name]
    graph = graph_of(source(name))
    verify(autodiff(graph), "autodiff", check_node)
    slopes = run(graph, "slopes", **feeds, **COUNTS).results
    for (key, at), slope in zip(feeds.items(), slopes, strict=True):
        direction = np.random.default_rng(1).normal(size=at.shape)
        ends = [run(graph, "value", **{**feeds, key: at + s * STEP * direction}, **COUNTS).result for s in (1, -1)]
        wanted = float(ends[0] - ends[1]) / (2 * STEP)
        assert float(np.sum(slope * direction)) == pytest.approx(wanted, rel=TOLERANCE, abs=TOLERANCE), key
    data = dfc.compile(text=source(name, with_value=False)).to_bytes()
    for threads in (1, 2):
        found = loads(data, threads=threads).entries["slopes"](**feeds, **COUNTS)
        found = tuple(found) if len(slopes) > 1 else (found,)
        for got, expected in zip(found, slopes, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)


COUNTED = """dfg 1
    entry f(x: f64, n: i32) -> f64 {
      let y = loop y = x for i in 0..n { y = y + 0.01 * sin(y) }
      return grad(y, x)
    }
"""


@cache
def counted() -> bytes:
    return dfc.compile(text=COUNTED).to_bytes()


@pytest.mark.parametrize("rounds", [1, 2, 31, 32, 33, 1023, 1024, 1025, 2100])
def test_counts_around_the_sizes_of_blocks(rounds: int) -> None:
    """Thousands of iterations as machine code: the reference evaluator takes a second for them."""
    y, slope = 0.7, 1.0
    for _ in range(rounds):
        y, slope = y + 0.01 * np.sin(y), slope * (1 + 0.01 * np.cos(y))
    found = [loads(counted()).entries["f"](0.7, np.int32(rounds))]
    if WHOLE or rounds < 100:
        found.append(run(graph_of(COUNTED.removeprefix("dfg 1")), "f", x=0.7, n=np.int32(rounds)).result)
    assert found == pytest.approx([slope] * len(found), rel=1e-12)


def test_the_second_gradient_through_loops() -> None:
    program = """
        entry f(x: f64, n: i32) -> (a: f64, b: f64, c: f64) {
          let y = loop y = x for i in 0..3 { y = y * y }
          let z = loop z = x for i in 0..n { z = z * z }
          let v = loop v = x while v < 100 { v = v * v }
          return grad(grad(y, x), x), grad(grad(z, x), x), grad(grad(v, x), x)
        }
    """
    a, b, c = run(graph_of(program), "f", x=1.3, n=np.int32(3)).results
    assert [float(v) for v in (a, b)] == pytest.approx([56 * 1.3**6] * 2, rel=1e-12)
    assert float(c) == pytest.approx(32 * 31 * 1.3**30, rel=1e-12)


def test_a_jacobian_through_a_loop() -> None:
    program = """
        entry f(x: f64[2]) -> f64[2, 2] {
          let y = loop y = x for i in 0..3 { y = y * y + x[::-1] }
          return jacobian(y, x)
        }
    """
    x = np.array([0.3, 0.5])
    y, found = x, np.eye(2)
    for _ in range(3):
        y, found = y * y + x[::-1], 2 * y[:, None] * found + np.eye(2)[::-1]
    np.testing.assert_allclose(run(graph_of(program), "f", x=x).result, found, rtol=1e-12)


def test_draws_and_state_in_the_iterations() -> None:
    """The backward pass uses the numbers that were drawn, and what the variable held in each iteration."""
    program = """
        var seen: f64 = 1
        var dice: rng = philox(seed = 3)
        entry f(x: f64) -> (y: f64, slope: f64, draws: f64[4], seen: f64) {
          let y, draws, states = loop y = x for i in 0..4 {
            let d = dice.uniform(f64)
            let s = seen
            seen := s * 2
            y = y * d + s * sin(y)
            emit d, s
          }
          return y, grad(y, x), draws, seen
        }
    """
    y, slope, draws, seen = run(graph_of(program), "f", x=0.5).results
    wanted, at = 1.0, 0.5
    for number, draw in enumerate(draws):
        wanted, at = wanted * (draw + 2**number * np.cos(at)), at * draw + 2**number * np.sin(at)
    assert (float(y), float(slope)) == pytest.approx((at, wanted), rel=1e-12)
    assert seen == 16
    assert len(set(draws.tolist())) == 4


def test_the_gradient_of_a_sequence_costs_no_more_for_a_longer_one() -> None:
    """Rows are emitted and put in their places at once: no iteration of the backward loop makes N elements."""
    graph = graph_of(
        "entry f(xs: f64[99]) -> f64[99] {\n let y = loop y: f64 = 1 for x in xs { y = y * x }\n return grad(y, xs)\n}"
    )
    block = autodiff(graph).entries["f"].block
    for node in block.nodes:
        for region in node.regions:
            shapes = {v.tensor.shape for inner in region.nodes for v in inner.results if not v.is_token}
            assert shapes == {()}
