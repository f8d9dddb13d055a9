"""What pipelines do at the same time: stages, each with the element behind that of the next stage, and iterations."""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter
from pathlib import Path

import dfc
from dfc_runtime.calls.hosts import HostRequest
from tests.support.pipelines import PATIENCE, compiled, eventually, loaded

STEPS = 5
STAGES = ("read", "decode", "copy", "train")
PIPELINE = """
queue raw: i64 = fifo(capacity = 1)
queue decoded: i64 = fifo(capacity = 1)
queue staged: i64 = staging(depth = 1)
var n: i64 = 0
runner read {
  let t: i64 = graph.recv(key = "t", source = "b:0", type_ = i64)
  raw.put(n + t)
  n += 1
}
runner decode {
  let k = raw.take()
  let t: i64 = graph.recv(key = "t", source = "b:0", type_ = i64)
  decoded.put(k + t)
}
runner copy {
  let k = decoded.take()
  let t: i64 = graph.recv(key = "t", source = "b:0", type_ = i64)
  staged.put(k + t)
}
entry train() -> i64 {
  let k = staged.take()
  let t: i64 = graph.recv(key = "t", source = "b:0", type_ = i64)
  return k + t
}
entry ready() -> i64 { return staged.size() }
"""


class Slots:
    """In slot t stage s has element t - s, and leaves it only when all stages that have one in this slot are there: so
    stages that took turns would never come to the end of a slot. Behind the last step there are no slots."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.last = STEPS + len(STAGES) - 2
        self._meetings = [threading.Barrier(min(slot + 1, len(STAGES))) for slot in range(self.last + 1)]

    def __call__(self, request: HostRequest) -> None:
        stage = request.entry
        slot = self.done[stage] + STAGES.index(stage)
        if slot <= self.last:
            self._meetings[slot].wait(PATIENCE)
        self.done[stage] += 1
        request.outputs[0][...] = 0

    def are_there(self, slot: int) -> bool:
        """Whether all stages but the last one wait in it for that one."""
        return self._meetings[slot].n_waiting == len(STAGES) - 1


def test_while_a_step_trains_the_next_batch_is_copied_one_is_decoded_and_one_is_read(tmp_path: Path) -> None:
    """The table of software pipelining, behind its warm-up: every step finds its batch there."""
    slots = Slots()
    model = dfc.loads(compiled(PIPELINE), threads=1, handlers={"recv": slots}, trace=tmp_path / "t.json")
    model.ready()  # starts the runners
    for step, slot in enumerate(range(len(STAGES) - 1, slots.last + 1)):
        eventually(lambda now=slot: slots.are_there(now))
        assert model.train() == step
    model.close()
    about = json.loads((tmp_path / "t.json").read_text())["otherData"]["stages"]
    (schedule,) = (each for each in about["steps"] if each["entry"] == "train")
    assert schedule["queues"] == ["raw", "decoded", "staged"]
    assert [row[3:] for row in schedule["steps"]] == [[step + 3, step + 2, step + 1] for step in range(STEPS)]
    assert [row[2] for row in schedule["steps"]] == [0] * STEPS  # none waited


COPIES = 8
ITERATIONS = f"""
queue fetched: i64 = fifo(capacity = 4)
var n: i64 = 0
runner fetch with copies = {COPIES} {{
  n += 1
  let k = n
  let t: i64 = graph.recv(key = "t", source = "b:0", type_ = i64)
  fetched.put(k + t)
}}
entry next() -> i64 {{ return fetched.take() }}
"""


class LastFirst:
    """Lets none of the first requests go until there are as many as copies, and of these the last one first."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._all = threading.Barrier(COPIES)
        self._answered = [threading.Event() for _ in range(COPIES)]

    def __call__(self, request: HostRequest) -> None:
        number = next(self._numbers)
        if number < COPIES:
            self._all.wait(PATIENCE)
            if number + 1 < COPIES:
                assert self._answered[number + 1].wait(PATIENCE)
            self._answered[number].set()
        request.outputs[0][...] = 0


def test_eight_iterations_wait_at_a_time_and_their_results_come_in_order() -> None:
    model = loaded(ITERATIONS, recv=LastFirst())
    assert [model.next() for _ in range(2 * COPIES)] == list(range(1, 2 * COPIES + 1))
    model.close()
