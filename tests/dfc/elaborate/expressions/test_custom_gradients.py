"""Functions that state their own gradient."""

from __future__ import annotations

import numpy as np
import pytest

import dfc
from dfc.diagnostics.source import SourceFile
from dfc.elaborate.build import build
from dfc.ir.equality import difference
from dfc.ops.spelling import show
from dfc_runtime import loads
from tests.support.building import codes, graph_of, messages, result, run

THROUGH = "fn r(x: f64) -> f64 = round(x)\ngradient (dy) = dy * 3\n"


def test_the_stated_gradient_counts() -> None:
    assert result(THROUGH + "entry f(x: f64) -> f64 { return grad(r(x * x), x) }", x=1.3) == pytest.approx(7.8)


def test_the_value_is_that_of_the_body() -> None:
    assert result(THROUGH + "entry f(x: f64) -> f64 { return r(x * x) }", x=1.3) == 2


def test_parameters_and_results_are_in_scope() -> None:
    program = """
        fn e(x: f64[3], scale: f64) -> (y: f64[3], total: f64) {
          let y = exp(x * scale)
          return y, sum(y)
        }
        gradient (dy, dtotal) {
          let d = (dy + dtotal) * y
          return d * scale, sum(d * x)
        }
        entry f(x: f64[3], scale: f64) -> (a: f64[3], b: f64) {
          let y, total = e(x, scale)
          let a, b = grad(sum(y * y) + sin(total), [x, scale])
          return a, b
        }
    """
    plain = program[: program.index("gradient (")] + program[program.index("entry") :]
    feeds = {"x": np.array([0.1, 0.5, -0.3]), "scale": 0.7}
    for stated, found in zip(
        run(graph_of(program), "f", **feeds).results, run(graph_of(plain), "f", **feeds).results, strict=True
    ):
        np.testing.assert_allclose(stated, found, rtol=1e-12)


def test_only_results_that_the_loss_uses_come_back() -> None:
    program = """
        fn two(x: f64) -> (a: f64, b: f64) = (x, x)
        gradient (da, db) = da * 10 + db * 100
        entry f(x: f64) -> f64 {
          let a, b = two(x)
          return grad(a, x) + grad(b, x) + grad(a + b, x)
        }
    """
    assert result(program, x=1.0) == 220


def test_whole_numbers_and_constants() -> None:
    program = """
        fn g(x: f64, n: i32, const k: int) -> f64 = x * (n as f64) * k
        gradient (dy) {
          return dy * 5, 0
        }
        entry f(x: f64, n: i32) -> f64 { return grad(g(x, n, 2), x) }
    """
    assert result(program, x=1.0, n=np.int32(3)) == 5


@pytest.mark.parametrize("head", ["for i in 0..3", "for i in 0..n", "while y < 5"])
def test_stated_gradients_in_the_iterations_of_a_loop(head: str) -> None:
    """Twice the gradient of x * w; three iterations."""
    program = f"""
        fn times(x: f64[2, 2], w: f64[2, 2]) -> f64[2, 2] = x @ w
        gradient (dy) {{
          return 2 * dy @ transpose(w), 2 * transpose(x) @ dy
        }}
        entry f(x: f64[2, 2], w: f64[2, 2], n: i32) -> (a: f64[2, 2], b: f64[2, 2]) {{
          let z, _ = loop z = x, y: f64 = 2 {head} {{
            z = times(z, w)
            y = y + 1
          }}
          let a, b = grad(sum(z * z), [x, w])
          return a, b
        }}
    """
    x, w = np.array([[1.0, 2.0], [3.0, 5.0]]), np.array([[0.5, 0.1], [-0.2, 0.7]])
    states = [x, x @ w, x @ w @ w, x @ w @ w @ w]
    back, slope = 2 * states[3], np.zeros((2, 2))
    for state in reversed(states[:3]):
        slope, back = slope + 2 * state.T @ back, 2 * back @ w.T
    feeds = {"x": x, "w": w, "n": np.int32(3)}
    for got, wanted in zip(run(graph_of(program), "f", **feeds).results, (back, slope), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12)
    for got, wanted in zip(
        loads(dfc.compile(text="dfg 1\n" + program).to_bytes(), threads=2).entries["f"](**feeds),
        (back, slope),
        strict=True,
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-12)


def test_second_gradients_are_stated_gradients_too() -> None:
    program = """
        fn e(x: f64) -> (y: f64, z: f64) = (exp(x), x)
        gradient (dy, dz) = 2 * dy * y + dz
        entry f(x: f64) -> f64 {
          let y, _ = e(x)
          return grad(grad(y, x), x)
        }
    """
    assert result(program, x=0.5) == pytest.approx(4 * np.exp(0.5), rel=1e-12)


@pytest.mark.parametrize(
    ("gradient", "code"),
    [
        ("gradient (dy) = dy", "E0505"),
        ("gradient (dy) {\n return dy, dy, dy\n}", "E0505"),
        ("gradient (dy, dz) {\n return dy, dz\n}", "E0505"),
        ("gradient (dy) {\n return dy, sum(x)\n}", "E0307"),
        ("gradient (dy) {\n return dy, nothing\n}", "E0201"),
    ],
)
def test_what_is_wrong_with_a_gradient_is_said_without_a_call(gradient: str, code: str) -> None:
    program = f"fn g(x: f64[2], w: f64[2]) -> f64[2] = x * w\n{gradient}\n"
    assert [c for c in codes(program) if not c.startswith("W")] == [code]


def test_the_message_counts_the_parameters() -> None:
    text = messages("fn g(x: f64, w: f64) -> f64 = x * w\ngradient (dy) = dy\n")
    assert "error[E0505]: the `gradient` of `g` returns 1 value, not 2" in text
    assert "return one value for each of `x`, `w`" in text


def test_a_result_without_fraction_has_no_gradient_to_state() -> None:
    assert "E0503" in codes("fn g(x: f64) -> i32 = x as i32\ngradient (dy) = 0.0\n")


def test_a_variable_that_the_function_reads_gets_nothing() -> None:
    program = """
        param w: f64 = 2
        fn g(x: f64) -> f64 = x * w
        gradient (dy) = dy
        entry f(x: f64) -> f64 { return grad(g(x), w) }
    """
    text = messages(program)
    assert "error[E0502]" in text
    assert "its `gradient` states none for it" in text


def test_the_printed_graph_is_the_same_program() -> None:
    graph = graph_of(THROUGH + "entry f(x: f64) -> f64 { return grad(r(x * x), x) }")
    again = build(SourceFile("again.dfg", show(graph)))
    assert difference(graph, again) is None


def test_a_single_named_result_is_the_value_itself() -> None:
    text = """
        fn clip(x: f32) -> (y: f32) {
          return clamp(x, -1, 1)
        } gradient (dy) {
          return dy * 7 + y
        }
        entry f(x: f32) -> f32 {
          let y = clip(x)
          return grad(y * 1, x)
        }
    """
    assert result(text, x=np.float32(3)) == 8
