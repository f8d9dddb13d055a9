"""Entries that save and restore on many ranks: one checkpoint of all state, and what cannot be is said."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.diagnostics.diagnostic import CompileError
from dfc_runtime.checkpoints import store
from dfc_runtime.errors import CheckpointError, FeedError
from tests.support.clusters import cluster_bundle, on_cluster, outcomes_of, undivided

PROGRAM = """dfg 1

param w: f32[4] = uniform(0.0, 1.0)
var n: i64 = 0
var scratch: f32 = 0 with saved = false

entry step(x: f32) {
  w := w + x
  n += 1
  scratch := x
}

entry save(path: string) { checkpoint.save(path, program) }

entry restore(path: string) { checkpoint.restore(path, program) }

entry save_some(path: string) { checkpoint.save(path, params(program)) }
"""
APART = """
job a tasks 1
job b tasks 2
place "w" on b task 1
place "n" on a
"""


def state(module):
    return module.state["w"].tobytes(), int(module.state["n"])


@pytest.mark.parametrize("all_call", [False, True])
def test_state_comes_back_from_wherever_it_lies(tmp_path, all_call):
    folder = tmp_path / "saved"

    def work(module):
        module.step(1.0)
        module.entries["save"](str(folder))
        saved = state(module)
        module.step(2.0)
        assert state(module) != saved
        module.entries["restore"](path=str(folder))
        return state(module) == saved

    assert on_cluster(cluster_bundle(PROGRAM, APART), 3, work, work if all_call else None) is True
    assert set(store.find(folder).checkpoint.state) == {"w", "n"}


def test_one_rank_goes_on_from_what_many_have_saved(tmp_path):
    def work(module):
        module.step(1.0)
        module.entries["save"](tmp_path)
        return state(module)

    saved = on_cluster(cluster_bundle(PROGRAM, APART), 3, work)
    alone = undivided(PROGRAM, threads=1)
    alone.entries["restore"](tmp_path)
    assert state(alone) == saved


def test_only_what_the_entry_names_is_saved(tmp_path):
    on_cluster(cluster_bundle(PROGRAM, APART), 3, lambda module: module.save_some(str(tmp_path)))
    assert set(store.find(tmp_path).checkpoint.state) == {"w"}


def test_mistakes_of_a_call_are_told_everywhere(tmp_path):
    def work(module):
        with pytest.raises(CheckpointError, match="does not exist"):
            module.entries["restore"](str(tmp_path / "absent"))
        with pytest.raises(FeedError, match="misses the feed path"):
            module.entries["save"]()
        module.step(1.0)
        return True

    assert outcomes_of(cluster_bundle(PROGRAM, APART), 3, work, work) == [True] * 3


@pytest.mark.parametrize(
    ("body", "marked"),
    [("n += 1\n  checkpoint.save(path, program)", 6), ("if n > 3 { checkpoint.save(path, program) }", 5)],
)
def test_an_entry_that_does_more_than_that_is_refused_at_its_line(body, marked):
    text = f"dfg 1\n\nvar n: i64 = 0\nentry both(path: string) {{\n  {body}\n}}\n"
    with pytest.raises(CompileError) as caught:
        cluster_bundle(text, "job a tasks 2\n")
    (message,) = caught.value.diagnostics
    assert message.code == "E1001"
    assert "saves a checkpoint and does something else" in message.title
    assert message.span.line == marked
    assert caught.value.exit_code == 3


def test_what_is_saved_is_what_every_copy_holds(tmp_path):
    text = """dfg 1

param w: f32[4] = uniform(-1.0, 1.0)

entry train[B](x: f32[B, 4]) {
  let g = grad(mean(square(x @ w)), w)
  w -= g
}

entry keep(path: string) { checkpoint.save(path, program) }

entry back(path: string) { checkpoint.restore(path, program) }
"""
    deployment = 'job worker tasks 3\nreplicate train over worker with mode = "sync", split = "B", blocks = 6\n'
    x = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)

    def work(module):
        module.train(x)
        module.keep(str(tmp_path))
        module.train(x)
        after = module.state["w"].tobytes()
        module.back(str(tmp_path))
        module.train(x)
        return after == module.state["w"].tobytes()

    assert on_cluster(cluster_bundle(text, deployment), 3, work) is True
