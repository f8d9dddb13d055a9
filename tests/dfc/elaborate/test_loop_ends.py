"""Loops that end by what a function of the caller gives, and loops that no caller could end."""

from __future__ import annotations

import numpy as np

from tests.support.building import codes, result

ROOTS = """
    fn bisect(const f: fn(f64) -> f64, low: f64, high: f64) -> f64 {
      let a, b = loop a = low, b = high while b - a > 1e-9 {
        let middle = (a + b) / 2
        let left = f(a) * f(middle) <= 0
        a = if left then a else middle
        b = if left then middle else b
      }
      return (a + b) / 2
    }
    fn below(x: f64) -> f64 = x * x - 2
    readonly entry f() -> (x: f64) { return bisect(below, 0, 2) }
"""

ADAPTIVE = """
    fn solve(const slope: fn(f64) -> f64, start: f64, end: f64) -> f64 {
      let y, t, h = loop y = start, t: f64 = 0, h: f64 = 0.125 while t < end {
        let k = slope(y)
        let error = abs(slope(y + h * k) - k) * h
        if error < 1e-4 {
          y = y + h * k
          t = t + h
        }
        h = if error < 1e-4 then minimum(end - t, 2 * h) else h / 2
      }
      return y
    }
    fn decay(y: f64) -> f64 = -y
    readonly entry f() -> (x: f64) { return solve(decay, 1, 1) }
"""


def test_a_loop_ends_by_what_a_function_of_the_caller_gives() -> None:
    np.testing.assert_allclose(result(ROOTS), np.sqrt(2.0), atol=1e-8)


def test_a_step_size_adapts_to_a_function_of_the_caller() -> None:
    np.testing.assert_allclose(result(ADAPTIVE), np.exp(-1.0), rtol=1e-2)


def test_a_loop_that_would_change_by_a_statement_with_a_mistake_is_not_blamed_for_more() -> None:
    body = "let y = loop y = x while y > 1 { if y > 2 and missing { y = y / 2 } }\nreturn y"
    assert codes(f"entry f(x: f32) -> f32 {{ {body} }}") == ["E0201"]
    nested = "let y = loop y = x while y > 1 { each z in [missing] { y = y / 2 } }\nreturn y"
    assert codes(f"entry f(x: f32) -> f32 {{ {nested} }}") == ["E0201"]


def test_a_loop_that_no_caller_could_end_is_refused_where_it_is_declared() -> None:
    program = """
        fn search(const f: fn(f64) -> f64, x: f64) -> f64 {
          let y, step = loop y = x, step: f64 = 1 while step > 1e-3 {
            y = loop step = y for i in 0..3 { step = f(step) }
          }
          return y
        }
    """
    assert codes(program) == ["E0602"]
