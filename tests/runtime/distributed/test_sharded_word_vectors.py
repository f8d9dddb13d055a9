"""Word vectors whose tables lie in rows over tasks, beside their transcription; optimiser slots; bytes on the wire."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dfc_runtime.distributed.calls import routing
from tests.support.clusters import cluster_bundle, on_cluster, undivided
from tests.support.sweeping import few
from tests.support.word_vectors import PROGRAM, WORDS, WordVectors

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = (ROOT / "samples" / "skipgram.dfg").read_text()
DEPLOYMENT = """
job ps tasks {shards}
job worker tasks {workers}
shard "table" axis 0 over ps by {rule}
shard "output" axis 0 over ps by {rule}
shard "bias" axis 0 over ps by {rule}
place "seen" on ps task 0
place "dice" on worker
place "**" on worker
colocate "train/sampled_softmax/good" with "output"
replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 6
"""


def batches(count, size, words):
    random = np.random.default_rng(4)
    for _ in range(count):
        yield tuple(random.integers(0, words, size).astype(np.int32) for _ in range(2))


def after_steps(count):
    def work(module):
        steps = [module.train(*batch, 0.5) for batch in batches(count, 12, WORDS)]
        state = [np.array(module.state[name]) for name in ("table", "output", "bias", "seen")]
        return [np.array([step.loss for step in steps]), np.array([step.drawn for step in steps]), *state]

    return work


def test_a_hundred_steps_are_those_of_the_transcription():
    data = cluster_bundle(PROGRAM, DEPLOYMENT.format(shards=2, workers=1, rule="hash"))
    losses, drawn, table, output, bias, seen = on_cluster(data, 3, after_steps(100))
    alone = undivided(PROGRAM)
    wanted = WordVectors(*(np.array(alone.state[name]) for name in ("table", "output", "bias")))
    for loss, noise, batch in zip(losses, drawn, batches(100, 12, WORDS), strict=True):
        assert loss == pytest.approx(wanted.step(*batch, noise, 0.5), rel=1e-12)
    for found, name in ((table, "table"), (output, "output"), (bias, "bias")):
        np.testing.assert_allclose(found, getattr(wanted, name), rtol=1e-12, atol=1e-13)
    assert seen == 1200


def test_workers_and_shards_change_no_bit():
    found = {
        tuple(each.tobytes() for each in on_cluster(cluster_bundle(PROGRAM, text), ranks, after_steps(10)))
        for text, ranks in [
            (DEPLOYMENT.format(shards=shards, workers=workers, rule=rule), shards + workers)
            for shards, workers, rule in few([(2, 1, "hash"), (1, 1, "modulo"), (1, 3, "blocks"), (2, 3, "modulo")], 2)
        ]
    }
    assert len(found) == 1


ADA = """dfg 1
from std.optim import AdaGrad
param table: f64[9, 2] = uniform(-0.1, 0.1)
var optimiser = AdaGrad([table], rate = 0.3)
entry train[B](center: i32[B]) -> (loss: f64) {
  let loss = mean(square(1.0 - sum(table[center], axis = 1)))
  optimiser.step(loss)
  return loss
}
"""


def test_the_slots_of_an_optimiser_lie_with_their_rows():
    places = """
    job ps tasks 2
    job worker tasks 2
    shard "table" axis 0 over ps by modulo
    replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 2
    """

    def work(module):
        losses = [module.train(center).loss for center, _ in batches(8, 4, 9)]
        slot = "optimiser.slots[table].v"
        return [np.array(losses), module.state["table"], module.state[slot]], module.state.owners(slot)

    def alone(module):
        losses = [module.train(center).loss for center, _ in batches(8, 4, 9)]
        return [np.array(losses), module.state["table"], module.state["optimiser.slots[table].v"]]

    found, owners = on_cluster(cluster_bundle(ADA, places), 4, work)
    for a, b in zip(alone(undivided(ADA)), found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12)
    assert owners == (0, 1)


def sample_deployment(name):
    return (ROOT / "samples" / name).read_text().split("\n", 1)[1]


@pytest.mark.parametrize("name", few(["skipgram_two_workers.deploy", "skipgram.deploy"], 1))
def test_the_sample_learns_on_three_ranks(name):
    def work(module):
        random = np.random.default_rng(0)
        losses = []
        for _ in range(60):
            center = random.integers(0, 50, 64).astype(np.int32)
            losses.append(module.train(center, center ^ 1, 2.0).loss)
        words = module.neighbours(word=3, K=4)
        center = np.arange(8, dtype=np.int32)
        return losses, words.words.tolist(), module.evaluate(center, center ^ 1)

    losses, words, loss = on_cluster(cluster_bundle(SAMPLE, sample_deployment(name)), 3, work)
    alone_losses, alone_words, alone_loss = work(undivided(SAMPLE))
    assert losses[-1] < losses[0]
    np.testing.assert_allclose(losses, alone_losses, rtol=2e-4)
    assert words == alone_words
    assert loss == pytest.approx(alone_loss, rel=1e-4)


def test_only_rows_and_their_numbers_travel(monkeypatch):
    """As many bytes for a table of a million rows as for one of a thousand: 8 a number, 8 a number of an element."""
    program = """
    dfg 1
    param table: f64[{rows}, 4] = 0.5
    entry train[B](ids: i32[B]) -> (loss: f64) {{
      let loss = mean(square(table[ids]))
      table -= grad(loss, table)
      return loss
    }}
    """
    places = """
    job ps tasks 2
    job worker tasks 1
    shard "table" axis 0 over ps by modulo
    place "**" on worker
    """
    sent = []

    class Counted(routing.Router):
        def __init__(self, topology, waiting, wires):
            super().__init__(topology, waiting, wires)
            comm = waiting.comm
            plain = comm.isend

            def isend(buffer, destination, tag, **how):
                sent.append(buffer.size)
                return plain(buffer, destination, tag, **how)

            comm.isend = isend

    monkeypatch.setattr("dfc_runtime.distributed.calls.edges.Router", Counted)
    totals = []
    for rows in (1000, 1_000_000):
        ids = np.arange(32, dtype=np.int32) * 7

        def work(module, ids=ids):
            before = sum(sent)
            module.train(ids)
            return sum(sent) - before

        totals.append(on_cluster(cluster_bundle(program.format(rows=rows), places), 3, work))
    assert totals[0] == totals[1]
    numbers, picked, slopes = 8 * 32, 32 * 4 * 8, 32 * 4 * 8
    assert numbers + picked + slopes <= totals[0] <= numbers + picked + slopes + 1000
