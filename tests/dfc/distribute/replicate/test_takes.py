"""Batches that come out of a queue, cut into blocks: what is summed over them is, and what cannot be cut is said."""

from __future__ import annotations

import pytest

from dfc.diagnostics.diagnostic import CompileError
from dfc.diagnostics.source import SourceFile
from dfc.distribute.replicate import Replication, replicate
from dfc.driver.many_ranks import distribute
from dfc.driver.pipeline import optimise
from dfc.ir import walk
from dfc.ir.graph import Graph
from tests.support.building import graph_of
from tests.support.deploying import diagnosed, resolved

PROGRAM = """
queue batches: (x: f32[8, 8], y: f32[8]) = staging(depth = 2)
param w: f32[8, 8] = 1
param b: f32[8] = 0

entry feed(x: f32[8, 8], y: f32[8]) { batches.put(x, y) }

entry train(rate: f32) -> f32 {
  let x, y = TAKE
  let loss = mean(square(sum(relu(x @ w + b), axis = 1) - y))
  each p in params(program), g in grad(loss, params(program)) { p -= rate * g }
  return loss
}
"""
LINES = """deploy 1 for "program.dfg"
job worker tasks 2
replicate train over worker with mode = "sync", split = "batches", blocks = 4
"""


def graph(take: str = "batches.take()") -> Graph:
    return graph_of(PROGRAM.replace("TAKE", take))


def replicated(built: Graph, blocks: int) -> Replication:
    statement = resolved(LINES.replace("blocks = 4", f"blocks = {blocks}"), built).replications["train"]
    return replicate(optimise(built), statement)[1]


def test_gradients_and_losses_are_sums_over_blocks_and_the_rest_is_computed_once() -> None:
    about = replicated(graph(), 4)
    assert sorted((each.how, str(each.type)) for each in about.combinations) == [
        ("sum", "f32"),
        ("sum", "f32[8, 8]"),
        ("sum", "f32[8]"),
    ]
    assert (about.queues, about.feeds, about.results) == ("batches", {}, {})


def test_tasks_get_the_rows_of_their_blocks_and_nothing_else_of_a_batch() -> None:
    built = graph()
    lines = LINES.replace("worker tasks 2", "worker tasks 2\njob reader tasks 1") + 'place "batches" on reader\n'
    program = distribute(built, optimise(built), SourceFile("x.deploy", lines))
    entries = {role.name: part.entries["train"] for role, part in program.parts.graphs.items()}
    kinds = {
        name: [n.op for n in walk.nodes(e.block) if n.op.endswith(("recv", "rows"))] for name, e in entries.items()
    }
    assert kinds == {"worker": ["recv", "recv"], "reader-0": ["send_rows", "send_rows"]}
    received = [str(node.results[0].type) for node in walk.nodes(entries["worker"].block) if node.op == "recv"]
    assert sorted(received) == ["f32[NB, 2, 8]", "f32[NB, 2]"]


def test_what_is_no_batch_of_so_many_rows_is_refused_with_its_line() -> None:
    with pytest.raises(CompileError, match=r"\[E0803\].*8 rows, which cannot be cut into 3 blocks") as caught:
        replicated(graph(), 3)
    assert caught.value.diagnostics[0].span.line == 9


SINGLE = """
queue rows: (x: f32[8], y: f32) = fifo(capacity = 64)
param w: f32[8] = 1

entry feed(x: f32[8], y: f32) { rows.put(x, y) }

entry train[B](rate: f32) -> f32 {
  let x, y = rows.take(B)
  let loss = mean(square(x @ w - y))
  w -= rate * grad(loss, w)
  return loss
}
"""


def test_a_split_along_what_only_a_take_decides_is_refused_with_what_to_write() -> None:
    built = graph_of(SINGLE)
    (problem,) = diagnosed(LINES.replace('"batches"', '"B"'), built)
    assert problem.title == "no feed of `train` has an axis `B` that could be cut"
    wanted = 'split = "rows"'
    assert problem.helps == (f"to cut the batches that come out of the queue `rows`, write `{wanted}`",)
    with pytest.raises(CompileError, match="a take of `train` gives B rows, which cannot be cut into 4") as caught:
        replicate(optimise(built), resolved(LINES.replace('split = "batches"', wanted), built).replications["train"])
    assert caught.value.diagnostics[0].helps == (
        "take as many as is known when the program is compiled: a number or a `const` in place of B",
    )


def test_a_mode_that_drops_what_comes_late_is_refused() -> None:
    lines = LINES.replace('"sync"', '"backup", backups = 1')
    (problem,) = diagnosed(lines, graph())
    assert problem.title.startswith("batches of a queue are not supported in the mode `backup`")
    lines = LINES.replace('"batches"', '"rows"')
    (problem,) = diagnosed(lines, graph())
    assert problem.helps[-1].endswith('come out of the queue `batches`, write `split = "batches"`')


TWO = """
queue left: f32[8, 200] = staging(depth = 2)
queue right: f32[8, 200] = staging(depth = 2)
param w: f32[200] = 1

entry feed(x: f32[8, 200]) {
  left.put(x)
  right.put(x)
}

entry train(rate: f32) -> f32 {
  let x = left.take()
  let y = right.take()
  let loss = mean(square(x @ w)) + mean(square(y @ w))
  w -= rate * grad(loss, w)
  return loss
}
"""
READERS = """deploy 1 for "program.dfg"
job worker tasks 2
job reader tasks 2
place "left" on reader task 0
place "right" on reader task 1
replicate train over worker with mode = "sync", split = "left, right", blocks = 4
"""


def test_batches_of_several_queues_come_from_several_tasks() -> None:
    built = graph_of(TWO)
    program = distribute(built, optimise(built), SourceFile("x.deploy", READERS))
    entries = {role.name: part.entries["train"] for role, part in program.parts.graphs.items()}
    sent = {name: [n.op for n in walk.nodes(e.block) if n.op.startswith("send")] for name, e in entries.items()}
    (done,) = (node for node in walk.nodes(entries["reader-0"].block) if node.op == "send")
    assert str(done.operands[0].type) == "i64"  # that there was a batch, and not the batch
    assert sent == {"worker": [], "reader-0": ["send", "send_rows"], "reader-1": ["send_rows"]}
