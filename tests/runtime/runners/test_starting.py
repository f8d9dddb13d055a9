"""`init` ends the runners and empties the queues: the program is as it was when it was loaded."""

from __future__ import annotations

import threading

import pytest

from dfc_runtime.errors import RunError
from tests.support.pipelines import COUNT, drained, eventually, loaded, runner_threads

COUNTED = (
    f"queue numbers: i64 = fifo(capacity = 4)\n{COUNT.format(last=9)}entry next() -> i64 {{ return numbers.take() }}\n"
)
FED = """
queue numbers: i64 = shuffle_queue(capacity = 8, ready = 2)
var total: i64 = 0
entry give(k: i64) { numbers.put(k) }
entry next() -> i64 { return numbers.take() }
entry finish() { numbers.close() }
"""


def test_the_stream_begins_again_also_in_its_midst() -> None:
    model = loaded(COUNTED)
    assert [model.next() for _ in range(3)] == [0, 1, 2]
    model.init()
    assert runner_threads(model) == []
    assert drained(model.next) == list(range(9))
    model.init()
    assert drained(model.next) == list(range(9))


def test_elements_are_gone_a_closed_queue_is_open_and_draws_repeat() -> None:
    model = loaded(FED)

    def some() -> list[object]:
        for k in range(5):
            model.give(k)
        return [model.next() for _ in range(3)]

    first = some()
    model.finish()
    with pytest.raises(RunError):
        model.give(7)
    model.init()
    assert some() == first


def test_a_call_that_waits_is_told_so() -> None:
    model = loaded(FED)
    errors: list[str] = []

    def wait() -> None:
        with pytest.raises(RunError) as caught:
            model.next()
        errors.append(str(caught.value))

    model.give(1)
    waiting = threading.Thread(target=wait)
    waiting.start()
    eventually(lambda: any(each is not None for each in model._machinery.driver.queues.calls()))
    model.init()
    waiting.join()
    assert "is stopped" in errors[0]
