"""Staged variables: gradients at weights of the last step, applied to those of this one."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

from dfc.diagnostics.diagnostic import CompileError
from dfc.diagnostics.source import SourceFile, Span
from dfc.distribute.deployment.model import Replicate
from dfc.distribute.separate import stage_variables
from dfc.driver.pipeline import check, optimise
from dfc.elaborate.build import build
from dfc.ir.graph import Graph
from dfc.ops.evaluate import evaluate, initial_state
from dfc_runtime.formats.bundle import opened
from tests.support.clusters import cluster_bundle, on_cluster
from tests.support.quick_code import quick_code

QUADRATIC = """
dfg 1
param w: f64[2] = 3
entry train[B](x: f64[B, 2], rate: f64) -> (loss: f64) {
  let loss = 0.5 * mean(sum(square(w - x), axis = 1))
  w -= rate * grad(loss, w)
  return loss
}
"""
STAGED = """
job worker tasks 2
replicate train over worker with mode = "staged", split = "B", blocks = 4
"""


def staged(text: str) -> Graph:
    """A program behind `separate`, with its entry `train` staged."""
    nowhere = Span.nowhere()
    statement = Replicate("train", "worker", "staged", "B", "mean", 4, nowhere, nowhere, nowhere)
    return stage_variables(build(SourceFile("model.dfg", dedent(text))), [statement])


def trained(text: str, steps: int, **feeds: object) -> dict[str, np.ndarray]:
    """The state after so many steps, by the reference evaluator."""
    graph = staged(text)
    check(graph, "separate")
    graph = optimise(graph)
    state = evaluate(graph, graph.entries["init"], {}, initial_state(graph)).state
    for _ in range(steps):
        state = evaluate(graph, graph.entries["train"], feeds, state).state
    return state


def test_it_is_delayed_sgd_with_the_same_bits_on_any_number_of_ranks() -> None:
    rate, steps = 0.2, 12
    data = cluster_bundle(QUADRATIC, STAGED)
    x = np.zeros((8, 2))

    def train(module: object) -> np.ndarray:
        return np.stack([(module.train(x, rate), module.state["w"])[1] for _ in range(steps)])

    alone = on_cluster(data, 1, train, jobs={"worker": 1})
    # w[t+1] = w[t] - rate * w[t-1] is c * (p ** t) + d * (q ** t) with the roots p and q of z * z = z - rate
    p, q = (1 + np.sqrt(1 - 4 * rate)) / 2, (1 - np.sqrt(1 - 4 * rate)) / 2
    c = 3 * (1 - rate - q) / (p - q)
    closed = [c * p**t + (3 - c) * q**t for t in range(1, steps + 1)]
    np.testing.assert_allclose(alone, np.stack([closed, closed], 1), rtol=1e-12)
    assert on_cluster(data, 2, train).tobytes() == alone.tobytes()


def test_updates_read_what_is_now_and_losses_what_was() -> None:
    state = trained(
        """
        dfg 1
        param w: f64 = 2
        var m: f64 = 0
        entry train[B](x: f64[B]) {
          let now = w
          let loss = mean(x) * now * now
          m := 0.5 * m + grad(loss, now)
          w := now - 0.25 * m - 0.125 * now
        }
        """,
        3,
        x=np.ones(4),
    )
    w, before, m = 2.0, 2.0, 0.0
    for _ in range(3):
        m = 0.5 * m + 2 * before
        w, before = w - 0.25 * m - 0.125 * w, w
    assert (state["w"], state["m"], state["staged[w]"]) == (w, m, before)


def test_reads_in_loops_on_the_way_to_a_loss_are_staged() -> None:
    state = trained(
        """
        dfg 1
        param w: f64 = 1
        entry train[B](x: f64[B]) {
          let h = loop h = mean(x) for i in 0..3 { h = h * w }
          w -= 0.125 * grad(h, w)
        }
        """,
        2,
        x=np.ones(4),
    )
    assert state["w"] == 1 - 0.125 * 3 - 0.125 * 3  # both gradients are taken at 1


def test_mirrored_copies_are_the_variables_in_each_task_and_steps_have_the_bits_of_sync() -> None:
    text = QUADRATIC + "entry halve() { w *= 0.5 }\n"
    jobs = 'job ps tasks 1\njob worker tasks 2\nplace "**" on worker\nplace "w" on ps\n'
    line = 'replicate train over worker with mode = "{}", split = "B", blocks = 4\n'
    with quick_code():
        mirrored, sync = (cluster_bundle(text, jobs + line.format(mode)) for mode in ("mirrored", "sync"))
    with opened(mirrored) as bundle:
        assert bundle.manifest.cluster is not None
        assert {each.name: each.site for each in bundle.manifest.cluster.state} == {"w": "ps:0", "copy[w]": "worker"}
    x = np.arange(16.0).reshape(8, 2)

    def train(module: object) -> list[bytes]:
        found = []
        for call in (lambda: module.train(x, 0.2), module.halve, lambda: module.train(x, 0.2), module.init):
            call()
            found.append(module.state["w"].tobytes())
        return [*found, module.train(x, 0.1).loss.tobytes(), module.state["w"].tobytes()]

    copies = []

    def serve(module: object) -> None:
        module.serve()
        own = module.inner.state
        copies.extend(own[name].tobytes() for name in own if name == "copy[w]")

    def mirrored_train(module: object) -> list[bytes]:
        found = train(module)
        assert module.state["copy[w]"].tobytes() == found[-1]
        return found

    found = on_cluster(mirrored, 3, mirrored_train, serve)
    assert copies == [found[-1]] * 2  # in the memory of both workers
    assert found == on_cluster(sync, 3, train)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("w := w + mean(x)", "takes no gradient of a variable"),
        ("w := w + mean(x)\n  w -= grad(w * w, w)", "a loss behind an update of `w`"),
        ("loop for i in 0..3 { w -= grad(w * w, w) }", "in a loop or a branch"),
    ],
)
def test_what_has_no_last_step_is_refused(body: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        staged(f"dfg 1\nparam w: f64 = 1\nentry train[B](x: f64[B]) {{\n  {body}\n}}\n")
