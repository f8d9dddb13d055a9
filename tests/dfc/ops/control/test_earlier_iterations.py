"""Gradients inside loops: of this iteration, of carried values, and those that could mean two things (E0506)."""

from __future__ import annotations

import numpy as np
import pytest

import dfc
from dfc.diagnostics.diagnostic import render
from tests.support.building import codes, graph_of, messages, run

RATE, W, XS = 0.1, 2.0, np.array([0.4, 1.1, -0.7, 0.9])


def program(body: str, carried: str = "y: f64 = 1") -> str:
    return f"""
        var w: f64 = {W}
        entry f(xs: f64[4], rate: f64, n: i32) -> f64 {{
          let v = w * 1.0
          let y = loop {carried} for x in xs {{
            {body}
          }}
          return y
        }}
    """


def message_of(text: str) -> str:
    with pytest.raises(dfc.CompileError) as caught:
        graph_of(text)
    (message,) = caught.value.diagnostics
    assert message.code == "E0506"
    return render(message)


@pytest.mark.parametrize("target", ["w", "v"])
@pytest.mark.parametrize(
    "body",
    [
        "let l = square(y * x - TARGET)\n y = y - rate * grad(l, TARGET)",
        "let l = y * x * TARGET\n y = sin(y) + TARGET\n if x > 0 { y = y - rate * grad(l, TARGET) } else { y = y }",
        "let l = (loop z = y for i in 0..n { z = z * x }) * TARGET\n y = y * TARGET - 0 * grad(l, TARGET)",
        "y = loop z = y for i in 0..n { let l = z * TARGET\n z = z * TARGET - rate * grad(l, TARGET) }",
    ],
)
def test_a_path_through_earlier_iterations_is_shown(body: str, target: str) -> None:
    if body.startswith("let l = (loop"):
        body = body.replace("let l = (loop z = y for i in 0..n { z = z * x })", "let q = loop z = y for i in 0..n "
                            "{ z = z * x }\n let l = q")  # fmt: skip
    shown = message_of(program(body.replace("TARGET", target)))
    carried = "z" if body.startswith("y = loop") else "y"
    assert f"path: {target} -> {carried}, from iteration to iteration -> l" in shown
    assert f"stop_gradient({carried})" in shown


def test_a_cut_path_leaves_the_gradient_of_this_iteration() -> None:
    text = program("let l = square(stop_gradient(y) * x - w)\n y = y - rate * grad(l, w)")
    y = 1.0
    for x in XS:
        y = y + RATE * 2 * (y * x - W)
    assert run(graph_of(text), "f", xs=XS, rate=RATE, n=np.int32(2)).result == pytest.approx(y, rel=1e-12)


def test_carried_values_that_have_nothing_of_the_target_are_constants() -> None:
    text = program("let l = square(y * x - w)\n m = 0.5 * m + grad(l, w)\n y = cos(y)", "m: f64 = 0, y: f64 = 1")
    text = text.replace("let y = loop", "let y, _ = loop")
    m, y = 0.0, 1.0
    for x in XS:
        m, y = 0.5 * m - 2 * (y * x - W), np.cos(y)
    assert run(graph_of(text), "f", xs=XS, rate=RATE, n=np.int32(2)).result == pytest.approx(m, rel=1e-12)


def test_the_carried_value_of_this_iteration_is_a_target() -> None:
    text = program("let q = p\n p = y\n let l = square(y * x - w) * q\n y = y - rate * grad(l, y)", "p: f64 = 1, y = v")
    text = text.replace("let y = loop", "let _, y = loop")
    p, y = 1.0, W
    for x in XS:
        p, y = y, y - RATE * 2 * (y * x - W) * x * p
    assert run(graph_of(text), "f", xs=XS, rate=RATE, n=np.int32(2)).result == pytest.approx(y, rel=1e-12)


def test_what_an_outer_iteration_has_defined_is_another_value_in_the_next() -> None:
    """`u` of this iteration is no part of `y`, of which earlier iterations have made something with their own `u`."""
    text = program("let u = w * x\n let l = y * square(u)\n y = y * 0.5 + u * 0.1 + rate * grad(l, u)")
    y = 1.0
    for x in XS:
        u = W * x
        y = y * 0.5 + u * 0.1 + RATE * 2 * y * u
    assert run(graph_of(text), "f", xs=XS, rate=RATE, n=np.int32(2)).result == pytest.approx(y, rel=1e-12)


def test_a_path_through_earlier_iterations_alone_is_none() -> None:
    text = program("let l = square(y * x)\n y = y + w - rate * grad(l, w)")
    assert codes(text) == ["E0501"]
    assert "`y` is carried by the loop: what it was made of in earlier iterations does not count" in messages(text)
