"""Training of whole programs in blocks: the same bits for every number of ranks, the undivided numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from dfc.diagnostics.source import SourceFile
from dfc.elaborate.build import build
from dfc.ir.equality import equal
from dfc.ops.spelling import show
from tests.support.replicating import agrees, replicated_f32
from tests.support.sweeping import few

SAMPLES = Path(__file__).parents[4] / "samples"
NUMBERS = np.random.default_rng(7)


def _sample(name: str) -> str:
    return (SAMPLES / f"{name}.dfg").read_text()


def _images(count: int) -> dict[str, object]:
    return {"images": NUMBERS.random((count, 64)), "labels": NUMBERS.integers(0, 10, count).astype(np.int32)}


def _text(count: int) -> dict[str, object]:
    return {name: NUMBERS.integers(0, 27, (count, 5)).astype(np.int32) for name in ("text", "following")}


@pytest.mark.parametrize(
    ("name", "settings", "feeds", "bound"),
    few(
        [
            ("digits", {"HIDDEN": 16}, {**_images(16), "rate": 0.1}, 1e-12),
            # The gradient of a bias in front of a normalisation is rounding alone; Adam makes steps of 1e5 times that.
            ("convnet", {"CHANNELS": 2}, {**_images(16), "steps": 10}, 1e-10),
            ("lstm", {"WIDTH": 8}, _text(16), 1e-12),
        ],
        2,
    ),
)
def test_a_step_of_a_sample_is_that_of_the_undivided_program(
    name: str, settings: Mapping[str, int], feeds: dict[str, object], bound: float
) -> None:
    agrees(_sample(name), "train", feeds, settings=settings, bound=bound)


@pytest.mark.parametrize("name", few(["lstm", "digits", "convnet"], 1))
def test_a_replicated_program_can_be_printed_and_read_again(name: str) -> None:
    _, graph, _ = replicated_f32(_sample(name), "train", 8, {})
    assert equal(build(SourceFile("again.dfg", show(graph))), graph)


def test_a_loss_that_is_a_sum_has_gradients_that_are_sums() -> None:
    text = """
        dfg 1
        from std.nn import Dense
        var layer = Dense[5, 3]()
        entry train[B](x: f32[B, 5], y: f32[B, 3]) -> (loss: f32) {
          let loss = sum(square(tanh(layer(x)) - y))
          each w in params(program), g in grad(loss, params(program)) { w -= 0.01 * g }
          return loss
        }
        """
    feeds = {"x": NUMBERS.standard_normal((16, 5)), "y": NUMBERS.standard_normal((16, 3))}
    about = agrees(text, "train", feeds, combine="sum")
    assert [each.how for each in about.combinations] == ["sum", "sum", "sum"]


def test_results_for_each_example_are_put_together_again() -> None:
    feeds = {"images": NUMBERS.random((24, 64))}
    about = agrees(_sample("digits"), "predict", feeds, settings={"HIDDEN": 8})
    assert set(about.results) == {"digit", "chance"}
    assert about.combinations == ()
