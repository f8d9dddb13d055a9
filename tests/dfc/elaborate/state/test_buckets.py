"""Queues whose elements vary in length: declarations, puts and takes."""

from __future__ import annotations

import pytest

from dfc.ir import walk
from dfc.ir.dtypes import F32, I32, I64
from dfc.ir.graph import Graph
from dfc.ir.queues import QueueForm
from dfc.ir.text.printer import print_graph
from dfc.ir.types import TensorType, tensor
from tests.support.building import codes, graph_of, messages

QUEUE = "queue q: (a: i32[?], b: f32[?, 2], c: i64) = bucket_queue(capacity = 9, bounds = [3, 6])\n"
FEED = "entry feed[M, N](a: i32[M], b: f32[N, 2]) {\n  q.put(a, b, c = 1)\n}\n"
STEP = "entry step() -> i32 {{\n  {line}\n  return sum(a)\n}}\n"


def queue_of(text: str) -> QueueForm | None:
    return graph_of(text).resources["q"].queue


def test_fields_that_vary_have_the_last_bound_and_their_lengths_are_fields() -> None:
    types = (tensor(I32, 6), tensor(F32, 6, 2), *[TensorType(I64)] * 3)
    names = ("a", "b", "c", "a_length", "b_length")
    assert queue_of(QUEUE + FEED) == QueueForm(names, types, 9, bounds=(3, 6), varying=(0, 1))


def test_a_put_says_how_long_the_fields_are() -> None:
    graph = graph_of(QUEUE + FEED)
    put = next(node for node in walk.nodes(graph.entries["feed"].block) if node.op == "queue_put")
    assert [str(value.type) for value in put.operands] == ["i32[M]", "f32[N, 2]", "i64", "i64", "i64", "token(q)"]
    checks = {(str(check.left), check.relation, str(check.right)) for check in graph.entries["feed"].checks}
    assert checks == {("6", ">=", "M"), ("6", ">=", "N")}


@pytest.mark.parametrize(
    ("take", "types"),
    [
        ("let [L, M] a: i32[L], b: f32[M, 2], c: i64, n, m = q.take()", ["i64", "i64"]),
        ("let [L, M] a: i32[4, L], b: f32[4, M, 2], c: i64[4], n, m = q.take(4)", ["i64[4]", "i64[4]"]),
        (
            "let [K, L, M] a: i32[K, L], b: f32[K, M, 2], c: i64[K], n: i64[K], m = q.take_up_to(4)",
            ["i64[4]", "i64[4]"],
        ),
    ],
)
def test_a_take_gives_each_field_a_size_of_its_own(take: str, types: list[str]) -> None:
    graph = graph_of(QUEUE + FEED + STEP.format(line=take))
    node = next(node for node in walk.nodes(graph.entries["step"].block) if node.op.startswith("queue_take"))
    assert [str(value.type) for value in node.results[3:5]] == types


def test_what_is_printed_is_read_as_the_same_queue() -> None:
    def printed(graph: Graph) -> str:
        return print_graph(graph)

    graph = graph_of(QUEUE + FEED + STEP.format(line="let a, b, c, n, m = q.take(4)"))
    again = graph_of(printed(graph).removeprefix("dfg 1\n"))
    assert again.resources["q"].queue == graph.resources["q"].queue
    assert printed(again) == printed(graph)


USE = "\nentry feed(x: f32[3]) {\n  q.put(x)\n}\n"
MISTAKES = {
    "f32[?] = bucket_queue(capacity = 0, bounds = [3])": "E0315",
    "f32[?] = bucket_queue(capacity = 8)": "E0204",
    "f32[?] = bucket_queue(bounds = [3])": "E0204",
    "f32[?] = bucket_queue(capacity = 8, bounds = [])": "E0315",
    "f32[?] = bucket_queue(capacity = 8, bounds = 3)": "E0315",
    "f32[?] = bucket_queue(capacity = 8, bounds = [4, 3])": "E0315",
    "f32[?] = bucket_queue(capacity = 8, bounds = [3, 3])": "E0315",
    "f32[?] = bucket_queue(capacity = 8, bounds = [0, 3])": "E0315",
    "f32[?] = bucket_queue(capacity = 8, bounds = [3.5])": "E0315",
    "f32[?] = bucket_queue(capacity = 8, bounds = [true])": "E0315",
    "f32[?] = bucket_queue(capacity = 2_000_000_000, bounds = [2_000_000_000, 2_000_000_001])": "E0309",
    "f32[3] = bucket_queue(capacity = 8, bounds = [3])": "E0316",
    "f32[3, ?] = bucket_queue(capacity = 8, bounds = [3])": "E0320",
    "f32[?, ?] = bucket_queue(capacity = 8, bounds = [3])": "E0320",
    "f32[?] = fifo(capacity = 8)": "E0320",
    "(x: f32[?], x_length: f32) = bucket_queue(capacity = 8, bounds = [3])": "E0205",
    "f32[?] = bucket_queue(capacity = 8, bounds = [1, 2])": "E0702",
    "f64[?] = bucket_queue(capacity = 8, bounds = [3])": "E0316",
    "f32[?, 2] = bucket_queue(capacity = 8, bounds = [3])": "E0316",
}


@pytest.mark.parametrize("made", MISTAKES)
def test_a_wrong_declaration_or_element_is_one_mistake(made: str) -> None:
    assert codes(f"queue q: {made}" + USE) == [MISTAKES[made]]


def test_a_take_that_no_bucket_is_certain_to_have_is_refused() -> None:
    line = "let a, b, c, n, m = q.take({})"
    assert codes(QUEUE + FEED + STEP.format(line=line.format(5))) == []
    shown = messages(QUEUE + FEED + STEP.format(line=line.format(6)))
    assert "it has room for 9; 2 buckets need room for 11 until one has 6 for certain" in shown
    assert "declare it with `capacity = 11` or more" in shown
    assert codes(QUEUE.replace("capacity = 9", "capacity = 11") + FEED + STEP.format(line=line.format(6))) == []


def test_a_list_fills_a_field_that_varies() -> None:
    assert codes(QUEUE + "entry feed() {\n  q.put([1, 2], [[1, 2]], 3)\n}\n") == []
