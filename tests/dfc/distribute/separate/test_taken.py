"""Steps that take from queues: an entry that takes, one that is fed; what more a take depends on is refused."""

from __future__ import annotations

import pytest

from dfc.diagnostics.diagnostic import CompileError
from dfc.diagnostics.source import SourceFile
from dfc.distribute.separate import take_apart, together
from dfc.driver.many_ranks import distribute
from dfc.ir import walk
from dfc.ir.graph import Graph
from tests.support.building import graph_of
from tests.support.deploying import resolved

PROGRAM = """
queue rows: (x: f32[2], y: f32) = shuffle_queue(capacity = 8, ready = 2, seed = 3)
param w: f32[2] = 1

entry feed(x: f32[2]) { rows.put(x, 1.0) }

entry train(n: i64, rate: f32) -> (loss: f32) {
  BEFORE
  let loss = sum(x * w) + sum(y)
  w -= rate * grad(loss, w)
  return loss
}
"""
LINES = """deploy 1 for "program.dfg"
job ps tasks 1
job worker tasks 2
replicate train over worker with mode = "async", split = "rows", blocks = 4
"""


def graph(before: str = "let x, y = rows.take(4)") -> Graph:
    return graph_of(PROGRAM.replace("BEFORE", before))


def test_takes_and_their_draws_are_an_entry_and_feeds_of_the_computation() -> None:
    built = graph()
    apart = take_apart(built, [*resolved(LINES, built).replications.values()])
    taking, computing = apart.entries["train_take"], apart.entries["train"]
    assert [node.op for node in taking.block.nodes if any(v.is_token for v in node.results)] == ["draw", "queue_take"]
    assert [str(v.type) for v in taking.block.outputs if not v.is_token] == ["f32[4, 2]", "f32[4]"]
    assert computing.parameter_names[:2] == ("n", "rate") and computing.apart is not None
    assert computing.parameter_names[2:4] == taking.result_names == computing.apart.taken
    used = {
        v.resource for each in (computing, apart.entries["train_update"]) for v in each.block.parameters if v.is_token
    }
    assert "rows" not in used and "rows.order" not in used
    assert not any(node.op == "queue_take" for node in walk.nodes(computing.block))
    assert together(apart).entries == built.entries


@pytest.mark.parametrize(
    "before",
    [
        "let x, y = rows.take_up_to(4)",
        "rows.put(w, 1.0)\n  let x, y = rows.take(4)",
        "let x, y = if n > 0 { yield rows.take(4) } else { yield zeros(f32[4, 2]), zeros(f32[4]) }",
    ],
)
def test_a_take_that_depends_on_more_than_its_queue_is_refused(before: str) -> None:
    built = graph(before)
    with pytest.raises(CompileError) as caught:
        take_apart(built, [*resolved(LINES, built).replications.values()])
    assert "a take that depends on more than its queue" in caught.value.diagnostics[0].title


def test_a_take_beside_feeds_that_are_cut_is_refused_with_what_to_write() -> None:
    built = graph_of(PROGRAM.replace("BEFORE", "let x, y = rows.take(4)").replace("train(", "train[B](z: f32[B], ", 1))
    with pytest.raises(CompileError) as caught:
        take_apart(built, [*resolved(LINES.replace('"rows"', '"B"'), built).replications.values()])
    (problem,) = caught.value.diagnostics
    assert problem.title == "a take from `rows` is not supported yet in an entry with the mode `async`"
    assert problem.helps == ('to cut the batches that come out of the queue `rows`, write `split = "rows"`',)


def test_a_queue_that_is_placed_away_from_the_state_of_its_steps_is_refused_with_both() -> None:
    built = graph()
    lines = LINES + 'place "w" on ps\nplace "rows" on worker task 0\n'
    apart = take_apart(built, [*resolved(lines, built).replications.values()])
    with pytest.raises(CompileError) as caught:
        distribute(built, apart, SourceFile("x.deploy", lines))
    (problem,) = caught.value.diagnostics
    assert problem.title.startswith("steps of `train` take from the pipeline of `rows`, which is not where")
    assert (problem.span.line, [label.span.line for label in problem.labels if not label.primary]) == (4, [6])
