"""Waits end: with what was awaited, or with a report that names who waits for whom."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
import pytest

from dfc_runtime.distributed.transport.in_process import Network
from dfc_runtime.distributed.transport.waiting import Awaited, Waiting, deadline
from dfc_runtime.errors import FeedError, RankError
from tests.support.ranks import outcomes_on


def waiting(comm, seconds=0.3):
    made = Waiting(comm, seconds, lambda rank: f"rank {rank} (job task {rank})")
    made.doing = f"it runs `step{comm.rank}`"
    return made


def forever(of, what, rank):
    of.wait(lambda: False, lambda: Awaited(what, rank))


def test_ranks_that_wait_for_each_other_are_told_so_on_every_rank():
    def work(comm):
        forever(waiting(comm), f"`v{comm.rank}` (model.dfg:{comm.rank})", (comm.rank + 1) % 3)

    for outcome in outcomes_on(Network(3), work):
        assert isinstance(outcome, RankError)
        text = str(outcome)
        assert "has waited 0.3 s for `v" in text
        for rank in range(3):
            assert f"rank {rank} (job task {rank}): it runs `step{rank}`, and has waited" in text
            assert f"rank {rank} (job task {rank}) for `v{rank}` (model.dfg:{rank})" in text
        assert "they wait for each other: " in text


def test_a_rank_that_computes_does_not_answer_and_no_ring_is_made_up():
    done = threading.Event()

    def work(comm):
        if comm.rank == 1:
            done.wait(60)
            return
        try:
            forever(waiting(comm), "`v`", 1)
        finally:
            done.set()

    first, _ = outcomes_on(Network(2), work)
    assert "rank 1 (job task 1): does not answer: it computes, is stopped or gone" in str(first)
    assert "wait for each other" not in str(first)


def test_what_else_is_known_of_a_rank_that_does_not_answer_is_told():
    of = waiting(Network(2).comm(0), 0.05)
    of.on_silent = lambda rank: f"it computes `v{rank}`"
    with pytest.raises(RankError, match="rank 1 \\(job task 1\\): does not answer: it computes `v1`"):
        forever(of, "`v1`", 1)


@dataclass
class Part:
    name: str = "train"
    calls: int = 3


def test_a_rank_is_overdue_only_while_it_computes_without_a_look_at_the_others(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("dfc_runtime.distributed.transport.waiting.time.monotonic", lambda: now[0])
    of = waiting(Network(1).comm(0), 5)
    now[0] += 1000
    assert (of.busy(), of.overdue()) == ((0.0, ""), "")  # between calls nobody expects anything
    of.computes(Part())
    now[0] += 6.5
    assert of.busy() == (6.5, "it has computed for 6.5 s in call 3 of `train`")
    of.wait(lambda: True, lambda: Awaited("`v`", 0))
    now[0] += 7
    assert (of.busy()[0], of.overdue()) == (7.0, "")  # who waits for it is to say so first
    seen = []

    def condition():
        now[0] += 1
        seen.append((of.busy(), of.overdue()))
        return len(seen) > 4

    of.wait(condition, lambda: Awaited("`v`", 0))
    assert set(seen[1:]) == {((0.0, ""), "")}  # it waits, which has a deadline of its own
    now[0] += 7.5
    of.kernel = "`train/loss` (model.dfg:7)"
    told = "rank 0 (job task 0) has computed for 7.5 s in call 3 of `train`, last in `train/loss` (model.dfg:7), and"
    assert of.overdue() == f"{told} nobody has heard of it: the deadline is 5 s"
    of.computes(None)
    assert of.overdue() == ""


def test_who_waits_in_vain_is_named_with_the_one_who_is_awaited():
    def work(comm):
        of = waiting(comm, 0.3 if comm.rank == 0 else 30)
        forever(of, f"`v{comm.rank}`", 1 if comm.rank == 0 else -1)

    first, second = outcomes_on(Network(2), work)
    assert str(first).startswith("[E0911] rank 0 (job task 0) has waited 0.3 s for `v0` from rank 1 (job task 1)")
    assert str(second) == str(first)


def test_a_wait_returns_when_its_condition_holds():
    network = Network(2)
    of = waiting(network.comm(0))
    network.comm(1).isend(np.array([7], np.uint8), 0, 40)
    buffer = np.zeros(1, np.uint8)
    of.wait(of.comm.irecv(buffer, 1, 40).test, lambda: Awaited("`v`", 1))
    assert buffer[0] == 7


def test_signals_reach_a_rank_that_waits():
    seen = []

    def work(comm):
        of = waiting(comm, 5)
        if comm.rank == 1:
            of.signal([0], {"kind": "stop", "sequence": 3})
            return
        of.on_signal = seen.append
        of.wait(lambda: bool(seen), lambda: Awaited("a signal", 1))

    assert outcomes_on(Network(2), work) == [None, None]
    assert seen == [{"kind": "stop", "sequence": 3}]


def test_the_deadline_is_as_stated_else_as_the_environment_says(monkeypatch):
    monkeypatch.delenv("DFC_DEADLINE", raising=False)
    assert deadline() == 60
    monkeypatch.setenv("DFC_DEADLINE", "2.5")
    assert deadline() == 2.5
    assert deadline(3) == 3
    for wrong in ("soon", "0", "-1", "inf", "nan"):
        monkeypatch.setenv("DFC_DEADLINE", wrong)
        with pytest.raises(FeedError, match="number of seconds above 0"):
            deadline()
