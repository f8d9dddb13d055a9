"""What `dfc trace` says of stages: shares, queues, the longest waits and the bottleneck, of totals written here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from dfc.cli.tracing.pipelines import Calls, bottleneck_text, pipeline_of
from dfc_runtime.observe import tracing
from dfc_runtime.observe.tracing import Label, Part
from tests.support.command_line import Command

Row = dict[str, object]
SECOND = 1_000_000_000


def runner(name: str, copies: int, alive: float, turns: float = 0.0) -> Row:
    counts = {"copies": copies, "iterations": 40, "alive_ns": round(alive * SECOND), "turn_ns": round(turns * SECOND)}
    return {"name": name, "place": "m.dfg:1:1", **counts}


def wait(entry: str, queue: str, length: float, *, to_put: bool = False, line: int = 2) -> Row:
    where = {"entry": entry, "queue": queue, "to_put": to_put, "place": f"m.dfg:{line}"}
    return {**where, "ns": round(length * SECOND), "times": 7 if length else 0}


def report(runners: Sequence[Row], waits: Sequence[Row]) -> Mapping[str, Sequence[Row]]:
    return {"runners": runners, "waits": waits, "queues": [{"name": "a", "put": 40, "mean": 2.25, "most": 4}]}


READ = runner("read", 1, alive=10), wait("read", "a", 8, to_put=True, line=4)
WORK = runner("work", 4, alive=40, turns=5), wait("work", "a", 0.5), wait("work", "b", 0.5, to_put=True)
TRAIN = wait("train", "b", 6, line=9)
DATA = report([READ[0], WORK[0]], [READ[1], *WORK[1:], TRAIN])


def test_a_stage_has_the_time_to_itself_in_which_it_does_not_wait_for_queues() -> None:
    """Copies that wait for their turn wait for their own stage."""
    pipeline = pipeline_of(DATA, {"train": Calls(20, inside=9, window=10), "evaluate": Calls(1, 3, 3)})
    assert {each.name: each.share for each in pipeline.stages} == {
        "read": pytest.approx(0.2),
        "work": pytest.approx(0.9),
        "train": pytest.approx(0.4),  # without the entry that uses no queue
    }
    read, work, train = pipeline.stages
    assert (read.work, work.work, train.work) == (pytest.approx(2), pytest.approx(34), pytest.approx(3))
    assert (work.elapsed, work.turns, train.between, train.iterations) == (10, 5, 1, 20)
    assert (
        bottleneck_text(pipeline) == "bottleneck: `work`, which has 90% of the time to itself; the others wait for it"
    )


def test_a_call_that_is_short_is_no_bottleneck() -> None:
    """`finish` never waits, and takes no part of the time."""
    data = report([READ[0], WORK[0]], [READ[1], *WORK[1:], wait("finish", "b", 0)])
    pipeline = pipeline_of(data, {"finish": Calls(1, 0.001, 0.001)})
    assert pipeline.stages[-1].share == pytest.approx(0.0001)
    assert pipeline.bottleneck is pipeline.stages[1]


def test_who_calls_too_seldom_is_the_bottleneck() -> None:
    data = report([READ[0]], [READ[1], wait("train", "a", 0.5)])
    text = bottleneck_text(pipeline_of(data, {"train": Calls(20, inside=3, window=10)}))
    assert text == "bottleneck: the caller of `train`; 70% of the time is between calls"


def test_of_stages_that_all_wait_none_is_the_bottleneck() -> None:
    pipeline = pipeline_of(report([READ[0]], [READ[1]]), {})
    assert pipeline.bottleneck is None
    assert bottleneck_text(pipeline).startswith("bottleneck: none")


class Measured:
    """What a meter has measured."""

    changes = ((1_000, "a", 3), (5_000, "a", 0))

    def stop(self) -> None:
        """There is no thread."""

    def report(self) -> Mapping[str, Sequence[Row]]:
        return DATA


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    rows = np.array([[0, 9 * SECOND, 0, 0]])
    part = Part(0, "rank 0", [Label("call", "train", entry="train")], rows, stages=Measured())
    tracing.write(tmp_path / "t.json", "m", [part])
    return tmp_path / "t.json"


def test_the_tables_name_stages_queues_waits_and_the_bottleneck(trace: Path, dfc: Command) -> None:
    lines = dfc("trace", str(trace), "--top", "2").out.splitlines()
    stages = lines.index("stages, and what they wait for")
    assert " ".join(lines[stages + 3].split()) == "work 4 40 34 s 5 s 500 ms 500 ms 0 90%"
    queues = lines.index("elements in queues")
    assert lines[queues + 2].split() == ["a", "40", "2.2", "4"]
    waits = lines.index("top waits by source line")
    assert lines[waits + 2].split()[:5] == ["m.dfg:4", "8", "s", "7", "read"]
    assert lines[waits + 2].endswith("room in `a`")
    assert [lines[waits + 3].split()[0], lines[waits + 4]] == ["m.dfg:9", ""]
    assert lines[-1].startswith("bottleneck: `work`")


def test_json_says_the_same(trace: Path, dfc: Command) -> None:
    data = json.loads(dfc("trace", str(trace), "--json").out)
    assert (data["program"], data["seconds"], data["stalls"]) == ("m", 9, [])
    assert data["pipeline"]["bottleneck"] == "work"
    assert [each["name"] for each in data["pipeline"]["stages"]] == ["read", "work", "train"]
    assert data["pipeline"]["queues"] == [{"name": "a", "put": 40, "mean": 2.25, "most": 4}]
    assert data["pipeline"]["waits"][0] == {
        "line": "m.dfg:4",
        "stage": "read",
        "queue": "a",
        "for": "room",
        "seconds": 8,
        "times": 7,
    }


def test_depths_are_a_curve_in_the_picture(trace: Path) -> None:
    events = json.loads(trace.read_text())["traceEvents"]
    curve = [(each["ts"], each["args"]["elements"]) for each in events if each["ph"] == "C"]
    assert curve == [(1.0, 3), (5.0, 0)]


def test_malformed_totals_are_refused(trace: Path, dfc: Command) -> None:
    text = trace.read_text()
    for right, wrong in (('"copies": 4', '"copies": "4"'), ('"to_put": true', '"to_put": 1'), ('"waits"', '"weights"')):
        trace.write_text(text.replace(right, wrong))
        ended = dfc("trace", str(trace))
        assert (ended.code, "is no trace of dfc" in ended.message) == (6, True)
