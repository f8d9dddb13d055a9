"""Loops and branches over blocks: for each block by itself, once with sums inside, or on whole values."""

from __future__ import annotations

from textwrap import dedent

import numpy as np

from dfc.ir import walk
from tests.support.replicating import agrees, replicated

NUMBERS = np.random.default_rng(4)
X = NUMBERS.standard_normal((24, 5))
Y = NUMBERS.standard_normal(24)


def combined(text: str, **feeds: object) -> list[str]:
    about = agrees("dfg 1\n" + dedent(text), "f", feeds)
    return [each.how for each in about.combinations]


STEPS = """
    param w: f32[5] = 1
    entry f[B](x: f32[B, 5], y: f32[B]) -> (l: f32) where B >= 1 {
      for k in 0..3 {
        let l = mean(square(x @ w - y))
        w -= 0.1 * grad(l, w)
      }
      return mean(square(x @ w - y))
    }
    """


def test_a_loop_of_steps_sums_in_every_round() -> None:
    assert combined(STEPS, x=X, y=Y) == ["sum", "sum"]


def test_a_loop_of_steps_stays_one_loop() -> None:
    graph, _ = replicated("dfg 1\n" + dedent(STEPS), "f", blocks=8)
    (outer,) = [node for node in graph.entries["f"].block.nodes if any(n.op == "assign" for n in inside(node))]
    assert {"contribute", "combined"} <= {node.op for node in inside(outer)}


def inside(node: walk.Node) -> list[walk.Node]:
    return [inner for region in node.regions for inner in walk.nodes(region)]


def test_a_carried_sum_may_decide_when_to_stop() -> None:
    text = """
        entry f[B](x: f32[B, 5], y: f32[B]) -> (w: f32[5], n: i64) where B >= 1 {
          let w, n, go = loop w = zeros(f32[5]), n = 0, go = true while go {
            let slope = mean(reshape(x @ w - y, [B, 1]) * x, axis = 0)
            w = w - 0.3 * slope
            n = n + 1
            go = n < 20 and sum(square(slope)) > 0.01
          }
          return w, n
        }
        """
    assert combined(text, x=X, y=Y) == ["sum"]


def test_pieces_may_be_carried_through_iterations_with_sums() -> None:
    text = """
        entry f[B](x: f32[B, 5]) -> (z: f32[B, 5], s: f32[4, B], t: f32[4]) where B >= 1 {
          let z, s, t = loop z = x for k in 0..4 {
            let c = z - mean(z, axis = 0)
            z = c * 1.5
            emit sum(c, axis = 1), max(c)
          }
          return z, s, t
        }
        """
    assert sorted(combined(text, x=X)) == ["max", "sum"]


def test_pieces_that_need_no_others_are_carried_by_each_block() -> None:
    text = """
        entry f[B](x: f32[B, 5], n: i64) -> (y: f32[B, 5], e: f32[3, B]) where B >= 1 {
          let y, k = loop y = x, k = 0 while k < n {
            y = y * 0.5 + 1.0
            k = k + 1
          }
          let _, e = loop z = y for k in 0..3 {
            z = z * z
            emit sum(z, axis = 1)
          }
          return y, e
        }
        """
    assert combined(text, x=X, n=3) == []


def test_a_loop_over_the_examples_runs_on_all_of_them() -> None:
    text = """
        entry f[B](x: f32[B, 5]) -> (t: f32[5]) where B >= 1 {
          let t = loop t = zeros(f32[5]) for i in 0..B { t = t * 0.5 + x[i] }
          return t
        }
        """
    assert combined(text, x=X) == ["concat"]


def test_sums_grow_in_a_loop_before_they_are_combined() -> None:
    text = """
        param w: f32[5, 5] = glorot_uniform()
        entry f[B](x: f32[B, 5]) -> (l: f32) where B >= 1 {
          let h = loop h = x for k in 0..3 { h = tanh(h @ w) }
          let l = mean(square(h))
          w -= 0.1 * grad(l, w)
          return l
        }
        """
    assert combined(text, x=X) == ["sum", "sum"]


def test_branches_may_return_pieces_and_sums() -> None:
    text = """
        entry f[B](x: f32[B, 5], flag: bool) -> (a: f32[B, 5], b: f32) where B >= 1 {
          let a, b = if flag { yield x * 2.0, mean(x) } else { yield x + 1.0, sum(x) }
          return a, b
        }
        """
    for flag in (True, False):
        assert combined(text, x=X, flag=flag) == ["sum"]


def test_a_draw_in_every_iteration_is_that_of_the_whole_batch() -> None:
    text = """
        from std.nn import dropout
        var dice: rng = philox(seed = 3)
        entry f[B](x: f32[B, 5]) -> (z: f32[B, 5]) where B >= 1 {
          let z = loop z = x for k in 0..4 {
            let kept = dropout(z, 0.2, dice, training = true)
            z = kept * 1.1
          }
          return z
        }
        """
    combined(text, x=X)


def test_gradients_go_back_through_iterations_with_noise() -> None:
    text = """
        from std.nn import dropout
        var dice: rng = philox(seed = 3)
        param w: f32[5, 5] = glorot_uniform()
        entry f[B](x: f32[B, 5]) -> (l: f32) where B >= 1 {
          let h = loop h = x for k in 0..3 {
            let kept = dropout(h, 0.2, dice, training = true)
            h = tanh(kept @ w)
          }
          let l = mean(square(h))
          w -= 0.1 * grad(l, w)
          return l
        }
        """
    assert set(combined(text, x=X)) == {"sum"}


def test_gradients_of_loops_of_unknown_length_are_summed() -> None:
    text = """
        param w: f64[5, 5] = glorot_uniform()
        entry f[B](x: f64[B, 5], n: i64) -> (l: f64) where B >= 1 {
          let h, k = loop h = x, k = 0 while k < n {
            h = tanh(h @ w)
            k = k + 1
          }
          let l = mean(square(h))
          w -= 0.1 * grad(l, w)
          return l
        }
        """
    assert set(combined(text, x=X, n=5)) == {"sum"}
