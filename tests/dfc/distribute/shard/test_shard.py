"""What becomes of state whose rows lie in several tasks: what travels, what is refused, where it counts as memory."""

from __future__ import annotations

from collections import Counter

import pytest

from dfc.diagnostics.diagnostic import CompileError
from dfc.diagnostics.source import SourceFile
from dfc.driver import many_ranks as cluster
from dfc.driver import pipeline
from dfc.driver.api import _built
from dfc.ir import walk
from dfc.ir.graph import Graph
from dfc.ir.options import CompileOptions
from tests.support.corpus import ROOT

PLACES = """deploy 1 for "model.dfg"
job ps tasks 2
job worker tasks 2
shard "table" axis 0 over ps by modulo
shard "acc" axis 0 over ps by modulo
place "**" on worker
"""
HEAD = """dfg 1
param table: f32[1000, 8] = uniform(-0.1, 0.1)
var acc: f32[1000, 8] = 0.1
"""
OTHERS = """var elsewhere: f32[1000, 8] = 0
var square: f32[8, 8] = 0
var whole: f32[1000, 8] = 0
"""
OTHER_PLACES = """shard "elsewhere" axis 0 over ps by hash
shard "square" axis 0 over ps
"""


def spread(program: str, places: str) -> cluster.DistributedProgram:
    built, _ = _built(SourceFile("model.dfg", program), CompileOptions())
    return cluster.distribute(built, pipeline.optimise(built), SourceFile("model.deploy", places))


def parts(body: str, places: str = PLACES) -> dict[str, Graph]:
    return {role.name: graph for role, graph in spread(HEAD + body, places).parts.graphs.items()}


def ops(graph: Graph, entry: str) -> Counter[str]:
    return Counter(node.op for node in walk.nodes(graph.entries[entry].block)) if entry in graph.entries else Counter()


def refused(body: str) -> str:
    with pytest.raises(CompileError) as caught:
        parts(OTHERS + body, PLACES + OTHER_PLACES)
    assert [each.code for each in caught.value.diagnostics] == ["E0832"]
    return str(caught.value)


def test_numbers_that_are_used_twice_are_sent_once() -> None:
    body = """entry train[B](ids: i32[B]) -> (loss: f32) {
      let x = table[ids]
      let loss = mean(square(x))
      table[ids] -= 0.1 * grad(loss, x)
      return loss
    }"""
    worker, owner = parts(body)["worker-0"], parts(body)["ps"]
    assert ops(worker, "train")["route_ids"] == ops(worker, "train")["route_rows"] == 1
    assert ops(owner, "train")["answer_rows"] == ops(worker, "train")["answered_rows"] == 1


def test_an_optimiser_works_at_the_owners_of_its_slots() -> None:
    """One row a number travels; the slot is read, used and written where it lies."""
    body = """entry train[B](ids: i32[B], rows: f32[B, 8]) {
      acc[ids] += square(rows)
      table[ids] -= 0.1 * rows / (sqrt(acc[ids]) + 1e-6)
    }"""
    found = parts(body)
    assert ops(found["worker-0"], "train")["route_rows"] <= 2  # the rows, and their squares
    assert ops(found["worker-0"], "train")["answered_rows"] == 0
    assert ops(found["ps"], "train")["sqrt"] == 1


ADAGRAD = """dfg 1
from std.optim import AdaGrad
param table: f32[100_000, 8] = uniform(-0.1, 0.1)
param output: f32[100_000, 8] = uniform(-0.1, 0.1)
var slopes = AdaGrad(params(program))
entry train[B](center: i32[B], context: i32[B]) -> (loss: f32) {
  let loss = mean(square(1.0 - sum(table[center] * output[context], axis = 1)))
  slopes.step(loss)
  return loss
}
"""


@pytest.mark.parametrize("replicated", [False, True])
def test_slots_of_the_library_never_travel(replicated: bool) -> None:
    places = PLACES.replace('"acc"', '"output"')
    if replicated:
        places += 'replicate train over worker with mode = "sync", split = "B", blocks = 4\n'
    found = {role.name: graph for role, graph in spread(ADAGRAD, places).parts.graphs.items()}
    worker = ops(found["worker" if replicated else "worker-0"], "train")
    assert worker["answered_rows"] == 2  # what the loss reads
    assert worker["sqrt"] == 0
    assert ops(found["ps"], "train")["sqrt"] == 2


def test_nothing_of_the_size_of_a_table_is_sent() -> None:
    program = (ROOT / "samples" / "language" / "05_sharded_embedding.dfg").read_text()
    places = (ROOT / "samples" / "language" / "05_sharded_embedding.deploy").read_text()
    places = places.replace("05_sharded_embedding.dfg", "model.dfg")
    places = places.replace(", gpu = 1", "").replace(" any gpu", "").replace(", backups = 2", ", blocks = 32")
    found = spread(program, places)
    sent = [
        node.operands[0].tensor
        for graph in found.parts.graphs.values()
        for entry in graph.entries.values()
        for node in walk.nodes(entry.block)
        if node.op in ("send", "contribute", "route_rows", "answer_rows")
    ]
    assert sent
    for type_ in sent:
        wide = [size for size in type_.shape if (size.constant or 0) >= 10_000_000 // 16]
        assert not wide or type_.elements.constant == wide[0].constant, type_
    for name in ("table", "output"):
        assert str(found.parts.graphs[found.parts.role_of("ps", 1)].resources[name].type) == "f32[625000, 256]"


WHOLE = """entry train[B](ids: i32[B], rate: f32) -> (loss: f32, all: f32[1000, 8], rows: f32[1000]) {
  let loss = mean(square(table[ids])) + 0.01 * mean(square(table))
  let d = grad(loss, table)
  acc := 0.9 * acc + d / maximum(norm(d), 1.0)
  table -= rate * acc
  let t = loop t: f32[1000, 8] = table while max(t) > 0.5 { t = t * 0.5 + 0.1 * acc }
  let all = if loss > 1.0 { yield t } else { yield table }
  return loss, all * 2.0, sum(all, axis = 1)
}"""


@pytest.mark.parametrize("line", ["", 'replicate train over worker with mode = "sync", split = "B", blocks = 4\n'])
def test_what_is_done_with_a_whole_table_sends_nothing_of_its_size(line: str) -> None:
    """Each owner gives the rows that it has: half of them."""
    found = spread(HEAD + WHOLE, PLACES + line)
    named = {role.name: graph for role, graph in found.parts.graphs.items()}
    graphs = {name: graph.entries["train"] for name, graph in named.items() if "train" in graph.entries}
    sent = [
        node.operands[0].tensor
        for entry in graphs.values()
        for node in walk.nodes(entry.block)
        if node.op in ("send", "contribute", "route_rows", "answer_rows")
    ]
    assert sent
    for type_ in sent:
        assert all((size.constant or 0) < 500 for size in type_.shape), type_
    for name, entry in graphs.items():
        given = dict(zip(entry.result_names, entry.block.outputs, strict=False))
        types = {result: str(given[result].type) for result in given if result != "loss"}
        assert types == ({"all": "f32[500, 8]", "rows": "f32[500]"} if name.startswith("ps") else {})


def test_all_pairs_of_a_vector_with_an_element_a_row_are_made_at_the_owners() -> None:
    """Sorting compares all with all: which axis has the rows is the same for each comparison."""
    found = parts("entry order() -> f32[1000] { return sort(sum(table, axis = 1)) }")
    assert all(
        node.operands[0].tensor.elements.constant in (500, 1000)
        for node in walk.nodes(found["ps"].entries["order"].block)
        if node.op == "contribute"
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("entry running() -> f32[8] { return cumsum(table, axis = 0)[999] }", "`cumsum` runs along the axis"),
        ("entry all() -> f32[1000, 1000] { return table @ transpose(table) }", "meet columns of the other"),
        ("entry both() -> f32[2000, 8] { return concat([table, acc]) }", "it works along the axis"),
        ('entry told() { debug.print("{}", table) }', "tell some rows of it, by their numbers, or a sum"),
        ("entry moved() { whole := table * 2.0 }", '`shard "whole" axis 0 over ps by modulo`'),
        ("entry met() { table += elsewhere }", '`shard "table" axis 0 over ps by hash`'),
        ("entry met() -> f32 { return sum(table * elsewhere) }", "in the same way: `shard .. axis 0 over ps by"),
        (
            "entry turned() {\n  let t = loop t: f32[8, 8] = square for k in 0..3 { t = transpose(t) }\n"
            "  square := t\n}",
            "its rows would lie elsewhere in the next iteration",
        ),
        (
            "entry either(c: bool) -> f32[8, 8] {\n"
            "  let t = if c { yield square } else { yield transpose(square) }\n  return t\n}",
            "the branches hand out rows that lie in different places",
        ),
    ],
)
def test_what_would_bring_all_rows_to_one_task_is_refused(body: str, reason: str) -> None:
    found = refused(body)
    assert reason in found
    assert "its rows lie in 2 tasks" in found
    assert "model.dfg:" in found


def test_a_vector_with_an_element_a_row_may_be_brought_together() -> None:
    found = parts("entry best(v: f32[8]) -> i32 { return argmax(table @ v) }")
    assert ops(found["ps"], "best")["combined"] == 1


def test_a_share_is_what_counts_as_memory() -> None:
    body = "entry rows[B](ids: i32[B]) -> f32[B, 8] { return table[ids] }"
    share = 2 * 500 * 8 * 4
    limits = (share * 3 // 2, share)
    enough, little = (PLACES.replace("ps tasks 2", f'ps tasks 2 with memory = "{limit} B"') for limit in limits)
    assert spread(HEAD + body, enough)  # a whole table would not fit
    with pytest.raises(CompileError, match="E0813") as refused:
        spread(HEAD + body, little)  # nothing is left to work in
    assert "32,000 of state" in str(refused.value)


@pytest.mark.parametrize("tasks", [2, 3])
@pytest.mark.parametrize(
    "initial", ["normal(0, 0.1)", "uniform(-0.5 / 8, 0.5 / 8)", "0.25", "ones(f32[1000, 8]) * 3.0"]
)
def test_no_owner_makes_all_of_a_table_to_begin_with(tasks: int, initial: str) -> None:
    program = f"dfg 1\nparam table: f32[1000, 8] = {initial}\nentry one(id: i32) -> f32[8] {{ return table[id] }}"
    places = f'deploy 1 for "model.dfg"\njob ps tasks {tasks}\nshard "table" axis 0 over ps by hash\n'
    for graph in spread(program, places).parts.graphs.values():
        for node in walk.nodes(graph.entries["init"].block):
            for value in node.results:
                assert value.is_token or (value.tensor.elements.constant or 0) < 1000 * 8, node


SOFTMAX = """entry train[B](x: f32[B, 8], truth: i32[B]) -> (loss: f32) {
  let loss = mean(cross_entropy(x @ transpose(table), truth))
  table -= 0.1 * grad(loss, table)
  return loss
}"""
SENT = ("send", "contribute", "route_rows", "answer_rows", "route_ids")


@pytest.mark.parametrize("job", ["ps", "worker"])
def test_a_softmax_over_all_rows_sends_examples_and_no_number_for_each_row(job: str) -> None:
    places = PLACES.replace("over ps", f"over {job}").replace('shard "acc"', 'place "acc" on ps\n#')
    places += 'replicate train over worker with mode = "sync", split = "B", blocks = 4\n'
    sent = [
        node.operands[0].tensor
        for graph in spread(HEAD + SOFTMAX, places).parts.graphs.values()
        if "train" in graph.entries
        for node in walk.nodes(graph.entries["train"].block)
        if node.op in SENT
    ]
    assert sent
    for type_ in sent:
        assert all((size.constant or 0) < 500 for size in type_.shape), type_
    examples = [type_ for type_ in sent if type_.rank > 1 and type_.shape[-1].constant == 8]
    assert len(examples) == (2 if job == "ps" else 1)  # to the other workers, and from one of them to the owners
