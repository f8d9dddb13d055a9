"""Queues that nobody fills."""

from __future__ import annotations

import pytest

from tests.support.building import codes, messages

QUEUE = "queue pool: f32[3] = fifo(capacity = 8)\n"
TAKES = "entry train() -> f32 {\n  let x = pool.take()\n  return sum(x)\n}\n"

UNFILLED = {
    "nobody puts": QUEUE + TAKES,
    "only sizes are asked for": QUEUE + TAKES + "entry left() -> i64 {\n  return pool.size()\n}\n",
    "a runner takes, too": QUEUE + TAKES + "runner r {\n  let x = pool.take()\n}\n",
    "several are taken at once": QUEUE + "entry train() {\n  let x = pool.take_up_to(4)\n}\n",
}
FILLED = {
    "an entry fills": QUEUE + TAKES + "entry feed(x: f32[3]) {\n  pool.put(x)\n}\n",
    "a function fills": QUEUE + TAKES + "proc feed(x: f32[3]) {\n  pool.put(x)\n}\n",
    "it is handed on": QUEUE + TAKES + "entry feed() {\n  fill(pool)\n}\nproc fill(x: f32) { }\n",
    "others may share it": QUEUE.replace("\n", ' with container = "all"\n') + TAKES,
    "nobody takes": QUEUE + "entry left() -> i64 {\n  return pool.size()\n}\n",
}


@pytest.mark.parametrize("name", UNFILLED)
def test_taking_from_what_nobody_fills_is_a_mistake(name: str) -> None:
    assert [code for code in codes(UNFILLED[name]) if code.startswith("E07")] == ["E0701"]


@pytest.mark.parametrize("name", FILLED)
def test_what_may_be_filled_is_not(name: str) -> None:
    assert "E0701" not in codes(FILLED[name])


def test_the_entry_that_would_wait_is_named_though_it_takes_through_functions() -> None:
    text = QUEUE + "entry idle() { }\nentry train() {\n  step()\n}\nproc step() {\n  draw()\n}\n"
    told = messages(text + "proc draw() {\n  let x = pool.take()\n}\n")
    assert "error[E0701]: `train` would wait for ever" in told
    assert "takes from `pool`" in told


RING = """
queue tasks: f32[3] = fifo(capacity = 4)
queue answers: f32[3] = fifo(capacity = 4)
runner work {
  let task = tasks.take()
  answers.put(task)
}
runner again {
  ANSWER
}
"""
TAKES_FIRST = RING.replace("ANSWER", "let answer = answers.take()\n  tasks.put(answer)")


def test_a_ring_of_queues_that_starts_empty_is_a_mistake_of_everybody_in_it() -> None:
    assert codes(TAKES_FIRST) == ["E0704", "E0704"]
    assert "`work` waits here for `again`, which waits for something that never comes, too" in messages(TAKES_FIRST)


def test_a_ring_that_an_entry_begins_is_none() -> None:
    assert codes(TAKES_FIRST + "entry begin(task: f32[3]) {\n  tasks.put(task)\n}\n") == []


def test_who_puts_before_he_takes_fills_a_ring_himself() -> None:
    assert codes(RING.replace("ANSWER", "tasks.put(ones(f32[3]))\n  let _ = answers.take()")) == []


def test_a_put_in_a_branch_may_fill_a_queue() -> None:
    branch = "let room = tasks.size()\n  if room < 3 {\n    tasks.put(ones(f32[3]))\n  }"
    assert codes(RING.replace("ANSWER", branch)) == []


def test_a_body_that_waits_for_itself_is_told_so() -> None:
    text = "queue q: f32[3] = fifo(capacity = 4)\nentry step() {\n  let x = q.take()\n  q.put(x)\n}\n"
    assert "`step` waits here for what it would put into it itself" in messages(text)
