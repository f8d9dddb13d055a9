"""Declarations of queues."""

from __future__ import annotations

import pytest

from dfc.ir.dtypes import F32, I32, U8
from dfc.ir.graph import ResourceKind
from dfc.ir.queues import QueueForm, queue_bytes
from dfc.ir.text.printer import print_graph
from dfc.ir.types import TensorType, tensor
from tests.support.building import codes, graph_of, messages

USE = "\nentry feed(x: f32[3]) {\n  q.put(x)\n}\n"
SIZE = "\nentry size() -> i64 {\n  let n = q.size()\n  return n\n}\n"


def test_a_fifo_is_state_with_a_form() -> None:
    queue = graph_of("queue q: f32[3] = fifo(capacity = 8)" + USE).resources["q"]
    assert queue.kind is ResourceKind.QUEUE
    assert queue.queue == QueueForm(("value",), (tensor(F32, 3),), 8, 1)
    assert queue.type == tensor(U8, queue_bytes(queue.queue))
    assert not queue.saved


def test_a_shuffled_queue_has_an_rng_of_its_own_with_a_seed() -> None:
    text = "queue q: (x: f32[3], y: i32) = shuffle_queue(capacity = 8, ready = 3, seed = SEED)" + SIZE
    one, other = (graph_of(text.replace("SEED", seed)).resources for seed in "12")
    assert one["q"].queue == QueueForm(("x", "y"), (tensor(F32, 3), TensorType(I32)), 8, 3)
    assert one["q.order"].kind is ResourceKind.RNG
    first, second = (each["q.order"].initial.nodes[0].attributes for each in (one, other) if each["q.order"].initial)
    assert first != second


def test_a_shuffled_queue_of_which_one_element_is_ready_draws_nothing() -> None:
    uses = "\nentry next() -> i32 { return q.take() }\nentry feed(x: i32) { q.put(x) }"
    graph = graph_of("queue q: i32 = shuffle_queue(capacity = 8, ready = 1)" + uses)
    assert [*graph.resources] == ["q"] and graph.resources["q"].queue == QueueForm(("value",), (TensorType(I32),), 8)


def test_a_staging_queue_has_its_depth_for_capacity() -> None:
    queue = graph_of("queue q: f32[3] = staging(depth = 2)" + USE).resources["q"].queue
    assert queue is not None
    assert queue.capacity == 2


def test_a_priority_queue_goes_by_its_first_field_or_one_that_is_named() -> None:
    made = "queue q: (x: i32, y: f16) = priority_queue(capacity = 8, ready = 3BY)" + SIZE
    forms = [graph_of(made.replace("BY", by)).resources["q"].queue for by in ("", ', by = "y"')]
    assert [form.key for form in forms if form is not None] == ["x", "y"]


MISTAKES = {
    "fifo(capacity = 0)": "E0315",
    "fifo(capacity = 2_147_483_649)": "E0315",
    "fifo(capacity = 1.5)": "E0315",
    "fifo(capacity = true)": "E0315",
    "fifo()": "E0204",
    "fifo(depth = 3)": "E0204",
    "staging(depth = -1)": "E0315",
    "shuffle_queue(capacity = 4, ready = 5)": "E0315",
    "shuffle_queue(capacity = 4)": "E0204",
    "shuffle_queue(capacity = 4, ready = 2, seed = 0.5)": "E0315",
    "priority_queue(capacity = 4)": "E0204",
    "priority_queue(capacity = 4, ready = 2)": "E0316",
    'priority_queue(capacity = 4, ready = 2, by = "key")': "E0203",
    "priority_queue(capacity = 4, ready = 2, by = 1)": "E0203",
    "fido(capacity = 3)": "E0407",
    "3": "E0407",
}


@pytest.mark.parametrize("made", MISTAKES)
def test_what_makes_no_queue_is_one_mistake(made: str) -> None:
    assert codes(f"queue q: f32[3] = {made}" + USE) == [MISTAKES[made]]


@pytest.mark.parametrize(
    ("type_", "code"), [("string", "E1001"), ("rng", "E0316"), ("((f32, f32), f32)", "E0316"), ("f32[N]", "E0202")]
)
def test_elements_are_tensors_of_known_sizes(type_: str, code: str) -> None:
    assert codes(f"queue q: {type_} = fifo(capacity = 3)" + SIZE)[0] == code


def test_an_unknown_setting_is_named() -> None:
    assert "a queue has no setting `speed`" in messages("queue q: f32[3] = fifo(capacity = 3) with speed = 2" + USE)


def test_a_queue_that_persists_says_so_when_it_is_printed() -> None:
    text = "queue q: f32[3] = fifo(capacity = 3) with persist = "
    graph = graph_of(text + "true" + USE)
    assert graph.resources["q"].queue.persist and not graph_of(text + "false" + USE).resources["q"].queue.persist
    printed = print_graph(graph)
    assert "window = 1) with persist = true\n" in printed
    assert graph_of(printed).resources["q"].queue == graph.resources["q"].queue
    assert codes(text + "1" + USE) == ["E0315"]


def test_a_constructor_elsewhere_says_where_it_belongs() -> None:
    text = "var v: f32 = fifo(capacity = 3)\nentry get() -> f32 {\n  return v\n}\n"
    assert "declare the queue at the top of the file" in messages(text)


def test_a_queue_in_a_block_has_the_full_name_of_its_instance() -> None:
    member = "queue q: f32[3] = fifo(capacity = 3)\n  proc fill(x: f32[3]) {\n    q.put(x)\n  }"
    uses = "entry feed(x: f32[3]) {\n  left.fill(x)\n  right.fill(x)\n}\n"
    graph = graph_of(f"block Buffer {{\n  {member}\n}}\nvar left = Buffer()\nvar right = Buffer()\n{uses}")
    assert {"left.q", "right.q"} <= graph.resources.keys()
