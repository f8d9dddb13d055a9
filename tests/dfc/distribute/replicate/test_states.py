"""Small programs cut in every way: pieces, parts, and what has to be put together."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

from dfc.ir import walk
from tests.support.replicating import agrees, replicated

NUMBERS = np.random.default_rng(3)
X = NUMBERS.standard_normal((24, 5))
Y = NUMBERS.standard_normal(24)
IDS = NUMBERS.integers(0, 7, 24).astype(np.int32)


def combined(text: str, **feeds: object) -> list[str]:
    """How the values of entry `f` are combined that have to be, if the entry agrees with the undivided one."""
    about = agrees("dfg 1\n" + dedent(text), "f", feeds)
    return [each.how for each in about.combinations]


def test_reductions_over_the_batch_are_combined_by_their_own_operator() -> None:
    hows = combined(
        """
        entry f[B](x: f32[B, 5]) -> (a: f32[5], b: f32[5], c: bool, d: bool, e: f32, m: f32) where B >= 1 {
          return max(x, axis = 0), min(x, axis = 0), any(x > 2.0), all(x > -1.0), sum(x), mean(x)
        }
        """,
        x=X,
    )
    assert sorted(hows) == ["and", "max", "min", "or", "sum", "sum"]


def test_the_variance_over_the_batch_takes_two_rounds() -> None:
    text = "entry f[B](x: f32[B, 5]) -> (v: f32[5]) where B >= 1 { return variance(x, axis = 0) }"
    assert combined(text, x=X) == ["sum", "sum"]


def test_what_works_along_the_batch_gets_all_of_it() -> None:
    text = """
        entry f[B](x: f64[B, 5]) -> (a: f64[B, 5], c: f64[B, 5], r: f64[5], p: f64) where B >= 1 {
          return sort(x, axis = 0), cumsum(x, axis = 0), x[3], prod(x)
        }
        """
    assert set(combined(text, x=X)) == {"concat"}


def test_pairs_of_examples_need_the_examples_everywhere() -> None:
    text = """
        param w: f32[5, 4] = glorot_uniform()
        entry f[B](x: f32[B, 5]) -> (s: f32[B, B], l: f32) where B >= 1 {
          let h = x @ w
          let s = h @ transpose(h)
          let l = mean(square(s))
          w -= 0.01 * grad(l, w)
          return s, l
        }
        """
    assert "concat" in combined(text, x=X)


@pytest.mark.parametrize("training", ["true", "false"])
def test_random_numbers_are_those_of_the_whole_batch(training: str) -> None:
    text = f"""
        from std.nn import dropout
        var dice: rng = philox(seed = 3)
        param w: f32[5] = 1
        entry f[B](x: f32[B, 5], y: f32[B]) -> (l: f32, k: f32[B, 5]) where B >= 1 {{
          let h = dropout(x, 0.3, dice, training = {training})
          let l = mean(square(h @ w - y))
          w -= 0.1 * grad(l, w)
          return l, h
        }}
        """
    combined(text, x=X, y=Y)


def test_a_block_draws_its_own_numbers_only() -> None:
    text = """
        dfg 1
        var dice: rng = philox(seed = 3)
        entry f[B](x: f32[3, B, 5]) -> (k: f32[3, B, 5]) where B >= 1 {
          let noise = dice.normal(f32[3, B, 5])
          return x + noise
        }
        """
    about = agrees(text, "f", {"x": NUMBERS.standard_normal((3, 24, 5))})
    assert about.combinations == ()
    graph, _ = replicated(text, "f", blocks=8)
    nodes = list(walk.nodes(graph.entries["f"].block))
    assert [str(node.result.type) for node in nodes if node.op == "random_at"] == ["f64[3, B, 5]"]
    assert not any(node.op == "draw" for node in nodes)


def test_sums_are_combined_before_they_are_used() -> None:
    hows = combined(
        """
        param w: f32[5] = 1
        var m: f32[5] = 0
        entry f[B](x: f32[B, 5], y: f32[B]) -> (l: f32) where B >= 1 {
          let l = mean(square(x @ w - y)) + 0.01 * sum(square(w))
          let g = grad(l, w)
          m := 0.9 * m + g
          if l > 1.0 { w -= 0.1 * m } else { w -= 0.2 * g }
          return l
        }
        """,
        x=X,
        y=Y,
    )
    assert hows == ["sum", "sum"]


def test_gradients_of_embeddings_go_round_as_rows() -> None:
    text = """
        param t: f32[7, 3] = normal()
        entry f[B](i: i32[B], y: f32[B]) -> (l: f32) where B >= 1 {
          let l = mean(square(sum(t[i], axis = 1) - y))
          t -= 0.5 * grad(l, t)
          return l
        }
        """
    assert sorted(combined(text, i=IDS, y=Y)) == ["concat", "concat", "sum"]


@pytest.mark.parametrize(("rows", "how"), [(64, ["sum"]), (5000, ["concat", "concat"])])
def test_rows_for_a_large_table_travel_alone(rows: int, how: list[str]) -> None:
    text = f"""
        entry f[B](i: i32[B], x: f32[B, 3]) -> (t: f32[{rows}, 3]) where B >= 1 {{
          return square(segment_sum(x, i, {rows}))
        }}
        """
    assert combined(text, i=IDS, x=X[:, :3].copy()) == how


def test_positions_count_through_the_whole_batch() -> None:
    text = """
        entry f[B](x: f32[B, 5]) -> (l: f32[B], k: i64[B], n: i64) where B >= 1 {
          let i = iota(i64[B])
          return x[:, 0] * (i as f32), i * 2, B
        }
        """
    assert combined(text, x=X) == []


def test_reshapes_that_keep_the_examples_apart_need_nothing() -> None:
    text = """
        entry f[B](x: f32[B, 6]) -> (a: f32[2 * B, 3], t: f32[6 * B], h: f32[B, 3, 2]) where B >= 1 {
          return square(reshape(x, [2 * B, 3])), reshape(transpose(x), [6 * B]), reshape(x, [B, 3, 2])
        }
        """
    assert combined(text, x=NUMBERS.standard_normal((24, 6))) == []


def test_halves_of_the_batch_are_no_blocks() -> None:
    text = "entry f[B](x: f32[2 * B, 5]) -> (l: f32[B, 5]) where B >= 1 { return x[:B] - x[B:] }"
    assert combined(text, x=NUMBERS.standard_normal((48, 5))) == ["concat"]


def test_whole_numbers_are_summed_exactly() -> None:
    text = """
        entry f[B](i: i32[B]) -> (l: i64, h: i64[7], m: f32) where B >= 1 {
          return sum(i, into = i64), sum(one_hot(i, 7) as i64, axis = 0), mean(i as f32) / (B as f32)
        }
        """
    assert set(combined(text, i=IDS)) == {"sum"}


def test_checks_are_made_on_all_of_the_batch() -> None:
    text = """
        entry f[B](x: f32[B, 5]) -> (l: f32) where B >= 1 {
          assert all(x < 100.0), "too large"
          return mean(x)
        }
        """
    assert sorted(combined(text, x=X)) == ["and", "sum"]


@pytest.mark.parametrize("blocks", [1, 3, 12])
def test_any_number_of_blocks_agrees(blocks: int) -> None:
    text = (
        "entry f[B](x: f32[B, 5]) -> (l: f32[5], m: f32[B]) where B >= 1 { return mean(x, axis = 0), sum(x, axis = 1) }"
    )
    agrees("dfg 1\n" + text, "f", {"x": X}, blocks=blocks)


def test_another_axis_can_be_the_batch() -> None:
    text = """
        entry f[N, B](x: f32[N, B]) -> (l: f32[N], m: f32[N, B], t: f32[B, N]) where B >= 1 {
          return mean(x, axis = 1), softmax(x, axis = 0), transpose(x)
        }
        """
    about = agrees("dfg 1\n" + dedent(text), "f", {"x": X.T.copy()})
    assert (about.feeds["x"].axis, about.results["m"].axis, about.results["t"].axis) == (1, 1, 0)
