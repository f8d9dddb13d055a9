"""Signals while native code runs: the call stops soon, and state is as it was before.

Each test is a forked child with one thread that is the main one, ended by an alarm if nothing stops the call."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

import dfc
from dfc_driver_cpu import watching
from dfc_runtime import Module
from dfc_runtime.calls import interrupting
from dfc_runtime.errors import RunError
from tests.gate import interruptions
from tests.support.forked import in_child

PROGRAM = """
dfg 1
var n: i64 = 0
var v: f64[3000] = 0
var table: f32[1000, 100] = 0
var dice: rng = philox(7)
var shared: i64 = 0 with container = "interrupted"

entry spins() {
  let k = loop k: i64 = 0 while k >= 0 { k = k + 1 }
  n := k
}
entry writes() {
  let k = loop k: i64 = 0 while k >= 0 {
    n += 1
    v += 1
    k = k + 1
  }
}
entry writes_before(x: f64[3000]) {
  n += 1
  v += x
  let k = loop k: i64 = 0 while k >= 0 { k = k + 1 }
  n := k
}
entry draws() -> f64 {
  let u = dice.uniform(f64)
  let k = loop k: i64 = 0 while k >= 0 { k = k + 1 }
  return u + k as f64
}
entry draw() -> f64 { return dice.uniform(f64) }
entry counts(to: i64) {
  n += 1
  let k = loop k: i64 = 0 for i in 0..to { k = k + i % 3 }
  n += k - k
}
entry rows(at: i64) {
  n += 1
  let k = loop k: i64 = 0 while k >= 0 {
    table[at] += 1
    k = k + 1
  }
}
entry records(x: f64) {
  let k = loop k: i64 = 0 while k >= 0 {
    n += 1
    summary.scalar("k", x)
    k = k + 1
  }
}
entry asserts() {
  n += 1
  assert n < 0, "never"
}
entry waits() with concurrent = true {
  let k = loop k: i64 = 0 while k >= 0 {
    shared += 1
    k = k + 1
  }
}
readonly entry looks(x: f32[200, 200]) -> f32 {
  let y = loop y = x while y[0, 0] < 3 { y = y @ x }
  return sum(y)
}
readonly entry sees() -> (n: i64, v: f64) { return n, sum(v) }
entry goes_on(x: f64) -> f64 {
  v += x
  n += 1
  return sum(v)
}
"""


SOON = 0.08
"""Seconds after which calls are interrupted that would never end."""


@cache
def bundle() -> bytes:
    return dfc.compile(text=PROGRAM).to_bytes()


def interrupt_in(seconds: float, number: int = signal.SIGINT) -> None:
    threading.Timer(seconds, os.kill, (os.getpid(), number)).start()


def state_of(module: Module) -> dict[str, list[object]]:
    return {name: np.asarray(module.state[name]).tolist() for name in module.state}


def in_main_thread(work: Callable[[Module], object]) -> None:
    """Does it in a child with a loaded program, of which long calls ask more often than others whether they may go on:
    until they do, they compute."""
    data = bundle()

    def guarded() -> None:
        watching.PERIOD = SOON / 4
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.alarm(100)
        work(dfc.loads(data, summaries=lambda _: None))

    assert in_child(guarded) == 0


CALLS: dict[str, Callable[[Module], object]] = {
    "a loop of scalars": lambda module: module.spins(),
    "a loop that writes": lambda module: module.writes(),
    "a loop behind writes": lambda module: module.writes_before(np.ones(3000)),
    "a loop behind a draw": lambda module: module.draws(),
    "a loop with a number of rounds": lambda module: module.counts(2**60),
    "a loop of kernels": lambda module: module.looks(np.zeros((200, 200), np.float32)),
    "a loop that asks the host": lambda module: module.records(1.0),
}


@pytest.mark.parametrize("call", CALLS)
def test_an_interrupted_call_leaves_state_as_before(call: str) -> None:
    def work(module: Module) -> None:
        module.goes_on(0.25)
        before = state_of(module)
        interrupt_in(SOON)
        with pytest.raises(KeyboardInterrupt) as told:
            CALLS[call](module)
        assert not any("may keep" in note for note in getattr(told.value, "__notes__", []))
        assert state_of(module) == before
        assert module.goes_on(0.25) == 2 * 3000 * 0.25
        interrupt_in(SOON)
        with pytest.raises(KeyboardInterrupt):  # and again
            CALLS[call](module)
        assert state_of(module) == {**before, "v": [0.5] * 3000, "n": 2}

    in_main_thread(work)


def test_draws_go_on_as_if_the_call_had_not_been() -> None:
    def work(module: Module) -> None:
        other = dfc.loads(bundle(), summaries=lambda _: None)
        interrupt_in(SOON)
        with pytest.raises(KeyboardInterrupt):
            module.draws()
        assert module.draw() == other.draw()

    in_main_thread(work)


def test_handlers_run_while_native_code_does() -> None:
    def work(module: Module) -> None:
        heard: list[int] = []
        signal.signal(signal.SIGUSR1, lambda number, _: heard.append(number))
        for seconds in (SOON, 3 * SOON):
            interrupt_in(seconds, signal.SIGUSR1)
        interrupt_in(5 * SOON)
        with pytest.raises(KeyboardInterrupt):
            module.spins()
        assert heard == [signal.SIGUSR1] * 2

    in_main_thread(work)


def test_what_a_handler_raises_comes_out_of_the_call() -> None:
    class Enough(Exception):
        pass

    def stop(*_: object) -> None:
        raise Enough

    def work(module: Module) -> None:
        signal.signal(signal.SIGTERM, stop)
        interrupt_in(SOON, signal.SIGTERM)
        with pytest.raises(Enough):
            module.writes()
        assert module.sees() == (0, 0)

    in_main_thread(work)


def test_a_handler_that_does_not_raise_lets_the_call_end() -> None:
    def work(module: Module) -> None:
        signal.signal(signal.SIGINT, lambda *_: None)
        interrupt_in(SOON / 4)
        module.counts(20_000_000)
        assert module.sees()[0] == 1

    in_main_thread(work)


def test_a_loop_that_writes_rows_of_a_large_variable_says_what_is_left() -> None:
    def work(module: Module) -> None:
        interrupt_in(SOON)
        with pytest.raises(KeyboardInterrupt) as told:
            module.rows(3)
        assert told.value.__notes__ == ["table may keep what the call had written; other state is as before it"]
        assert module.state["n"] == 0
        left = module.state["table"]
        assert (left[3] == left[3, 0]).all() and (np.delete(left, 3, 0) == 0).all()  # whole rounds

    in_main_thread(work)


def test_what_others_may_have_seen_stays() -> None:
    def work(module: Module) -> None:
        interrupt_in(SOON)
        with pytest.raises(KeyboardInterrupt) as told:
            module.waits()
        assert "shared may keep" in told.value.__notes__[0]
        assert module.state["shared"] > 0

    in_main_thread(work)


def test_a_failed_call_keeps_what_it_had_written() -> None:
    module = dfc.loads(bundle(), summaries=lambda _: None)
    with pytest.raises(RunError, match="never"):
        module.asserts()
    assert module.sees()[0] == 1


def test_readonly_calls_go_on_beside_an_interrupted_one() -> None:
    def work(module: Module) -> None:
        seen: list[object] = []
        interrupt_in(SOON)
        with pytest.raises(KeyboardInterrupt):
            module.writes()
        reader = threading.Thread(target=lambda: seen.append(module.sees()))
        reader.start()
        reader.join(60)
        assert seen == [(0, 0)]

    in_main_thread(work)


def test_a_thread_can_be_asked_to_stop() -> None:
    def work(module: Module) -> None:
        ended: list[BaseException] = []

        def call() -> None:
            try:
                module.writes()
            except BaseException as problem:
                ended.append(problem)

        caller = threading.Thread(target=call)
        caller.start()
        time.sleep(SOON)
        interrupting.interrupt(caller.ident or 0)
        caller.join(60)
        assert [type(each) for each in ended] == [KeyboardInterrupt]
        assert module.sees() == (0, 0)
        interrupting.interrupt(threading.get_ident())
        interrupting.withdraw(threading.get_ident())
        module.counts(10_000_000)  # asks, and nothing is left of it

    in_main_thread(work)


def test_other_threads_are_not_interrupted_by_signals() -> None:
    def work(module: Module) -> None:
        done: list[object] = []
        caller = threading.Thread(target=lambda: done.append(module.counts(20_000_000)))
        caller.start()
        interrupt_in(SOON / 4)
        with pytest.raises(KeyboardInterrupt):
            while True:
                time.sleep(0.01)
        caller.join()
        assert done == [None] and module.sees()[0] == 1

    in_main_thread(work)


def test_no_thread_of_it_is_there_when_a_process_forks() -> None:
    def work(module: Module) -> None:
        module.counts(1000)
        assert "dfc-watch" in [each.name for each in threading.enumerate()]

        def child() -> None:
            signal.alarm(100)
            interrupt_in(SOON)
            with pytest.raises(KeyboardInterrupt):
                module.writes()
            assert module.sees()[0] == 1

        assert in_child(child) == 0
        child()

    in_main_thread(work)


def test_a_program_with_checks_of_finite_values_is_interrupted_too() -> None:
    def work(_: Module) -> None:
        module = dfc.loads(bundle(), summaries=lambda _: None, check_finite=True)
        interrupt_in(SOON)
        with pytest.raises(KeyboardInterrupt):
            module.writes()
        assert module.sees() == (0, 0)

    in_main_thread(work)


def test_signals_at_random_moments_never_leave_half_a_call() -> None:
    def work() -> None:
        assert interruptions.run(20, 5, most=100) == 0

    assert in_child(work) == 0
