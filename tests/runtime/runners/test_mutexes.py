"""Critical sections of entries and runners that run at the same time."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import dfc
from tests.support.pipelines import eventually, loaded

COUNTING = """
var n: i64 = 0
var guard: mutex = mutex()
queue seen: i64 = fifo(capacity = 4)
entry add(times: i64) with concurrent = true {
  for i in 0..times {
    guard.acquire()
    let old = n
    let x = loop x: i64 = old for j in 0..200 { x = (x * 5 + j) % 1009 }
    n := old + (if x >= 0 then 1 else 2)
    guard.release()
  }
}
entry add_all(x: i64[4]) with concurrent = true {
  guard.acquire()
  for i in 0..4 {
    assert x[i] >= 0, "no number"
    n += x[i]
  }
  guard.release()
}
runner count with copies = 3 {
  guard.acquire()
  let old = n
  n := old + 1
  guard.release()
  seen.put(old)
}
entry next() -> i64 with concurrent = true { return seen.take() }
entry total() -> i64 with concurrent = true {
  n += 0
  return n
}
"""


def test_read_and_write_are_one_under_a_mutex() -> None:
    """Four calls at a time, and three copies of a runner: no count is lost, and no number is seen twice."""
    model = loaded(COUNTING)
    threads = [threading.Thread(target=model.add, args=(1000,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    numbers = [int(model.next()) for _ in range(300)]
    for thread in threads:
        thread.join()
    assert numbers == sorted(set(numbers))
    queues = model._machinery.driver.queues
    iterations = 304 + 3  # three more wait to put, once each copy has come so far
    eventually(lambda: counts(model) == [4000 + iterations] * 2)
    assert queues.queue("seen").numbers[:2] == (304, 300)
    assert model.total() == 4000 + iterations
    model.close()


def counts(model: dfc.Module) -> list[int]:
    """How often it was acquired, and given back, so far."""
    queue = model._machinery.driver.queues.queue("guard")
    return [*queue.numbers[:2]]


def test_a_call_that_fails_gives_its_mutex_back() -> None:
    model = loaded(COUNTING)
    with pytest.raises(dfc.RunError, match="no number"):
        model.add_all(np.array([1, 2, -1, 5]))
    model.add_all(np.array([1, 2, 3, 4]))
    assert counts(model) == [2, 2]


def test_who_waits_for_a_mutex_is_told_when_the_program_closes() -> None:
    """The holder waits for an element inside its critical section, which nobody may get."""
    model = loaded("""
var guard: mutex = mutex()
queue jobs: i64 = fifo(capacity = 1)
entry put(k: i64) with concurrent = true { jobs.put(k) }
entry hold() -> i64 with concurrent = true {
  guard.acquire()
  let k = jobs.take()
  guard.release()
  return k
}
""")
    problems: list[BaseException] = []

    def call() -> None:
        try:
            model.hold()
        except dfc.RunError as problem:
            problems.append(problem)

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    queues = model._machinery.driver.queues
    eventually(lambda: sorted(each.queue for each in queues.calls() if each is not None) == ["guard", "jobs"])
    model.close()
    for thread in threads:
        thread.join()
    assert [getattr(each, "code", "") for each in problems] == ["E0919", "E0919"]


def test_two_who_hold_what_the_other_wants_are_reported() -> None:
    """Only one thread calls, and the runner holds what it waits for."""
    model = loaded("""
var one: mutex = mutex()
var two: mutex = mutex()
queue started: i64 = fifo(capacity = 2)
queue steps: i64 = fifo(capacity = 2)
runner work {
  one.acquire()
  started.put(1)
  let k = steps.take()
  two.acquire()
  two.release()
  one.release()
}
entry clash() {
  two.acquire()
  let k = started.take()
  steps.put(1)
  one.acquire()
  one.release()
  two.release()
}
""")
    with pytest.raises(dfc.RunError, match="waits for the mutex `one`") as caught:
        model.clash()
    assert caught.value.code == "E0919"
    assert "waits for the mutex `two`" in str(caught.value)
    model.close()
