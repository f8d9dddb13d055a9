"""A handler that comes back to its own program, and processes that are forked: errors that say why, and no hang."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

import pytest

import dfc
from dfc_runtime import Module
from dfc_runtime.calls import interrupting
from dfc_runtime.errors import RunError
from tests.support.forked import in_child

PROGRAM = """
dfg 1
var n: i64 = 0
entry count(to: i64) -> i64 {
  let k = loop k: i64 = 0 while k < to { k = k + 1 }
  n += k
  summary.scalar("n", n)
  return n
}
entry other() { n := 7 }
entry beside() -> i64 with concurrent = true { return n }
readonly entry look() -> i64 { return n }
entry plain(to: i64) -> i64 {
  let k = loop k: i64 = 0 while k < to { k = k + 1 }
  return k
}
"""
ENDLESS = 2**62


@pytest.fixture(scope="module")
def bundle() -> bytes:
    return dfc.compile(text=PROGRAM).to_bytes()


def loaded(bundle: bytes, answer: Callable[[Module], object], **more: bool) -> Module:
    """A program whose summaries do this."""
    found: list[Module] = []
    module = dfc.loads(bundle, summaries=lambda _: answer(found[0]) if found else None, **more)
    found.append(module)
    return module


USES: dict[str, Callable[[Module], object]] = {
    "the entry that runs": lambda module: module.count(1),
    "another one": lambda module: module.other(),
    "a concurrent one": lambda module: module.beside(),
    "a readonly one": lambda module: module.look(),
    "init": lambda module: module.init(),
    "a part": lambda module: module.run("look/result"),
    "reading": lambda module: module.state["n"],
    "writing": lambda module: module.state.__setitem__("n", 3),
    "closing": lambda module: module.close(),
    "freeing": lambda module: module.free(),
    "saving": lambda module: module.save("nowhere"),
    "saving beside": lambda module: module.save_async("nowhere"),
    "restoring": lambda module: module.restore("nowhere"),
}


@pytest.mark.parametrize("use", USES)
def test_a_handler_may_not_come_back_to_its_program(use: str, bundle: bytes) -> None:
    module = loaded(bundle, USES[use])
    with pytest.raises(RunError, match="handler may not come back") as told:
        module.count(2)
    assert "`summary_scalar` of `count` at " in str(told.value)
    assert module.look() == 2  # everything is as after any other call
    module.close()


def test_neither_with_checks_of_finite_values(bundle: bytes) -> None:
    module = loaded(bundle, lambda module: module.count(1), check_finite=True)
    with pytest.raises(RunError, match="handler may not come back"):
        module.count(2)


def test_a_handler_may_use_other_programs(bundle: bytes) -> None:
    other = dfc.loads(bundle, summaries=lambda _: None)
    module = loaded(bundle, lambda _: other.count(5))
    module.count(1)
    assert other.look() == 5


def test_two_programs_may_not_go_in_a_circle(bundle: bytes) -> None:
    modules: list[Module] = []
    modules.append(dfc.loads(bundle, summaries=lambda _: modules[1].count(1)))
    modules.append(dfc.loads(bundle, summaries=lambda _: modules[0].count(1)))
    with pytest.raises(RunError, match="handler may not come back"):
        modules[0].count(1)


def test_another_thread_may_call_after_the_handler(bundle: bytes) -> None:
    seen: list[object] = []
    threads: list[threading.Thread] = []

    def answer(module: Module) -> None:
        threads.append(threading.Thread(target=lambda: seen.append(module.look())))
        threads[-1].start()

    module = loaded(bundle, answer)
    module.count(3)
    threads[0].join()
    assert seen == [3]


def during_a_call(module: Module, act: Callable[[], object]) -> None:
    """Does it while another thread is in a call, which is let end by what the handler waits for."""
    inside, done = threading.Event(), threading.Event()
    waits.append((inside, done))
    caller = threading.Thread(target=module.count, args=(1,))
    caller.start()
    assert inside.wait(60)
    try:
        act()
    finally:
        done.set()
        caller.join()


waits: list[tuple[threading.Event, threading.Event]] = []


def wait_inside(_: object) -> None:
    for inside, done in waits[-1:]:
        inside.set()
        done.wait(60)


@pytest.mark.parametrize("use", USES)
def test_a_child_that_was_forked_during_a_call_is_told(use: str, bundle: bytes) -> None:
    waits.clear()
    module = dfc.loads(bundle, summaries=wait_inside)

    def work() -> None:
        signal.alarm(20)  # instead of a hang
        if use == "closing":
            module.close()  # nothing of it goes on here
        with pytest.raises(RunError, match="forked while a call of the program ran"):
            USES[use if use != "closing" else "another one"](module)
        fresh = dfc.loads(bundle, summaries=lambda _: None)
        assert fresh.count(4) == 4

    def fork() -> None:
        assert in_child(work) == 0

    during_a_call(module, fork)
    assert module.look() == 1  # the parent goes on


def test_a_child_that_was_forked_in_native_code_is_told(bundle: bytes) -> None:
    module = dfc.loads(bundle, summaries=lambda _: None)

    def endless() -> None:
        with pytest.raises(KeyboardInterrupt):
            module.plain(ENDLESS)

    caller = threading.Thread(target=endless)
    caller.start()
    gate = module.state._gate
    while not any(lock.locked() for lock in [*gate._locks, *(door._turn for door in gate._doors)]):
        time.sleep(0)

    def work() -> None:
        signal.alarm(20)
        with pytest.raises(RunError, match="forked while a call of the program ran"):
            module.plain(1)

    assert in_child(work) == 0
    interrupting.interrupt(caller.ident or 0)
    caller.join()
    assert module.plain(3) == 3


@pytest.mark.parametrize("threads", [1, 2])
def test_a_server_may_load_before_it_forks(threads: int) -> None:
    text = "dfg 1\nparam w: f32[300, 300] = glorot_uniform()\nentry f(x: f32[300, 300]) -> f32 { return sum(x @ w) }\n"
    import numpy as np

    module = dfc.loads(dfc.compile(text=text).to_bytes(), threads=threads)
    x = np.ones((300, 300), np.float32)
    expected = module.f(x)

    def serve() -> None:
        signal.alarm(20)
        assert [module.f(x) for _ in range(5)] == [expected] * 5
        module.close()

    children = [in_child(serve) for _ in range(3)]
    assert children == [0, 0, 0]
    assert module.f(x) == expected


def test_a_handler_may_fork(bundle: bytes) -> None:
    module = dfc.loads(bundle, summaries=lambda _: parents.append(os.getpid()) or children.append(in_child(os.getpid)))
    children: list[int] = []
    parents: list[int] = []
    assert module.count(3) == 3
    assert children == [0]
