"""What a deployed program tells people is told once, by one task; and what cannot be deployed is one message."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.diagnostics.diagnostic import CompileError
from tests.support.clusters import cluster_bundle, on_cluster, undivided

PROGRAM = """dfg 1

var w: f32 = 2.0
var n: i64 = 0

entry train[B](x: f32[B]) -> (s: f32) {
  let s = mean(x) * w
  n += 1
  summary.scalar("s", s)
  debug.print("s is {}", s)
  if n % 2 == 0 {
    debug.print("even {}", n)
  }
  w := s
  return s
}

entry look() {
  debug.print("w is {}", w)
}
"""
X = np.arange(12, dtype=np.float32) - 4
REPLICATED = 'job worker tasks 3\nreplicate train over worker with mode = "sync", split = "B", blocks = 6\n'
APART = 'job a tasks 1\njob b tasks 2\nplace "w" on b task 0\nplace "n" on b task 1\n'


@pytest.mark.parametrize("deployment", [REPLICATED, APART])
def test_prints_and_summaries_come_once(deployment, capfd):
    def work(module):
        for _ in range(2):
            module.train(X)
        module.look()
        return [(event.tag, event.value) for event in module.summaries]

    events = on_cluster(cluster_bundle(PROGRAM, deployment), 3, work)
    out = capfd.readouterr()
    assert sorted((out.out + out.err).splitlines()) == ["even 2", "s is 3.0", "s is 4.5", "w is 4.5"]
    if deployment is REPLICATED:
        assert events == [("s", 3.0), ("s", 4.5)]


TRAIN = """dfg 1

param w: f32[3] = 0.5

entry train[B](x: f32[B, 3]) -> (loss: f32) {
  let p = x @ w
  let loss = mean(square(p - 1))
  w -= grad(loss, w)
  return loss
}
"""
BLOCKS = 'job ps tasks 1\njob worker tasks 2\nreplicate train over worker with mode = "sync", split = "B", blocks = 4\n'


@pytest.mark.parametrize("where", ["worker task 1", "ps"])
def test_what_works_on_blocks_cannot_be_placed_on_one_task(where):
    with pytest.raises(CompileError) as caught:
        cluster_bundle(TRAIN, f'{BLOCKS}place "train/p" on {where}\n')
    (message,) = caught.value.diagnostics
    assert message.code == "E0802"
    assert "`train/p` is computed in blocks by all tasks of `worker`" in message.title
    assert [label.span.line for label in message.labels] == [5, 6]


@pytest.mark.parametrize("where", ["worker", "worker task 1", "ps"])
def test_state_of_a_replicated_entry_may_lie_anywhere(where):
    def work(module):
        return [float(module.train(X.reshape(4, 3)).loss) for _ in range(2)], module.state["w"].tobytes()

    plain = on_cluster(cluster_bundle(TRAIN, BLOCKS), 3, work)
    assert on_cluster(cluster_bundle(TRAIN, f'{BLOCKS}place "w" on {where}\n'), 3, work) == plain
    assert plain[0][0] == 26.875


MASK = """dfg 1

var w: f32 = 2.0
var v: f32 = 3.0

entry some[B](x: f32[B]) -> (s: f32) {
  let y = x[x > 0] * w
  return sum(y * v)
}
"""


@pytest.mark.parametrize(
    "deployment",
    [
        'job a tasks 1\njob b tasks 1\nplace "w" on a\nplace "v" on b\n',
        'job a tasks 1\njob b tasks 1\nplace "w" on a\nplace "v" on b\nplace "some/y" on b\n',
        'job worker tasks 2\nreplicate some over worker with mode = "sync", split = "B", blocks = 4\n',
    ],
)
def test_sizes_that_the_run_finds_out_may_be_inside(deployment):
    found = on_cluster(cluster_bundle(MASK, deployment), 2, lambda module: float(module.some(X).s))
    assert found == 168.0


def test_a_result_of_such_a_size_comes_back():
    text = MASK.replace("(s: f32)", "(s: f32, y: f32[?])").replace("sum(y * v)", "sum(y * v), y")
    data = cluster_bundle(text, 'job a tasks 1\njob b tasks 1\nplace "w" on b\n')
    alone = undivided(text).some(X)
    found = on_cluster(data, 2, lambda module: module.some(X))
    assert found.s == alone.s
    assert np.array_equal(found.y, alone.y)
