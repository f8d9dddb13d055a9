"""Runners end with their module, with the process, and are not there in a forked child; calls that wait are stopped."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading

import pytest

from dfc_runtime.errors import RunError
from tests.support.forked import in_child
from tests.support.pipelines import compiled, eventually, loaded, numbers_of, runner_threads

SIMPLE = """
var n: i64 = 0
queue numbers: i64 = fifo(capacity = 4)
queue alone: i64 = fifo(capacity = 1)
var calls: i64 = 0
runner count with copies = 3 { n += 1
  numbers.put(n) }
entry next() -> i64 with concurrent = true { return numbers.take() }
entry wait() -> i64 with concurrent = true { return alone.take() }
entry give(k: i64) with concurrent = true { alone.put(k) }
"""


def test_closing_ends_runners_and_calls_that_wait() -> None:
    model = loaded(SIMPLE)
    assert model.next() == 1
    errors: list[str] = []

    def wait() -> None:
        with pytest.raises(RunError) as caught:
            model.wait()
        errors.append(str(caught.value))

    waiting = threading.Thread(target=wait)
    waiting.start()
    queues = model._machinery.driver.queues
    eventually(lambda: any(each is not None for each in queues.calls()))
    model.close()
    waiting.join()
    assert "[E0919] the queue `alone` is stopped: the program was closed, or started over, at <text>:10:" in errors[0]
    assert runner_threads(model) == []
    with pytest.raises(RunError, match="`next` cannot run: the module was closed"):
        model.next()
    assert model.state["n"] >= 1  # what they have written can still be read
    model.close()


def test_closing_leaves_an_iteration_that_does_not_end_in_its_midst(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dfc_runtime.runners.crew._PATIENCE", 0.05)
    text = """
queue numbers: i64 = fifo(capacity = 4)
queue passed: i64 = fifo(capacity = 4)
entry give(k: i64) { numbers.put(k) }
runner spin { let k = numbers.take()
  let x = loop x: i64 = k while x >= 0 { x = x * 3 % 1000 }
  passed.put(x) }
entry next() -> i64 { return passed.take() }
"""
    model = loaded(text)
    model.give(1)
    eventually(lambda: numbers_of(model, "numbers")[1] == 1)
    model.close()
    assert runner_threads(model) == []


def test_a_handler_that_does_not_end_is_named_and_its_code_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dfc_runtime.runners.crew._PATIENCE", 0.01)
    monkeypatch.setattr("dfc_runtime.runners.crew.JOIN_SECONDS", 0.05)
    text = """
queue numbers: i64 = fifo(capacity = 4)
runner stuck { let k: i64 = graph.recv(key = "t", source = "b:0", type_ = i64)
  numbers.put(k) }
entry size() -> i64 { return numbers.size() }
"""
    entered, release = threading.Event(), threading.Event()

    def answer(_: object) -> None:
        entered.set()
        release.wait()

    model = loaded(text, recv=answer)
    model.size()
    entered.wait()
    with pytest.raises(RunError, match="the runner `stuck` does not end: it is still in iteration 0"):
        model.close()
    release.set()
    eventually(lambda: not runner_threads(model))  # it comes back into code that is still there


def test_runners_end_when_nobody_holds_their_module() -> None:
    model = loaded(SIMPLE)
    following, running = model.next, model._machinery.runners._crew.running
    assert following() == 1
    (runner,) = running.values()
    del model
    gc.collect()
    assert following() == 2  # an entry holds its module
    assert all(thread.is_alive() for thread in runner.threads)
    del following
    gc.collect()
    eventually(lambda: not any(thread.is_alive() for thread in runner.threads))


def test_a_forked_child_has_no_runners_and_says_so() -> None:
    model = loaded(SIMPLE)
    assert model.next() == 1

    def work() -> None:
        with pytest.raises(RunError, match="`next` needs the runner `count`, which is in the parent process"):
            model.next()
        model.close()
        own = loaded(SIMPLE)
        assert own.next() == 1
        own.close()

    assert in_child(work) == 0
    assert model.next() == 2


def test_a_program_whose_runners_have_not_started_starts_them_in_the_child() -> None:
    model = loaded(SIMPLE)
    assert in_child(lambda: [model.next(), model.close()]) == 0
    assert model.next() == 1


PROCESS = """
import sys, threading
import dfc_runtime
model = dfc_runtime.loads(sys.stdin.buffer.read())
assert model.next() == 1
assert threading.active_count() > 3
{end}
"""


@pytest.mark.parametrize("end", ["", "raise SystemError"])
def test_the_interpreter_ends_while_runners_run(end: str) -> None:
    command = [sys.executable, "-X", "faulthandler", "-c", PROCESS.format(end=end)]
    done = subprocess.run(command, input=compiled(SIMPLE), capture_output=True, timeout=60)
    assert done.returncode == (1 if end else 0), done.stderr


def test_a_signal_stops_a_call_that_waits() -> None:
    model = loaded(SIMPLE)

    def work() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)
        queues = model._machinery.driver.queues
        threading.Thread(target=strike, args=(queues,), daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            model.wait()
        model.give(6)
        assert model.wait() == 6

    def strike(queues: object) -> None:
        eventually(lambda: any(each is not None for each in queues.calls()))
        os.kill(os.getpid(), signal.SIGINT)

    assert in_child(work) == 0


def test_what_a_stopped_call_had_written_before_it_waited_is_put_back() -> None:
    text = """
var n: i64 = 5
queue jobs: i64 = fifo(capacity = 1)
entry wait() -> i64 { n += 1
  let k = jobs.take()
  n += k
  return n }
entry fill(k: i64) { jobs.put(k) }
"""
    model = loaded(text)
    with pytest.raises(RunError, match="`wait` waits for an element in the queue `jobs`"):
        model.wait()
    assert model.state["n"] == 5
    model.fill(10)
    assert model.wait() == 16


def test_python_reads_and_writes_state_between_iterations() -> None:
    """A runner changes a variable of which all elements are equal; nobody sees a half of it."""
    text = """
var v: f64[20_000] = 0
queue ticks: i64 = fifo(capacity = 2)
runner grow { v += 1.0
  ticks.put(1) }
entry next() -> f64 { let k = ticks.take()
  return v[0] }
"""
    model = loaded(text)
    for _ in range(50):
        model.next()
        seen = model.state["v"]
        assert (seen == seen[0]).all()
    model.state["v"] = seen * 0 - 1000
    model.next()
    assert -1000 <= model.state["v"][0] < 0
