"""Calls of many ranks go along trees: all take part once, failures are told, and nobody has to do with many others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from dfc_runtime.distributed.calls.client import Client
from dfc_runtime.distributed.calls.cluster_module import ClusterModule
from dfc_runtime.distributed.calls.rank_data import Answer, Data
from dfc_runtime.distributed.loading import load_on
from dfc_runtime.distributed.relays.answers import Answers
from dfc_runtime.distributed.relays.call_tree import FAN_OUT
from dfc_runtime.distributed.transport.comm import CONTROL, REPLY, Array
from dfc_runtime.distributed.transport.in_process import Faults, Network
from dfc_runtime.distributed.transport.virtual import VirtualComm, VirtualNetwork
from dfc_runtime.errors import RankError, RunError
from tests.support.clusters import cluster_bundle
from tests.support.ranks import outcomes_on

OWNERS = 19
PROGRAM = """dfg 1

var table: i32[38] = 1

entry add(x: i32) {
  table += x
}

entry divide(x: i32) {
  table := table // (table - x)
}
"""
DEPLOYMENT = f"""
job worker tasks 1
job ps tasks {OWNERS}
shard "table" axis 0 over ps by blocks
"""
Work = Callable[[ClusterModule, Network], object]


def outcome(work: Work, faults: Faults | None = None, seconds: float = 20) -> object:
    """What rank 0 returned or raised; the others serve."""
    network, data = Network(OWNERS + 1, faults, eager=1 << 12), cluster_bundle(PROGRAM, DEPLOYMENT)

    def run(comm):
        module = load_on(data, comm, seconds=seconds, threads=1)
        module.add_command("number", partial(numbered, comm.rank))
        try:
            return work(module, network) if comm.rank == 0 else module.serve()
        finally:
            module.close()

    return outcomes_on(network, run)[0]


def numbered(rank: int, data: Data, _: list[Array]) -> Answer:
    """A command: says and sends which rank this is, unless it is one that is to fail."""
    if rank in data["failing"]:
        raise RunError("no number", code="E0904")
    return {"rank": rank, "arrays": [["i32", 1]]}, [np.array([rank], np.int32)]


def messages_of(network: Network, tag: int) -> dict[tuple[int, int], int]:
    """How many there were so far, by sender and receiver."""
    return {(a, b): count for (a, b, each), count in network.sent.items() if each == tag}


def test_rank_0_has_to_do_with_few_ranks_and_everybody_with_his_own_part() -> None:
    def work(module: ClusterModule, network: Network) -> object:
        calls, replies = messages_of(network, CONTROL), messages_of(network, REPLY)
        for x in (2, 3, 4):
            module.add(x)
        sent = {pair: count - calls.get(pair, 0) for pair, count in messages_of(network, CONTROL).items()}
        told = {pair: count - replies.get(pair, 0) for pair, count in messages_of(network, REPLY).items()}
        return (
            {k: v for k, v in sent.items() if v},
            {k: v for k, v in told.items() if v},
            np.array(module.state["table"]),
        )

    sent, told, table = outcome(work, Faults(3, delay=2))
    assert table.tolist() == [10] * 38
    assert set(sent.values()) == {3}, "one message a call from one rank to another"
    assert sorted(receiver for _, receiver in sent) == list(range(1, OWNERS + 1)), "each is called by one"
    senders = [sender for sender, _ in sent]
    assert max(map(senders.count, senders)) == senders.count(0) == FAN_OUT
    assert {(receiver, 0) for sender, receiver in sent if sender == 0} == told.keys()


@pytest.mark.parametrize("failing", [[0], [18], [5, 6, 17]])
def test_a_rank_that_fails_is_named_and_the_next_call_is_whole(failing: list[int]) -> None:
    def work(module: ClusterModule, _: Network) -> object:
        values = np.full(38, 4, np.int32)
        values[[2 * each for each in failing]] = 7
        module.state["table"] = values
        with pytest.raises(RunError, match="division by zero") as caught:
            module.divide(7)
        with pytest.raises(RunError, match="was stopped, and may have changed"):
            module.add(1)
        module.init()
        module.add(5)
        return str(caught.value), np.array(module.state["table"])

    message, table = outcome(work, Faults(len(failing), delay=6))
    assert any(f"(ps task {each})" in message for each in failing)
    assert table.tolist() == [6] * 38


def test_a_rank_that_dies_is_missed_by_the_one_that_called_it() -> None:
    """In virtual time, where no deadline depends on what else this machine does: rank 1 calls rank 2."""
    data = cluster_bundle(PROGRAM, DEPLOYMENT)

    def run(comm: VirtualComm) -> object:
        module = load_on(data, comm, seconds=2, threads=1)
        try:
            if comm.rank:
                return module.serve()
            while comm.seconds() < 1:
                comm.idle(1000)
            return module.add(1)
        finally:
            module.close()

    problem, *_ = VirtualNetwork(OWNERS + 1, deaths={2: 1.0}).run(run)
    assert isinstance(problem, RankError)
    assert "rank 0 (worker task 0) has waited 2 s for it to be done from rank 1 (ps task 0)" in str(problem)
    assert "it is done with its part, and has waited" in str(problem)
    assert "it to be done, and those that it has called from rank 2 (ps task 1)" in str(problem)


def command_all(module: ClusterModule, failing: list[int]) -> Answer:
    def work(client: Client) -> Answer:
        answers = client.command({"command": "number", "failing": failing})
        return {
            "said": [data["rank"] for data, _ in answers.values()],
            "sent": [int(a[0]) for _, (a,) in answers.values()],
        }, []

    return module.together("number", work)


def test_a_command_goes_along_a_tree_and_all_answer_with_what_they_have() -> None:
    def work(module: ClusterModule, network: Network) -> object:
        before = messages_of(network, CONTROL)
        data, _ = command_all(module, [])
        sent = {pair for pair, count in messages_of(network, CONTROL).items() if count > before.get(pair, 0)}
        return data, sent

    data, sent = outcome(work, Faults(5, delay=3))
    assert data == {"said": [*range(OWNERS + 1)], "sent": [*range(OWNERS + 1)]}
    assert sorted(receiver for _, receiver in sent) == list(range(1, OWNERS + 1))
    assert sum(sender == 0 for sender, _ in sent) == FAN_OUT


@pytest.mark.parametrize("failing", [[19], [2, 9]])
def test_a_command_that_fails_on_a_rank_fails_and_the_next_one_is_whole(failing: list[int]) -> None:
    def work(module: ClusterModule, _: Network) -> object:
        with pytest.raises(RunError, match="no number") as caught:
            command_all(module, failing)
        return str(caught.value), command_all(module, [])[0]["said"]

    message, said = outcome(work, Faults(2, delay=6))
    assert f"rank {failing[0]} " in message
    assert said == [*range(OWNERS + 1)]


@pytest.mark.parametrize("asks", [lambda module: module.add(1), lambda module: command_all(module, [])])
def test_behind_an_interrupt_nobody_takes_old_answers_for_new_ones(
    asks: Callable[[ClusterModule], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    collect = Answers.collect

    def interrupt(answers: Answers) -> None:
        collect(answers)
        raise KeyboardInterrupt

    def work(module: ClusterModule, _: Network) -> object:
        asks(module)
        monkeypatch.setattr(Answers, "collect", interrupt)
        with pytest.raises(KeyboardInterrupt):
            asks(module)
        monkeypatch.undo()
        with pytest.raises(RankError, match="was interrupted: start the program again") as caught:
            asks(module)
        return caught.value

    assert isinstance(outcome(work), RankError)


def test_a_checkpoint_of_many_ranks_has_what_each_of_them_has(tmp_path: Path) -> None:
    def work(module: ClusterModule, _: Network) -> object:
        module.state["table"] = np.arange(38, dtype=np.int32)
        module.save(tmp_path)
        module.add(100)
        module.restore(tmp_path)
        return np.array(module.state["table"])

    assert outcome(work).tolist() == list(range(38))
