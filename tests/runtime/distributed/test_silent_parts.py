"""Parts of calls that say nothing when they are done: which they are, and that their errors are told."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from dfc_driver_cpu.driver import CpuDriver
from dfc_runtime.distributed.loading import load_on
from dfc_runtime.distributed.transport.comm import REPLY
from dfc_runtime.distributed.transport.in_process import Network
from dfc_runtime.driver import NativeFunction
from dfc_runtime.errors import RunError
from tests.support.clusters import cluster_bundle
from tests.support.ranks import outcomes_on

PROGRAM = """dfg 1

var near: f32 = 1
var far: f32 = 2
var dense: f32[300] = 3

readonly entry fetch() -> f32 {
  return near + far + dense[7]
}

readonly entry sent(x: f32) -> f32 {
  let y = x * far
  return y + near
}

readonly entry made() -> (a: f32, b: f32[300]) {
  return near + far, dense * 2
}

readonly entry checked(x: f32) -> f32 {
  assert x > 0, "x has to be positive"
  return near + far + x
}

entry count() -> f32 {
  far += 1
  return far + near
}
"""
DEPLOYMENT = """
job worker tasks 1
job ps tasks 1
place "**" on worker
place "far" on ps
place "dense" on ps
place "made/b" on ps
place "sent/y" on ps
"""


def outcomes(work, follow=None, program=PROGRAM, eager=1 << 12, *, initialise=True):
    """What rank 0 returned. Its work may ask how many answers it got so far."""
    network, data = Network(2, eager=eager), cluster_bundle(program, DEPLOYMENT)

    def answers():
        return network.sent.get((1, 0, REPLY), 0)

    def run(comm):
        module = load_on(data, comm, seconds=20, threads=1, initialise=initialise)
        try:
            if comm.rank == 0:
                return work(module, answers)
            return follow(module) if follow is not None else module.serve()
        finally:
            module.close()

    first, second = outcomes_on(network, run)
    assert not isinstance(second, BaseException), second
    if isinstance(first, BaseException):
        raise first
    return first


def answered(module, answers, call):
    """The answers that a call needs; the state is asked for, so that none is late."""
    module.state["far"]
    before = answers()
    call()
    module.state["far"]
    return answers() - before - 1


def test_only_who_cannot_fail_changes_nothing_and_has_sent_all_it_has_is_silent():
    def work(module, answers):
        calls = (module.fetch, lambda: module.sent(2.0), module.made, module.count)
        return [answered(module, answers, call) for call in calls]

    assert outcomes(work) == [0, 0, 1, 1]


def test_a_part_that_can_fail_answers():
    program = PROGRAM.replace("sent(x: f32)", "sent(x: f32, k: i64)").replace("x * far", "x * dense[k]")

    def work(module, answers):
        return [answered(module, answers, call) for call in (module.fetch, lambda: module.sent(2.0, k=3))]

    assert outcomes(work, program=program) == [1, 1]


def test_calls_one_behind_the_other_see_each_others_changes():
    def work(module, _):
        found = []
        for _ in range(50):
            found += [module.fetch(), module.fetch(), module.count()]
        module.state["far"] = np.float32(-4)
        return [float(each) for each in found], float(module.fetch()), float(module.sent(2.0))

    values = [value for i in range(50) for value in (6 + i, 6 + i, 4 + i)]
    assert outcomes(work) == (values, 0.0, -7.0)


def test_an_error_of_a_silent_part_is_that_of_its_call_and_of_no_other():
    def follow(module):
        sender = module._rank.edges._sender
        send, failing = sender.send, iter([False, True, False])

        def sometimes(*given):
            if next(failing, False):
                raise RunError("no memory", code="E0905")
            send(*given)

        sender.send = sometimes
        module.serve()

    def work(module, _):
        module.sent(1.0)
        with pytest.raises(RunError, match=r"no memory\n  on rank 1 \(ps task 0\)"):
            module.sent(2.0)
        return [float(module.sent(float(x))) for x in range(3)]

    assert outcomes(work, follow) == [1.0, 3.0, 5.0]


def test_what_nobody_takes_after_a_failure_does_not_keep_a_silent_part():
    def work(module, _):
        for _ in range(10):
            with pytest.raises(RunError, match="x has to be positive"):
                module.checked(-1.0)
        return float(module.checked(1.0)), float(module.fetch()), float(module.state["far"])

    assert outcomes(work, eager=0) == (4.0, 6.0, 2.0)


def test_a_part_that_only_sends_variables_enters_no_native_code(monkeypatch):
    entered: list[str] = []
    entry = CpuDriver.entry

    def noted(driver, number):
        native = entry(driver, number).call

        def call(slots):
            entered.append(threading.current_thread().name)
            return native(slots)

        return NativeFunction(call)

    monkeypatch.setattr(CpuDriver, "entry", noted)

    def follow(module):
        own = threading.current_thread().name
        module.serve()
        followed.append(entered.count(own))

    def work(module, _):
        started = len(entered)  # both have run their initialisers
        values = [module.fetch(), module.fetch(), module.sent(2.0)]
        return [float(each) for each in values], len(entered) - started

    followed: list[int] = []
    values, natives = outcomes(work, follow)
    assert values == [6.0, 6.0, 5.0]
    assert natives == 4, "rank 0 three times, rank 1 for the product"
    assert followed == [2], "its initialisers, and the product"


def test_a_part_that_only_sends_variables_finds_them_not_set():
    def work(module, _):
        module.state["near"] = np.float32(1)
        with pytest.raises(RunError, match="reads far, which nothing has set"):
            module.near_by()
        module.state["far"] = np.float32(5)
        return float(module.near_by())

    program = PROGRAM + "\nreadonly entry near_by() -> f32 {\n  return near + far\n}\n"
    assert outcomes(work, program=program, initialise=False) == 6.0
