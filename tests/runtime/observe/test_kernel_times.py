"""Ticks in pairs, and what a recorder keeps of a program."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from dfc_runtime.calls.hosts import HostRequest
from dfc_runtime.formats.manifest import HostSite, SourceLocation
from dfc_runtime.observe import kernel_times, tracing
from dfc_runtime.observe.kernel_times import BEGIN, EMPTY, END, TICK, Meter
from dfc_runtime.observe.tracing import Label, Part, Recorder


class Clock:
    """A clock that says what it is told."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(kernel_times.time, "perf_counter_ns", made)
    return made


def site(kind: str, names: tuple[str, ...] = (), line: int = 4, **attributes: str) -> HostSite:
    return HostSite(kind, "train", attributes, (), (), names, SourceLocation("m.dfg", line, 3))


def ask(meter_or_handler: object, asked: HostSite) -> None:
    assert callable(meter_or_handler)
    request = object.__new__(HostRequest)  # nothing else of it is looked at
    request.site = asked
    meter_or_handler(request)


def test_a_kernel_takes_what_is_between_its_ticks_less_an_empty_pair(clock: Clock) -> None:
    meter = Meter()
    begin, end = site(TICK, ("train/y",), what=BEGIN), site(TICK, ("train/y",), what=END)
    for now, asked in [(0, site(TICK, what=EMPTY)), (30, end)]:
        clock.now = now
        ask(meter.tick, asked)
    for start, taken in [(100, 1030), (5000, 2030), (9000, 90030)]:
        clock.now = start
        ask(meter.tick, begin)
        clock.now = start + taken
        ask(meter.tick, end)
    assert meter.overhead == pytest.approx(30e-9)
    ((where, seconds, launches),) = meter.kernels()
    assert where.names == ("train/y",)
    assert seconds == pytest.approx(2000e-9)
    assert launches == 3


def traced(clock: Clock) -> Recorder:
    """A recorder that saw a kernel of 10 ns at 100, and a receive of 500 ns at 200."""
    recorder = Recorder()

    def receive(_: HostRequest) -> None:
        clock.now += 500

    handlers: Mapping[str, object] = recorder.handlers({"recv": receive})
    clock.now = 100
    ask(handlers[TICK], site(TICK, ("train/y", "train/z"), what=BEGIN))
    clock.now = 110
    ask(handlers[TICK], site(TICK, ("train/y", "train/z"), what=END))
    clock.now = 200
    ask(handlers["recv"], site("recv", ("train/x",), line=9))
    return recorder


def test_requests_and_kernels_are_recorded_with_their_lines(clock: Clock) -> None:
    recorder = traced(clock)
    assert recorder.labels == [
        Label("kernel", "train/y, train/z", "m.dfg:4", "train"),
        Label("receive", "recv train/x", "m.dfg:9", "train"),
    ]
    assert recorder.events().tolist() == [[100, 110, 0, 0], [200, 700, 1, 0]]


def test_the_file_has_the_times_of_all_ranks_on_one_clock(clock: Clock, tmp_path: Path) -> None:
    recorder = traced(clock)
    first = Part(0, "rank 0", recorder.labels, recorder.events())
    ahead = recorder.events() + np.array([1_000_000, 1_000_000, 0, 0])
    second = Part(1, "rank 1", recorder.labels, ahead, offset=1_000_000, error=7, dropped=2)
    tracing.write(tmp_path / "t.json", "m", [first, second])
    data = json.loads((tmp_path / "t.json").read_text())
    spans = [each for each in data["traceEvents"] if each["ph"] == "X"]
    assert [(e["pid"], e["cat"], e["ts"], e["dur"]) for e in spans] == [
        (0, "kernel", 0.0, 0.01),
        (0, "receive", 0.1, 0.5),
        (1, "kernel", 0.0, 0.01),
        (1, "receive", 0.1, 0.5),
    ]
    assert spans[1]["args"] == {"place": "m.dfg:9", "entry": "train"}
    assert data["otherData"]["ranks"][1] == {
        "rank": 1,
        "name": "rank 1",
        "clock_offset_ns": 1_000_000,
        "clock_error_ns": 7,
        "dropped": 2,
    }


def test_events_beyond_the_limit_are_counted_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "MOST_EVENTS", 2)
    recorder = Recorder()
    for number in range(5):
        recorder.add(Label("call", "train"), number, number + 1)
    assert (len(recorder.events()), recorder.dropped) == (2, 3)


def test_launches_are_counted_beyond_those_whose_times_are_kept(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_times, "MOST_SAMPLES", 2)
    meter = Meter()
    begin, end = site(TICK, ("train/y",), what=BEGIN), site(TICK, ("train/y",), what=END)
    for _ in range(5):
        ask(meter.tick, begin)
        clock.now += 10
        ask(meter.tick, end)
    assert [launches for _, _, launches in meter.kernels()] == [5]
    meter.forget()
    assert meter.kernels() == []
