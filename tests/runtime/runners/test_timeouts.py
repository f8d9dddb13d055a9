"""A call with a `timeout` waits for queues and mutexes so long and no longer, and changes nothing then."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from dfc_driver_cpu.context import Context
from dfc_driver_cpu.watching import Watch
from dfc_runtime.errors import FeedError, RunError, WaitError
from tests.support.forked import in_child
from tests.support.pipelines import eventually, loaded, numbers_of

PROGRAM = """
var n: i64 = 0
var guard: mutex = mutex()
queue a: i64 = fifo(capacity = 2)
queue b: i64 = fifo(capacity = 2)
queue c: i64 = fifo(capacity = 2)
runner go { let k = a.take()
  b.put(k) }
entry give(k: i64) { a.put(k) }
entry next() -> i64 {
  n += 1
  let k = b.take()
  n += k
  return k
}
entry two() -> i64 {
  let k = b.take()
  let l = b.take()
  return k + l
}
entry inside() with concurrent = true {
  guard.acquire()
  let k = b.take()
  n += k
  guard.release()
}
entry count() with concurrent = true {
  guard.acquire()
  n += 1
  guard.release()
}
entry print() with concurrent = true {
  guard.acquire()
  debug.print("{}", 1.0)
  guard.release()
}
entry give_other(k: i64) { c.put(k) }
entry other() -> i64 { return c.take() }
entry add(timeout: i64) -> i64 {
  a.put(timeout)
  return timeout
}
readonly entry look() -> i64 { return n }
"""


def test_a_take_that_waits_for_too_long_says_for_what_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watch, "ask_again", lambda *_: None)  # nobody else has it look at the clock
    model = loaded(PROGRAM)
    model._machinery.runners._starter.start(model.entries["next"].signature, frozenset({"go"}))
    eventually(lambda: any(copy.waiting() for copy in model._machinery.runners._crew.running["go"].living))
    begin = time.monotonic()
    with pytest.raises(WaitError) as caught:
        model.next(timeout=0.12)
    assert time.monotonic() - begin >= 0.12
    assert isinstance(caught.value, RunError) and isinstance(caught.value, TimeoutError)
    assert (caught.value.code, caught.value.line) == ("E0919", 13)
    first, runner, last = caught.value.message.splitlines()
    assert (
        first.startswith("`next` waits for an element in the queue `b` at <text>:13:11: 0.") and "s are over" in first
    )
    assert runner == "  the runner `go`, in iteration 0, waits for an element in the queue `a` at <text>:8:21"
    assert "what it took from queues, or put into them, stays so" in last
    assert model.state["n"] == 0
    model.give(5)
    assert model.next() == 5 and model.state["n"] == 6


def test_who_waits_for_a_mutex_for_too_long_is_told_where_the_holder_is() -> None:
    model = loaded(PROGRAM)
    holder = model.inside.start()
    eventually(lambda: [each.queue for each in model._machinery.driver.queues.calls() if each is not None] == ["b"])
    with pytest.raises(WaitError) as caught:
        model.count(timeout=0)
    first, holds, other, *_ = caught.value.message.splitlines()
    assert first.startswith("`count` waits for the mutex `guard` at <text>:")
    assert holds == "  `inside` holds it, acquired at <text>:23:3"
    assert other == "  `inside` waits for an element in the queue `b` at <text>:24:11"
    model.give(2)
    assert holder.result(60) is None


def test_the_holder_of_a_mutex_is_named_while_it_waits_for_nothing() -> None:
    reached, released = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        reached.set()
        assert released.wait(60)

    model = loaded(PROGRAM, debug_print=hold)
    holder = model.print.start()
    assert reached.wait(60)
    with pytest.raises(WaitError, match=r"for the mutex `guard`.*\n  `print` holds it, acquired at <text>:34:3\n"):
        model.count(timeout=0)
    released.set()
    assert holder.result(60) is None
    model.count(timeout=0)
    queue = model._machinery.driver.queues.queue("guard")
    assert queue.acquired is None, "nobody holds it any more"


@pytest.mark.parametrize("timeout", [0, 0.03])
def test_a_put_that_waits_for_too_long_puts_nothing(timeout: float) -> None:
    model = loaded(
        "queue q: i64 = fifo(capacity = 2)\nentry give(k: i64) { q.put(k) }\nentry next() -> i64 { return q.take() }\n"
    )
    for k in range(2):
        model.give(k, timeout=timeout)  # there is room
    with pytest.raises(WaitError, match="`give` waits for room in the queue `q`"):
        model.give(9, timeout=timeout)
    assert numbers_of(model, "q")[:2] == (2, 0)
    assert [model.next(timeout=timeout) for _ in range(2)] == [0, 1]


def test_what_comes_in_time_is_taken() -> None:
    model = loaded(PROGRAM)
    call = model.next.start(timeout=60)
    queues = model._machinery.driver.queues
    eventually(lambda: any(each is not None for each in queues.calls()))
    model.give(3)
    assert call.result(60) == 3


def test_a_started_call_has_a_limit_of_its_own() -> None:
    model = loaded(PROGRAM)
    limited = model.next.start(timeout=0.3)
    eventually(lambda: any(each is not None for each in model._machinery.driver.queues.calls()))
    free = model.other.start()
    assert isinstance(limited.exception(60), WaitError)
    later = model.next.start()  # perhaps in the same thread: it is not limited by what was said before
    for call in (free, later):
        with pytest.raises(TimeoutError):
            call.result(timeout=0.1)
        assert call.running()
    model.give_other(3)
    assert free.result(60) == 3
    model.give(4)
    assert later.result(60) == 4


def test_what_a_call_took_before_it_waited_for_too_long_stays_taken() -> None:
    model = loaded(PROGRAM)
    model.give(1)
    eventually(lambda: numbers_of(model, "b")[0] == 1)
    with pytest.raises(WaitError):
        model.two(timeout=0.01)
    assert numbers_of(model, "b")[:2] == (1, 1)


def test_what_has_come_when_the_time_is_over_is_taken() -> None:
    model = loaded(
        "queue q: i64 = fifo(capacity = 2)\nentry give(k: i64) { q.put(k) }\nentry next() -> i64 { return q.take() }\n"
    )
    queues = model._machinery.driver.queues
    context = Context(waiting=1, needed=1, wake_seconds=1)  # of a call that waits for an element of the first queue
    model.give(1)
    with queues.limited(0):
        queues.look(context)
        assert context.wake_seconds > 1
        model.next()
        with pytest.raises(WaitError, match="waits for an element in the queue `q`"):
            queues.look(context)


def test_a_mutex_is_waited_for_so_long_and_no_longer() -> None:
    model = loaded(PROGRAM)
    holds = model.inside.start()
    eventually(lambda: any(each is not None and each.queue == "b" for each in model._machinery.driver.queues.calls()))
    with pytest.raises(WaitError, match="`count` waits for the mutex `guard` at <text>:29:3"):
        model.count(timeout=0.02)
    model.give(7)
    holds.result(60)
    model.count(timeout=60)
    assert model.state["n"] == 8


def test_a_call_with_a_limit_is_no_deadlock() -> None:
    """It goes on by itself; and so may others, which its thread can help then."""
    model = loaded(
        "queue q: i64 = fifo(capacity = 2)\nentry give(k: i64) { q.put(k) }\nentry next() -> i64 { return q.take() }\n"
    )

    def work() -> None:
        other = model.next.start()
        with pytest.raises(WaitError):
            model.next(timeout=0.5)  # several times as long as it takes to find a deadlock
        assert not other.done()
        model.give(1)
        assert other.result() == 1

    assert in_child(work) == 0


def test_the_option_is_a_number_of_seconds_of_entries_that_may_wait() -> None:
    model = loaded(PROGRAM)
    for wrong in (-1, float("nan"), float("inf"), "1", True):
        with pytest.raises(FeedError, match="is no number of seconds from 0 to 1,000,000,000"):
            model.next(timeout=wrong)
    for right in (np.float32(0.01), np.int64(0)):
        with pytest.raises(WaitError):
            model.next(timeout=right)
    with pytest.raises(FeedError, match="timeout"):
        model.look(timeout=1)
    assert model.add(timeout=6) == 6  # a feed of this name
