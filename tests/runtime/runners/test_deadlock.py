"""Calls that wait for what can never come are ended with who waits for what; others are not."""

from __future__ import annotations

import threading

import pytest

from dfc_runtime.errors import RunError
from tests.support.forked import in_child
from tests.support.pipelines import eventually, loaded

PAIR = """
queue a: i64 = fifo(capacity = 2)
queue b: i64 = fifo(capacity = 2)
var calls: i64 = 0
entry give(k: i64){concurrent} {{ a.put(k)
  calls += 1 }}
runner go {{ let k = a.take()
  b.put(k) }}
entry next() -> i64{concurrent} {{ let k = b.take()
  calls += 1
  return k }}
"""


def test_a_call_that_keeps_out_who_could_help_is_ended() -> None:
    model = loaded(PAIR.format(concurrent=""))
    with pytest.raises(RunError) as caught:
        model.next()
    assert (caught.value.code, caught.value.line) == ("E0919", 10)
    assert caught.value.message.splitlines() == [
        "`next` waits for an element in the queue `b` at <text>:10:31, for ever: nobody can go on",
        "  the runner `go`, in iteration 0, waits for an element in the queue `a` at <text>:8:21",
        "  `give` could help, but it is not let in while this call runs: both use `calls`, so declare both entries "
        "`with concurrent = true`",
    ]
    model.give(5)  # the program goes on as if the call had not been made
    assert model.next() == 5


def test_a_full_pipeline_ends_the_put_that_fills_it() -> None:
    model = loaded(PAIR.format(concurrent=""))
    for k in range(5):  # two in each queue, one in the hands of the runner
        model.give(k)
    with pytest.raises(RunError, match="`give` waits for room in the queue `a` at <text>:6:22, for ever") as caught:
        model.give(5)
    assert "  the runner `go`, in iteration 2, waits for room in the queue `b` at <text>:9:3" in caught.value.message
    assert [model.next() for _ in range(5)] == list(range(5))


def test_a_call_that_another_thread_can_help_waits() -> None:
    model = loaded(PAIR.format(concurrent=" with concurrent = true"))
    values: list[int] = []
    waiting = threading.Thread(target=lambda: values.append(int(model.next())))
    waiting.start()
    waiting.join(0.35)  # several times as long as it takes to find a deadlock
    assert waiting.is_alive()
    model.give(8)
    waiting.join()
    assert values == [8]


def test_the_only_thread_does_not_wait_for_another_one() -> None:
    """Entries that use queues alone are let in beside each other, but nobody is there to call one."""
    model = loaded("""
queue a: i64 = fifo(capacity = 2)
entry give(k: i64) { a.put(k) }
entry next() -> i64 { return a.take() }
""")

    def work() -> None:
        message = "`give` could help, but there is no other thread to call it"
        with pytest.raises(RunError, match=message):
            model.next()

    assert in_child(work) == 0


def test_a_queue_needs_no_other_gate_than_its_own() -> None:
    """A call that waits keeps nobody from calls that use queues alone, from state, or from those that may help it."""
    model = loaded("""
queue a: i64 = fifo(capacity = 2)
var sum: i64 = 0
entry give(k: i64) { a.put(k) }
entry add() -> i64 { let k = a.take()
  sum += k
  return sum }
""")
    values: list[int] = []
    waiting = threading.Thread(target=lambda: values.append(int(model.add())))
    waiting.start()
    queues = model._machinery.driver.queues
    eventually(lambda: any(each is not None for each in queues.calls()))
    model.give(3)
    waiting.join()
    for k in (1, 2):
        model.give(k)
    blocked = threading.Thread(target=model.give, args=(4,))
    blocked.start()
    eventually(lambda: any(each is not None for each in queues.calls()))
    assert model.state["sum"] == 3
    assert [model.add() for _ in range(3)] == [4, 6, 10]
    blocked.join()
    assert values == [3]


def test_runners_in_a_ring_that_is_empty_are_a_deadlock() -> None:
    text = """
queue a: i64 = fifo(capacity = 2)
queue b: i64 = fifo(capacity = 2)
queue out: i64 = fifo(capacity = 2)
runner there with copies = 3 { let k = a.take()
  b.put(k) }
runner back { let k = b.take()
  a.put(k)
  out.put(k) }
var calls: i64 = 0
entry start(k: i64) { a.put(k)
  calls += 1 }
entry next() -> i64 { let k = out.take()
  calls += 1
  return k }
"""
    model = loaded(text)
    with pytest.raises(RunError, match="`next` waits for an element in the queue `out`") as caught:
        model.next()
    message = caught.value.message
    assert "the runner `back`, in iteration 0, waits for an element in the queue `b`" in message
    assert "the runner `there`, in iteration 0, waits for an element in the queue `a`" in message
    assert message.count("`there`") == 1  # the other copies wait for their turn
    model.start(7)
    assert [model.next() for _ in range(3)] == [7, 7, 7]


def test_a_slow_runner_is_not_taken_for_a_blocked_one() -> None:
    text = """
queue b: i64 = fifo(capacity = 2)
runner slow { let k: i64 = graph.recv(key = "t", source = "b:0", type_ = i64)
  b.put(k) }
entry next() -> i64 { return b.take() }
"""
    release = threading.Event()

    def answer(request: object) -> None:
        release.wait()
        request.outputs[0][...] = 4

    model = loaded(text, recv=answer)
    values: list[int] = []
    waiting = threading.Thread(target=lambda: values.append(int(model.next())))
    waiting.start()
    queues = model._machinery.driver.queues
    eventually(lambda: any(each is not None for each in queues.calls()))
    waiting.join(0.35)
    assert waiting.is_alive()
    release.set()
    waiting.join()
    assert values == [4]
