"""`grad` and `jacobian`: which value is meant, and what is said when there is no gradient."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.building import codes, graph_of, messages, result, run


def test_the_gradient_of_a_value_above() -> None:
    program = "entry f(x: f64) -> f64 {\n let y = x * x\n return grad(y * x + y, y)\n}"
    assert result(program, x=3.0) == 4


def test_several_targets_give_a_list() -> None:
    graph = graph_of(
        """
        param w: f64[2] = 3
        param b: f64 = 1
        entry f(x: f64[2]) -> (dw: f64[2], db: f64) {
          let loss = sum(w * x) * b
          let dw, db = grad(loss, [w, b])
          return dw, db
        }
        """
    )
    dw, db = run(graph, "f", x=np.array([1.0, 2.0])).results
    np.testing.assert_array_equal(dw, [1, 2])
    assert db == 9


def test_a_jacobian_has_a_row_for_each_element() -> None:
    program = "entry f(x: f64[3]) -> (j: f64[2, 3]) { return jacobian(stack([sum(x), x[0] * x[1]]), x) }"
    np.testing.assert_array_equal(result(program, x=np.array([2.0, 5.0, 7.0])), [[1, 1, 1], [5, 2, 0]])


def test_the_read_before_the_write_is_the_target() -> None:
    graph = graph_of(
        """
        param w: f64 = 3
        entry f() -> f64 {
          let loss = w * w
          w := 100
          return grad(loss, w)
        }
        """
    )
    assert run(graph, "f").result == 6


def test_reads_before_and_after_a_write_are_ambiguous() -> None:
    text = messages(
        """
        param w: f64 = 3
        entry f() -> f64 {
          let before = w * w
          w := 100
          let loss = before + w
          return grad(loss, w)
        }
        """
    )
    assert "error[E0504]: `loss` depends on `w` before and after it was written" in text


@pytest.mark.parametrize(
    ("loss", "target", "code"),
    [
        ("x", "w", "E0501"),
        ("floor(w) + x", "w", "E0502"),
        ("stop_gradient(w)", "w", "E0502"),
        ("(w as i32) as f64", "w", "E0502"),
        ("v", "v", "E0503"),
        ("n", "w", "E0503"),
        ("w", "3", "E0316"),
        ("w", "nothing", "E0201"),
    ],
)
def test_what_has_no_gradient_is_explained(loss: str, target: str, code: str) -> None:
    program = f"param w: f64 = 1\nentry f(x: f64, v: f64[2], n: i32) {{ let g = grad({loss}, {target}) }}"
    assert [c for c in codes(program) if not c.startswith("W")] == [code]


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("y = y * 2 + w", []),
        ("y = y * 2 + floor(w)", ["E0502"]),
        ("y = y * 2 + floor(y)", ["E0501"]),
        ("let z = if y > 2 { yield w } else { yield y }\n y = z", []),
        ("let z = if w > 2 { yield y } else { yield y * 2 }\n y = z", ["E0502"]),
        ("let v = loop z = w for j in 0..3 { z = z * y }\n y = floor(y) + v", []),
        ("let v = loop z = w for j in 0..3 { z = floor(z) }\n y = floor(y) + v", ["E0502"]),
        ("w := w * 2\n y = y * w", ["E0504"]),
    ],
)
def test_paths_are_looked_for_inside_loops(body: str, wanted: list[str]) -> None:
    for head in ("for i in 0..3", "for i in 0..n", "while y < 100"):
        program = f"""
            param w: f64 = 1
            entry f(x: f64, n: i32) -> f64 {{
              let y = loop y = x {head} {{
                {body}
              }}
              return grad(y * x, w)
            }}
        """
        assert [c for c in codes(program) if not c.startswith("W")] == wanted


def test_iterations_that_depend_on_the_target_have_no_gradient() -> None:
    program = """
        entry f(x: f64) -> f64 {
          let y = loop y: f64 = 1 while y < x { y = y * 2 }
          return grad(y, x)
        }
    """
    assert codes(program) == ["E0502"]


def test_a_gradient_inside_a_loop() -> None:
    program = """
        param w: f64 = 4
        entry f(n: i32) {
          for i in 0..n { w -= 0.25 * grad(w * w, w) }
        }
    """
    assert run(graph_of(program), "f", n=np.int32(3)).state["w"] == 0.5


def test_a_gradient_of_a_gradient() -> None:
    assert result("entry f(x: f64) -> f64 {\n let d = grad(x ** 3, x)\n return grad(d, x)\n}", x=2.0) == 12
