"""Calls that are started: in which order, what their futures give, and what ends them."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from concurrent.futures import CancelledError, Future, wait
from pathlib import Path

import pytest

from dfc_runtime.calls.started import starting, workers
from dfc_runtime.errors import FeedError, LimitError, RunError
from dfc_runtime.module import Module
from tests.support.forked import in_child
from tests.support.pipelines import compiled, eventually, loaded

PROGRAM = """
var n: i64 = 0
queue numbers: i64 = fifo(capacity = 4)
entry add() -> i64 {
  n += 1
  return n
}
entry add_many(k: i64) -> i64 {
  n += k
  return n
}
readonly entry look() -> i64 { return n }
entry check(k: i64) {
  n += k
  assert k < 10, "too much"
}
entry give(k: i64) { numbers.put(k) }
entry next() -> i64 { return numbers.take() }
entry add_next() -> i64 {
  let k = numbers.take()
  n += k
  return n
}
entry spin() {
  let k = loop k: i64 = 0 while k >= 0 { k = k + 1 }
  n := k
}
"""
ASKING = """
var n: i64 = 0
entry ask() -> i64 with concurrent = true {
  let k: i64 = graph.recv(key = "t", source = "b:0", type_ = i64)
  return k
}
entry add() { n += 1 }
"""


def results(futures: list[Future[object]]) -> list[object]:
    return [future.result(60) for future in futures]


# ---------------------------------------------------------------------- order --


def test_calls_that_share_state_are_made_in_the_order_in_which_they_are_started() -> None:
    model = loaded(PROGRAM)
    found: list[Future[object]] = []
    for _ in range(30):
        found += [model.add.start(), model.look.start(), model.look.start()]
    assert results(found) == [k for k in range(1, 31) for _ in range(3)]


def test_takes_get_their_elements_in_the_order_in_which_they_are_started() -> None:
    model = loaded(PROGRAM)
    takes = [model.next.start() for _ in range(8)]
    puts = [model.entries["give"].start(k) for k in range(8)]
    assert results(takes) == list(range(8)) and results(puts) == [None] * 8


def test_independent_calls_run_at_the_same_time() -> None:
    together = threading.Barrier(2)  # neither ends before the other one is there, too

    def answer(request: object) -> None:
        together.wait(60)
        request.outputs[0][...] = 5

    model = loaded(ASKING, recv=answer)
    assert results([model.ask.start() for _ in range(2)]) == [5, 5]


def test_as_many_calls_compute_at_a_time_as_there_are_processors_and_none_that_waits_is_counted() -> None:
    entered, release = [], threading.Event()

    def answer(request: object) -> None:
        entered.append(1)
        release.wait(60)
        request.outputs[0][...] = 5

    model = loaded(ASKING + "queue q: i64 = fifo(capacity = 9)\nentry give() { q.put(1) }\n", recv=answer)
    most = max(2, len(os.sched_getaffinity(0)))
    calls = [model.ask.start() for _ in range(most + 3)]
    eventually(lambda: len(entered) == most)
    assert model.give.start().result(60) is None
    assert sum(call.running() for call in calls) == most == len(entered)
    release.set()
    assert results(calls) == [5] * (most + 3)


def test_threads_are_used_again_and_few_are_kept() -> None:
    model = loaded(PROGRAM + "entry any() -> i64 with concurrent = true { return numbers.take() }\n")
    calls = [model.any.start() for _ in range(2 * workers._MOST_IDLE)]
    for k in range(len(calls)):
        model.give(k)
    assert sorted(results(calls)) == list(range(len(calls)))
    names = [f"call of `{name}`" for name in ("any", "add")]
    eventually(lambda: not any(thread.name in names for thread in threading.enumerate()))
    assert len(workers._idle) == workers._MOST_IDLE
    before = {thread.ident for thread in threading.enumerate()}
    results([model.add.start() for _ in range(5)])
    assert {thread.ident for thread in threading.enumerate()} <= before


# --------------------------------------------------------- what futures give --


def test_a_call_that_fails_says_so_with_its_line_to_who_waits_and_later_ones_are_made() -> None:
    model = loaded(PROGRAM)
    fails, goes_on, wrong = model.check.start(10), model.add.start(), model.add_many.start("three")
    with pytest.raises(RunError, match="too much") as caught:
        fails.result(60)
    assert caught.value.line == 16
    assert goes_on.result(60) == 11
    assert isinstance(wrong.exception(60), FeedError) and goes_on.exception(60) is None


def test_the_error_of_a_call_does_not_hold_what_the_call_held() -> None:
    model, before = loaded(PROGRAM), threading.enumerate()
    gc.disable()
    try:
        call = model.check.start(10)
        problem = call.exception(60)
        future = weakref.ref(call)
        del call
        name = "call of `check`"
        eventually(lambda: not [each for each in threading.enumerate() if each.name == name and each not in before])
        assert isinstance(problem, RunError) and future() is None
    finally:
        gc.enable()


def test_waiting_for_a_while_leaves_the_call_as_it_is() -> None:
    model = loaded(PROGRAM)
    call = model.next.start()
    for wait_for in (call.result, call.exception):
        with pytest.raises(TimeoutError):
            wait_for(timeout=0.01)
    assert call.running()
    model.give(3)
    assert call.result(60) == 3


def test_a_call_that_has_not_begun_can_be_cancelled() -> None:
    model = loaded(PROGRAM)
    first, second, third = (model.add_next.start(), model.add_many.start(100), model.add_many.start(1000))
    eventually(first.running)
    assert second.cancel() and not first.cancel()
    model.give(7)
    assert (first.result(60), third.result(60)) == (7, 1007)
    with pytest.raises(CancelledError):
        second.result()
    assert wait([second], 60).not_done == set()


def test_a_coroutine_awaits_calls() -> None:
    model = loaded(PROGRAM)

    async def work() -> list[object]:
        taken = asyncio.wrap_future(model.next.start())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(taken), 0.01)
        await asyncio.wrap_future(model.give.start(4))
        return await asyncio.gather(taken, *(asyncio.wrap_future(model.add_many.start(k)) for k in (1, 2)))

    assert asyncio.run(work()) == [4, 1, 3]


def test_what_is_called_at_the_end_of_a_call_may_wait_for_a_later_one() -> None:
    model = loaded(PROGRAM)
    first, second = model.add_next.start(), model.add.start()
    seen: list[object] = []
    first.add_done_callback(lambda _: seen.append(second.result(60)))
    model.give(1)
    eventually(lambda: bool(seen))
    first.add_done_callback(lambda future: seen.append(future.result()))  # at once, as it has ended
    assert seen == [2, 1]


def test_a_call_without_a_thread_is_an_error_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    model = loaded(PROGRAM)
    model.look()
    monkeypatch.setattr(workers, "_idle", [])
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", _no_thread)
        calls = [model.add.start() for _ in range(3)]
        assert [str(call.exception(60)) for call in calls] == [
            "[E0905] there is no thread for the call of `add`: can't start new thread"
        ] * 3
        assert isinstance(calls[0].exception(), LimitError)
    assert model.add.start().result(60) == 1


def _no_thread(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


# ------------------------------------------------------------ who waits, ends --


def test_closing_cancels_calls_that_have_not_begun_and_ends_those_that_wait() -> None:
    model = loaded(PROGRAM)
    waits, later = model.add_next.start(), model.add.start()
    queues = model._machinery.driver.queues
    eventually(lambda: any(each is not None for each in queues.calls()))
    model.close()
    assert later.cancelled() and model.state["n"] == 0
    with pytest.raises(RunError, match="the queue `numbers` is stopped: the program was closed"):
        waits.result(60)
    with pytest.raises(RunError, match="`add` cannot run: the module was closed"):
        model.add.start().result(60)


def test_nobody_waits_in_a_handler_for_the_program_that_waits_for_it() -> None:
    found: list[object] = []
    models: list[Module] = []

    def answer(request: object) -> None:
        call = models[0].add.start()
        try:
            call.result()
        except RunError as problem:
            found.append(problem.message)
        found.append(call)
        request.outputs[0][...] = 1

    models.append(loaded(ASKING, recv=answer))
    assert models[0].ask() == 1
    message, call = found
    assert "a handler may not come back to the program that waits for it" in str(message)
    assert isinstance(call, Future) and call.result(60) is None and models[0].state["n"] == 1


def test_a_thread_that_only_waits_for_a_call_is_no_help_to_it() -> None:
    model = loaded(PROGRAM)

    def work() -> None:
        call = model.next.start()
        with pytest.raises(TimeoutError):
            call.result(0.4)  # several times as long as it takes to find a deadlock: this thread comes back
        with pytest.raises(RunError, match="`give` could help, but there is no other thread to call it"):
            call.result()
        calls = [model.next.start(), model.give.start(2)]
        assert results(calls) == [2, None]

    assert in_child(work) == 0


def test_an_interrupted_wait_leaves_the_call_as_it_is() -> None:
    model = loaded(PROGRAM)

    def work() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        call = model.next.start()
        waiting = model._machinery.runners.waiting_threads

        left = threading.Event()

        def interrupt() -> None:
            eventually(lambda: bool(waiting))
            os.kill(os.getpid(), signal.SIGINT)
            left.wait(60)  # without another thread to help, a call that waits for ever is an error

        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            call.result()
        model.give(6)
        left.set()
        assert call.result() == 6

    assert in_child(work) == 0


def test_a_forked_child_does_not_wait_for_calls_of_its_parent() -> None:
    model = loaded(PROGRAM)
    assert model.add.start().result(60) == 1
    waits = model.add_next.start()
    behind = model.add.start()
    other = loaded(ASKING, recv=lambda _: None)
    queues = model._machinery.driver.queues
    eventually(lambda: any(each is not None for each in queues.calls()))

    def work() -> None:
        for call in (waits, behind):
            with pytest.raises(RunError, match="was started in the parent process, and goes on there alone"):
                call.result()
        with pytest.raises(RunError, match="forked while a call of the program ran"):
            model.add.start().result()
        assert other.add.start().result() is None

    assert in_child(work) == 0
    model.give(1)
    assert (waits.result(60), behind.result(60)) == (2, 3)


def test_a_call_that_forks_ends_in_the_child_too() -> None:
    model = loaded(PROGRAM)
    call = model.next.start()
    eventually(call.running)
    model._machinery.started.forget_threads()  # as in the child: it goes on there, in the thread that forked
    model.give(2)
    assert call.result(60) == 2 and model.add.start().result(60) == 1


def test_the_end_of_the_process_stops_what_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "_PATIENCE", 0.05)
    monkeypatch.setattr(starting, "_programs", weakref.WeakSet())
    model = loaded(PROGRAM)
    endless, behind = model.spin.start(), model.add.start()
    eventually(endless.running)
    monkeypatch.setattr(starting, "_PATIENCE", 0.5)
    starting._at_exit()
    assert isinstance(endless.exception(60), KeyboardInterrupt)
    assert behind.cancelled() and model.add() == 1  # state is as before the call


def test_a_started_call_does_not_keep_the_process(tmp_path: Path) -> None:
    (tmp_path / "p.bundle").write_bytes(compiled(PROGRAM))
    text = """
import dfc_runtime
from dfc_runtime.calls.started import starting
starting._PATIENCE = 0.2
model = dfc_runtime.load("p.bundle")
model.spin.start(), model.next.start(), model.add.start()
print(model.look.start().cancel(), flush=True)
"""
    done = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_nothing_keeps_a_program_that_nobody_holds() -> None:
    model = loaded(PROGRAM)
    driver = weakref.ref(model._machinery.driver)
    start = model.add.start
    del model
    assert start().result(60) == 1
    eventually(lambda: not [each for each in threading.enumerate() if each.name == "call of `add`"])
    del start
    gc.collect()
    assert driver() is None
