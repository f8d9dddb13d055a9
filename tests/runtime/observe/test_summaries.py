"""Summaries: histograms, and the sinks that events go to."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from dfc_runtime.errors import FileError, UnsupportedError
from dfc_runtime.observe.destinations import opened
from dfc_runtime.observe.summaries import BUCKETS, Histogram, JsonLines, Recent, Summary, histogram

RANDOM = np.random.default_rng(3)


@pytest.mark.parametrize(
    "values",
    [
        RANDOM.normal(size=1000),
        RANDOM.normal(size=(20, 30)).astype(np.float32),
        np.arange(-50, 50, dtype=np.int8),
        np.array([True, False, True]),
        np.array([1e-300, 3e-300, 7e-300]),
    ],
    ids=["f64", "f32", "i8", "bool", "tiny"],
)
def test_buckets_are_those_of_numpy(values: np.ndarray) -> None:
    wide = values.astype(np.float64)
    made = histogram(values)
    counts, edges = np.histogram(wide, bins=BUCKETS, range=(wide.min(), wide.max()))
    assert abs(np.array(made.counts) - counts).sum() <= 2  # an element at an inner edge may fall to either side
    np.testing.assert_allclose(made.edges, edges, rtol=1e-12, atol=1e-12 * (wide.max() - wide.min()))
    assert (made.count, made.not_finite, sum(made.counts)) == (values.size, 0, values.size)
    assert (made.minimum, made.maximum) == (wide.min(), wide.max())
    assert made.sum == pytest.approx(wide.sum()) and made.sum_of_squares == pytest.approx((wide**2).sum())


def test_a_bucket_takes_its_left_edge_and_the_last_one_both() -> None:
    made = histogram(np.array([0.0, 1.0, 29.0, 29.5, 30.0]))
    assert made.edges == tuple(float(n) for n in range(31))
    assert [n for n, count in enumerate(made.counts) if count] == [0, 1, 29]
    assert made.counts[29] == 3


def test_elements_that_are_not_finite_are_counted_apart() -> None:
    made = histogram(np.array([1.0, math.nan, 3.0, math.inf, -math.inf]))
    assert (made.count, made.not_finite, made.minimum, made.maximum) == (2, 3, 1.0, 3.0)
    nothing = histogram(np.array([math.nan]))
    assert (nothing.count, nothing.not_finite, nothing.edges, nothing.counts) == (0, 1, (), ())
    assert math.isnan(nothing.minimum)


def test_no_elements_and_equal_elements_have_their_own_forms() -> None:
    assert histogram(np.zeros((0, 3), np.float32)).counts == ()
    assert histogram(np.full(4, 2.5)) == Histogram(4, 0, 2.5, 2.5, 10.0, 25.0, (2.5, 2.5), (4,))


def test_the_largest_range_does_not_overflow() -> None:
    made = histogram(np.array([-1.7e308, 0.0, 1.7e308]))
    assert np.isfinite(made.edges).all() and list(made.edges) == sorted(made.edges)
    assert (made.counts[0], made.counts[15], made.counts[-1]) == (1, 1, 1)


def test_the_latest_events_are_kept_and_older_ones_forgotten() -> None:
    recent = Recent(3)
    for number in range(5):
        recent(Summary(number, "even" if number % 2 == 0 else "odd", number))
    assert [event.step for event in recent] == [2, 3, 4]
    assert recent.values("even") == [2, 4] and len(recent) == 3 and recent[-1].step == 4
    assert repr(recent) == "<3 summaries of even, odd>"
    recent.clear()
    assert list(recent) == []


def test_lines_of_json_are_whole_after_each_event_and_added_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    for step in range(2):
        sink = opened(path)
        assert isinstance(sink, JsonLines)
        sink(Summary(step, "loss", 0.5, time=12.0))
        assert len(path.read_text().splitlines()) == 3 * step + 1
        sink(Summary(step, "rate", math.inf))
        sink(Summary(step, "x", histogram(np.array([1.0, 2.0]))))
        sink.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0] == {"step": 0, "tag": "loss", "time": 12.0, "value": 0.5}
    assert lines[4]["value"] == "inf"
    assert lines[5]["histogram"]["counts"][0] == 1 and len(lines[5]["histogram"]["edges"]) == BUCKETS + 1


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot write") as caught:
        opened(tmp_path / "absent" / "run.jsonl")
    assert caught.value.exit_code == 6
    with pytest.raises(FileError, match="cannot write /dev/full: No space left on device"):
        JsonLines(Path("/dev/full"))(Summary(0, "loss", 1.0))


def test_event_files_are_read_back_by_tensorboard(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    sink = opened(str(tmp_path / "new" / "folder"))
    sink(Summary(3, "loss", 0.25))
    sink(Summary(4, "loss", 0.125))
    made = histogram(np.array([0.0, 1.0, 29.5, 30.0, math.nan]))
    sink(Summary(5, "x", made))
    sink(Summary(6, "empty", histogram(np.zeros(0))))
    sink.close()
    events = accumulator.EventAccumulator(str(tmp_path / "new" / "folder"))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(3, 0.25), (4, 0.125)]
    first = events.Histograms("x")[0]
    read = first.histogram_value
    assert (first.step, read.min, read.max, read.num, read.sum) == (5, 0.0, 30.0, 4, 60.5)
    assert list(read.bucket_limit) == list(made.edges) and list(read.bucket) == [0, *made.counts]


def test_without_the_library_event_files_are_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.summary.writer.event_file_writer", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'dfc\[tensorboard\]'; or name a file \.jsonl") as caught:
        opened(tmp_path / "run")
    assert caught.value.exit_code == 3
    assert not (tmp_path / "run").exists()
