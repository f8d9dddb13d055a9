"""What is said about entries that cannot be replicated as the deployment file says."""

from __future__ import annotations

from textwrap import dedent

import pytest

from dfc.diagnostics.diagnostic import CompileError
from tests.support.replicating import optimised, replicate, statement


def refused(text: str, *, split: str = "B", combine: str = "mean") -> str:
    graph = optimised("dfg 1\n" + dedent(text))
    with pytest.raises(CompileError) as caught:
        replicate(graph, statement("f", 4, split=split, combine=combine))
    return str(caught.value)


def accepted(text: str, combine: str) -> None:
    replicate(optimised("dfg 1\n" + dedent(text)), statement("f", 4, combine=combine))


def training(loss: str, write: str = "w -= 0.1 * grad(loss, w)") -> str:
    return f"""
        param w: f32[5] = 1
        entry f[B](x: f32[B, 5], y: f32[B]) -> (loss: f32) where B >= 1 {{
          let errors = square(x @ w - y)
          let loss = {loss}
          {write}
          return loss
        }}
        """


def test_the_size_to_split_must_be_one_of_the_entry() -> None:
    text = "entry f[B, N](x: f32[B, N]) -> (y: f32[B, N]) { return x * 2.0 }"
    found = refused(text, split="C")
    assert "`f` has no size `C` that could be split" in found
    assert "its sizes are B, N" in found


def test_a_size_that_no_feed_has_cannot_be_split() -> None:
    text = "entry f[B](x: f32) -> (y: f32[B]) { return zeros(f32[B]) + x }"
    assert "no feed of `f` has an axis of size B" in refused(text)


MEANS = [
    "mean(errors)",
    "sum(errors) / (B as f32)",
    "sum(errors * 2.0) / sum(ones(f32[B]))",
    "mean(errors) + sum(w * w)",
]
SUMS = ["sum(errors)", "sum(errors) + 0.0 * sum(w)", "mean(errors) * (B as f32)"]


@pytest.mark.parametrize("loss", MEANS)
def test_gradients_of_means_are_means(loss: str) -> None:
    accepted(training(loss), "mean")
    assert '`combine = "sum"`, but the gradients of `f` are a mean over `B`' in refused(training(loss), combine="sum")


@pytest.mark.parametrize("loss", SUMS)
def test_gradients_of_sums_are_sums(loss: str) -> None:
    accepted(training(loss), "sum")
    assert '`combine = "mean"`, but the gradients of `f` are a sum over `B`' in refused(training(loss))


def test_a_message_shows_the_sum() -> None:
    assert "this is a sum over `B`" in refused(training("sum(errors)"))


def test_noise_does_not_hide_a_mean() -> None:
    text = training("mean(square((x + noise) @ w - y))").replace(
        "let errors", "let noise = dice.normal(f32[B, 5])\n let errors"
    )
    accepted("var dice: rng = philox(seed = 1)\n" + text.replace("param w", "param w", 1).strip(), "mean")


def test_what_goes_into_a_gradient_on_the_way_is_not_judged() -> None:
    write = """
          let g = grad(loss, w)
          w -= g / sqrt(sum(g * g))
    """
    accepted(training("mean(errors)", write), "mean")


@pytest.mark.parametrize("combine", ["mean", "sum"])
def test_either_word_stands_where_nothing_can_be_seen(combine: str) -> None:
    graph = optimised("dfg 1\n" + dedent(training("log(sum(errors) + 1.0)")))
    _, about = replicate(graph, statement("f", 4, combine=combine))
    (remark,) = about.remarks
    assert (remark.code, remark.is_error) == ("W0831", False)
    assert f"it cannot be seen that the gradients of `f` are a {combine} over `B`" in remark.title


def test_what_is_seen_is_not_remarked_on() -> None:
    graph = optimised("dfg 1\n" + dedent(training("mean(errors)")))
    assert replicate(graph, statement("f", 4))[1].remarks == ()


def test_state_that_is_not_trained_is_not_judged() -> None:
    text = """
        var seen: f32 = 0
        entry f[B](x: f32[B, 5]) -> (y: f32[B]) {
          seen += sum(x)
          return sum(x, axis = 1)
        }
        """
    accepted(text, "mean")


def test_rows_of_an_embedding_are_judged_by_their_sum() -> None:
    text = """
        param t: f32[7, 3] = normal()
        entry f[B](i: i32[B]) -> (l: f32) where B >= 1 {
          let l = LOSS(square(t[i]))
          t -= 0.5 * grad(l, t)
          return l
        }
        """
    accepted(text.replace("LOSS", "mean"), "mean")
    assert "are a sum" in refused(text.replace("LOSS", "sum"))
