"""Steps that are measured, and what is made of them."""

from __future__ import annotations

import json
import time
from collections import Counter
from itertools import repeat

import numpy as np
import pytest

from dfc.cli.networks.timing import Summary, Timing, as_json, as_text, measure
from dfc_runtime.distributed.calls.asynchronous.update_log import Updates

BATCH = (np.zeros((4, 1, 1, 3), np.float32), np.zeros(4, np.int32))


def test_steps_to_warm_up_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, losses = [0.0], iter([5.0, 4.0, 3.0, 2.0])
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])

    def step(_batch: object) -> float:
        loss = next(losses)
        clock[0] += loss
        return loss

    timing = measure(step, repeat(BATCH), 2, 2)
    assert timing == Timing((3.0, 2.0), 4, 2.0)
    assert timing.rate == pytest.approx(8 / 5)
    assert timing.deviation == pytest.approx((4 / 2 - 4 / 3) / 2)


def test_steps_of_a_call_share_its_seconds_and_images(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, losses = [0.0], iter([5.0, 4.0, 3.0])
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])

    def call(_batch: object) -> float:
        clock[0] += 2
        return next(losses)

    assert measure(call, repeat(BATCH), 2, 4, 2) == Timing((1.0,) * 4, 2, 3.0)


def test_how_late_updates_were_stands_below_the_table() -> None:
    updates = Updates([], Counter({0: 3, 2: 1}), 1)
    summary = Summary([Timing((1.0,), 4, 0.5, updates)], 2)
    assert as_text("title", summary).splitlines()[-1] == "  updates by staleness: 0: 3, 2: 1; dropped: 1"
    assert json.loads(as_json({}, summary))["staleness"] == {"0": 3, "2": 1}


def test_workers_that_are_independent_add_up() -> None:
    summary = Summary([Timing((1.0, 2.0), 4, 0.5), Timing((2.0, 4.0), 4, 0.25)], 2)
    assert summary.rate == pytest.approx(8 / 3 + 8 / 6)
    assert summary.deviation == pytest.approx((1 + 0.25) ** 0.5)
    assert as_text("title", summary).splitlines()[2].split() == ["4", "1.1", "2", "1.5", "s", "1", "s", "0.5"]
    found = json.loads(as_json({"model": "x"}, summary))
    assert found["images_per_second"] == pytest.approx(4)
    assert (found["model"], found["devices"], found["last_loss"]) == ("x", 2, [0.5, 0.25])
    assert found["step_seconds"] == [[1.0, 2.0], [2.0, 4.0]]
