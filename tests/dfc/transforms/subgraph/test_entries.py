"""Programs with some of their entries alone: which state, runners and checkpoints are left, and that results stay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dfc
import dfc_runtime
from dfc.ir.graph import Graph
from dfc.ops.evaluate import evaluate, initial_state
from dfc.transforms.autodiff.autodiff import autodiff
from dfc.transforms.subgraph.entries import entry_mistake, keep_entries
from dfc_runtime.errors import CheckpointError, UnsupportedError
from tests.support.agreeing import verified
from tests.support.building import graph_of

TRAINING = """
dfg 1
param w: f64[2] = 2
var speed: f64[2] = 0
var start: f64[2] = 1
var doubled: f64[2] = 0
entry init() {
  initialize(program)
  doubled := start + start
}
entry train(x: f64[2], rate: f64) {
  let loss = sum(square(w * x))
  let faster = 0.5 * speed
  speed := faster + grad(loss, w)
  w -= rate * speed
}
readonly entry predict(x: f64[2]) -> (y: f64[2]) { return x * w }
readonly entry shifted(x: f64[2]) -> (y: f64[2]) { return x + doubled }
entry save(path: string) { checkpoint.save(path, program) }
entry restore(path: string) { checkpoint.restore(path, program) }
"""
PIPELINE = """
dfg 1
queue raw: f64 = fifo(capacity = 4)
queue changed: f64 = fifo(capacity = 4)
var seen: i64 = 0
runner change {
  let x = raw.take()
  changed.put(x * 2)
}
entry feed(x: f64) { raw.put(x) }
entry take() -> (x: f64) { return changed.take() }
readonly entry count() -> (n: i64) { return seen }
"""


def kept(text: str, *names: str) -> Graph:
    return verified(keep_entries(autodiff(graph_of(text)), names), "entries")


@pytest.mark.parametrize(
    ("names", "entries", "state"),
    [
        (["predict"], ["init", "predict"], ["w"]),
        (["shifted"], ["init", "shifted"], ["start", "doubled"]),
        (["train"], ["init", "train"], ["w", "speed"]),
        (["restore", "predict"], ["init", "predict", "restore"], ["w"]),
        (["init"], ["init"], ["w", "speed", "start", "doubled"]),
    ],
)
def test_entries_keep_the_state_that_they_need(names: list[str], entries: list[str], state: list[str]) -> None:
    graph = kept(TRAINING, *names)
    assert (list(graph.entries), list(graph.resources)) == (entries, state)


def test_init_sets_what_is_left_to_what_it_is_in_the_whole() -> None:
    graph = kept(TRAINING, "shifted")
    state = evaluate(graph, graph.entries["init"], {}, initial_state(graph)).state
    assert {name: value.tolist() for name, value in state.items()} == {"start": [1, 1], "doubled": [2, 2]}


@pytest.mark.parametrize(
    ("names", "entries", "state"),
    [
        (["take"], ["change", "take"], {"raw", "changed"}),
        (["feed"], ["change", "feed"], {"raw", "changed"}),
        (["count"], ["count"], {"seen"}),
    ],
)
def test_runners_at_queues_that_are_left_stay(names: list[str], entries: list[str], state: set[str]) -> None:
    graph = kept(PIPELINE, *names)
    assert set(graph.entries) - {"init"} == set(entries)
    assert set(graph.resources) == state


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("chnge", "there is no entry 'chnge'; entries: feed, take, count"),
        ("taek", "there is no entry 'taek'; did you mean take?"),
        ("change", "`change` is a runner"),
    ],
)
def test_names_of_no_entries_are_mistakes(name: str, message: str) -> None:
    assert message in entry_mistake(graph_of(PIPELINE), ["take", name])


def test_a_checkpoint_of_the_whole_fits_and_one_of_other_state_does_not(tmp_path: Path) -> None:
    whole = dfc_runtime.loads(dfc.compile(text=TRAINING).to_bytes(), threads=1)
    part = dfc_runtime.loads(dfc.compile(text=TRAINING, entries=["predict", "restore"]).to_bytes(), threads=1)
    x = np.array([1.0, -2.0])
    assert part.run("train/loss", {"x": x}) == 20
    with pytest.raises(UnsupportedError, match="that needs `speed`, which only entries use that were left out"):
        part.run("train/faster", {"x": x})
    whole.train(x, 0.125)
    whole.save(tmp_path / "python")
    whole.entries["save"](str(tmp_path / "entry"))
    part.restore(tmp_path / "python")
    assert part.predict(x).y.tobytes() == whole.predict(x).y.tobytes() != (2 * x).tobytes()
    part.init()
    part.entries["restore"](str(tmp_path / "entry"))
    assert part.predict(x).y.tobytes() == whole.predict(x).y.tobytes()
    other = dfc_runtime.loads(dfc.compile(text="dfg 1\nvar w: f64[2] = 2\nvar b: f64 = 0\n").to_bytes(), threads=1)
    other.save(tmp_path / "other")
    with pytest.raises(CheckpointError, match=r"not in program *b"):
        part.restore(tmp_path / "other")
