"""Runners that cannot be held: one message that says why, and everything goes on."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from dfc_runtime.errors import RunError
from dfc_runtime.runners.crew import Crew
from dfc_runtime.runners.holding import Holder
from tests.support.pipelines import eventually, loaded, numbers_of

TWO = """
queue a: i64 = fifo(capacity = 4)
queue b: i64 = fifo(capacity = 4)
queue c: i64 = fifo(capacity = 4)
var made: i64 = 0
entry feed(k: i64) { b.put(k) }
runner make {
  a.put(made)
  made += 1
}
runner pair {
  let x = a.take()
  let y = b.take()
  c.put(x + y)
}
entry next() -> i64 { return c.take() }
"""
LOOP = """
queue a: i64 = fifo(capacity = 4)
var times: i64 = 2
runner make { for i in 0..times { a.put(i) } }
entry next() -> i64 { return a.take() }
"""
RING = """
queue a: i64 = fifo(capacity = 4)
queue b: i64 = fifo(capacity = 4)
queue c: i64 = fifo(capacity = 4)
entry feed(k: i64) { a.put(k) }
runner there {
  let x = a.take()
  b.put(x + 1)
}
runner back {
  let x = b.take()
  c.put(x)
  if x < 4 { a.put(x) }
}
entry next() -> i64 { return c.take() }
"""
FAILING = """
queue a: i64 = fifo(capacity = 4)
var made: i64 = 0
runner make {
  assert made < 2, "it is enough"
  a.put(made)
  made += 1
}
entry next() -> i64 { return a.take() }
"""


def test_a_runner_that_waits_in_its_midst_for_calls_is_not_saved_and_goes_on(tmp_path: Path) -> None:
    model = loaded(TWO)
    model.feed(10)
    assert model.next() == 10
    eventually(lambda: numbers_of(model, "a")[1] == 2)  # the runner has its next `x`, and nobody feeds a `y`
    message = "`pair` is in the midst of an iteration\n  it waits for the queue `b` at"
    with pytest.raises(RunError, match=message) as caught:
        model.save(tmp_path)
    assert caught.value.code == "E0919" and not list(tmp_path.iterdir())
    for k in (20, 30):
        model.feed(k)
    assert [model.next(), model.next()] == [21, 32]


@pytest.mark.parametrize(
    ("text", "calls", "message"),
    [
        (LOOP, 3, "the runner `make` puts any number of elements into `a` in one iteration"),
        (RING, 3, "the runner `back` gets back what others make of what it puts"),
        (FAILING, 2, "the runner `make` has failed, and what it had is lost"),
    ],
    ids=["loop", "ring", "failing"],
)
def test_what_cannot_be_held_is_said_at_once(text: str, calls: int, message: str, tmp_path: Path) -> None:
    model = loaded(text)
    model.save(tmp_path)  # no runner was started yet
    if text == RING:
        model.feed(0)
    values = [model.next() for _ in range(calls)]
    if text == FAILING:
        with pytest.raises(RunError, match="it is enough"):
            model.next()
    with pytest.raises(RunError, match=re.escape(message)) as caught:
        model.save(tmp_path)
    assert caught.value.code == "E0919" and caught.value.spans
    assert [each.name for each in tmp_path.iterdir()] == ["step-1"]
    model.restore(tmp_path)  # begins again, with runners that were never started
    if text == RING:
        model.feed(0)
    assert [model.next() for _ in range(calls)] == values
    model.close()


def test_a_save_that_is_interrupted_loses_no_copy_of_a_runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = loaded(TWO.replace("let y = b.take()", "let y = 0").replace("runner make", "runner make with copies = 3"))
    assert model.next() == 0
    look, looks, ended = Holder._look, [], Crew._ended

    def interrupted(holder: Holder) -> object:
        looks.append(0)
        if len(looks) == 1:
            raise KeyboardInterrupt
        return look(holder)

    def late(crew: Crew, *arguments: Any) -> None:
        time.sleep(0.05)  # they have left their loop, and are still to be parked
        ended(crew, *arguments)

    monkeypatch.setattr(Holder, "_look", interrupted)
    monkeypatch.setattr(Crew, "_ended", late)
    with pytest.raises(KeyboardInterrupt):
        model.save(tmp_path)
    assert [model.next(timeout=20) for _ in range(30)] == list(range(1, 31))
    model.close()


def test_a_program_that_is_saved_often_makes_no_more_than_fits(tmp_path: Path) -> None:
    """Each checkpoint lets an iteration end whose element has no room: the next one begins when it is taken."""
    model = loaded(TWO.replace("let y = b.take()", "let y = 0"))
    assert model.next() == 0
    for _ in range(5):
        eventually(lambda: numbers_of(model, "c")[0] - numbers_of(model, "c")[1] >= 4)
        model.save(tmp_path)
    assert numbers_of(model, "c")[0] - numbers_of(model, "c")[1] == 5
    assert [model.next() for _ in range(20)] == list(range(1, 21))
    model.close()
