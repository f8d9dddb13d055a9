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
    assert "E1001" in codes(FILLED[name])


def test_the_entry_that_would_wait_is_named_though_it_takes_through_functions() -> None:
    text = QUEUE + "entry idle() { }\nentry train() {\n  step()\n}\nproc step() {\n  draw()\n}\n"
    told = messages(text + "proc draw() {\n  let x = pool.take()\n}\n")
    assert "error[E0701]: `train` would wait for ever" in told
    assert "takes from `pool`" in told
