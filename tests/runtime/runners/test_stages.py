"""What is measured of the stages of a pipeline: who has waited where, and how often, and what has gone through."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import dfc
from dfc_runtime.calls.hosts import HostRequest
from dfc_runtime.module import Module
from dfc_runtime.runners.stages import Depth
from tests.support.pipelines import compiled, drained, eventually

PIPELINE = """
queue raw: i64 = fifo(capacity = 4)
queue done: i64 = fifo(capacity = 50)
runner pass with copies = 2 {
  let k = raw.take()
  let t: i64 = graph.recv(key = "t", source = "b:0", type_ = i64)
  done.put(k + t)
}
entry feed(k: i64) { raw.put(k) }
entry finish() { raw.close() }
entry next() -> i64 { return done.take() }
"""
RAW, DONE, NEXT = ("pass", "raw", False), ("pass", "done", True), ("next", "done", False)


class Answer:
    """Answers the requests of a runner: the first one when it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()

    def __call__(self, request: HostRequest) -> None:
        if request.call.number == 0:
            assert self.go.wait(30)
        request.outputs[0][...] = 0


def traced(path: Path, answer: Answer) -> Module:
    return dfc.loads(compiled(PIPELINE), threads=1, handlers={"recv": answer}, trace=path)


def stages_in(path: Path) -> Mapping[str, list[dict[str, object]]]:
    about = json.loads(path.read_text())["otherData"]
    return cast("Mapping[str, list[dict[str, object]]]", about["stages"])


def waits_in(path: Path) -> dict[tuple[str, str, bool], tuple[int, int]]:
    """Times and nanoseconds by the stage, the queue, and whether it is to put."""
    rows = stages_in(path)["waits"]
    return {(row["entry"], row["queue"], row["to_put"]): (row["times"], row["ns"]) for row in rows}  # type: ignore[misc]


def wait_state(model: Module) -> list[int]:
    """What each copy of the runner waits for, as native code says it."""
    (running,) = model._machinery.runners._crew.running.values()
    return [copy._context.waiting for copy in running.living]


def depths_of(model: Module) -> Mapping[str, Depth]:
    return model._machinery.runners.meter._depths


def test_who_waits_is_counted_at_its_line_and_who_does_not_is_not(tmp_path: Path) -> None:
    answer = Answer()
    answer.go.set()
    model = traced(tmp_path / "t.json", answer)
    values: list[int] = []
    waiting = threading.Thread(target=lambda: values.append(int(model.next())))
    waiting.start()
    eventually(lambda: model._machinery.driver.queues.queue("done")._header.takers == 1)
    model.feed(0)
    waiting.join()
    eventually(lambda: all(wait_state(model)))  # one for an element, one for its turn
    model.feed(1)
    eventually(lambda: model._machinery.driver.queues.queue("done").numbers[0] == 2)
    values.append(int(model.next()))  # it is there
    eventually(lambda: all(wait_state(model)))
    model.close()
    assert values == [0, 1]
    waits = waits_in(tmp_path / "t.json")
    assert waits.keys() == {RAW, DONE, NEXT, ("feed", "raw", True)}
    assert waits["feed", "raw", True] == waits[DONE] == (0, 0)  # there is room
    assert waits[NEXT][0] == 1
    assert waits[RAW][0] >= 2
    assert min(waits[NEXT][1], waits[RAW][1]) > 0


def test_a_copy_that_waits_for_another_waits_for_its_turn(tmp_path: Path) -> None:
    answer = Answer()
    model = traced(tmp_path / "t.json", answer)
    for k in range(3):
        model.feed(k)
    eventually(lambda: any(waiting < 0 for waiting in wait_state(model)))  # the second copy has its element
    answer.go.set()
    assert [model.next() for _ in range(3)] == [0, 1, 2]
    model.finish()
    assert drained(model.next) == []
    model.close()
    (runner,) = stages_in(tmp_path / "t.json")["runners"]
    assert (runner["name"], runner["copies"]) == ("pass", 2)
    assert cast("int", runner["alive_ns"]) >= cast("int", runner["turn_ns"]) > 0


def test_iterations_and_elements_are_those_of_all_starts(tmp_path: Path) -> None:
    answer = Answer()
    answer.go.set()
    model = traced(tmp_path / "t.json", answer)
    for _ in range(2):
        for k in range(7):
            model.feed(k)
        model.finish()
        assert drained(model.next) == list(range(7))
        model.init()
    model.close()
    (runner,) = stages_in(tmp_path / "t.json")["runners"]
    assert runner["iterations"] == 14


def test_depths_are_seen_while_they_last(tmp_path: Path) -> None:
    answer = Answer()
    model = traced(tmp_path / "t.json", answer)
    for k in range(6):  # two in the hands of the runner, which is not let go
        model.feed(k)
    eventually(lambda: depths_of(model)["raw"].most == 4)
    answer.go.set()
    assert [model.next() for _ in range(6)] == list(range(6))
    model.close()
    queues = {row["name"]: row for row in stages_in(tmp_path / "t.json")["queues"]}
    assert (queues["raw"]["put"], queues["raw"]["most"]) == (6, 4)
    assert 0 < cast("float", queues["raw"]["mean"]) <= 4
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert 4 in [each["args"]["elements"] for each in events if each["ph"] == "C" and each["name"] == "queue raw"]


def test_steps_note_what_had_come_into_the_queues_that_feed_them(tmp_path: Path) -> None:
    answer = Answer()
    answer.go.set()
    model = traced(tmp_path / "t.json", answer)
    done = model._machinery.driver.queues.queue("done")
    for k in range(3):
        model.feed(k)
        eventually(lambda count=k + 1: done.numbers[0] == count)
        assert model.next() == k  # it is there
    waiting = threading.Thread(target=model.next)
    waiting.start()
    eventually(lambda: done._header.takers == 1)
    model.feed(3)
    waiting.join()
    model.close()
    (steps,) = stages_in(tmp_path / "t.json")["steps"]  # not of `feed`, nor of `finish`
    assert (steps["entry"], steps["queues"], steps["put"]) == ("next", ["raw", "done"], [4, 4])
    rows = cast("list[list[int]]", steps["steps"])
    assert [row[3:] for row in rows] == [[1, 1], [2, 2], [3, 3], [3, 3]]
    assert [row[2] for row in rows] == [0, 0, 0, 1]
    ends = [time for row in rows for time in row[:2]]
    assert ends == sorted(ends)
    assert ends[0] == 0


def test_a_call_that_fails_is_no_step(tmp_path: Path) -> None:
    answer = Answer()
    answer.go.set()
    model = traced(tmp_path / "t.json", answer)
    model.finish()
    assert drained(model.next) == []
    model.close()
    (steps,) = stages_in(tmp_path / "t.json")["steps"]
    assert steps["steps"] == []
