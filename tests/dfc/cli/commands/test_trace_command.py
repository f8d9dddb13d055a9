"""`dfc trace`: totals by source line of a trace that was written down here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dfc.cli.tracing import traces
from dfc_runtime.observe import tracing
from dfc_runtime.observe.tracing import Label, Part
from tests.support.command_line import Command

LABELS = [
    Label("kernel", "train/y", "m.dfg:4", "train"),
    Label("receive", "recv train/x", "m.dfg:9", "train"),
    Label("wait", "train/x", "", ""),
]
ROWS = [[0, 4_000, 0, 0], [5_000, 25_000, 1, 0], [6_000, 24_000, 2, 0], [30_000, 33_000, 2, 0], [40_000, 43_000, 0, 0]]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    rows = np.array(ROWS)
    other = rows[:1] + np.array([90_000, 90_000, 0, 0])
    parts = [Part(0, "rank 0 (ps task 0)", LABELS, rows), Part(1, "rank 1 (ps task 1)", LABELS, other, offset=90_000)]
    tracing.write(tmp_path / "t.json", "m", parts)
    return tmp_path / "t.json"


def test_a_wait_inside_a_receive_is_counted_once_and_at_its_line(trace: Path) -> None:
    found = {key: sum(total.lengths) for key, total in traces.stalls(traces.read(trace)).items()}
    assert found == {
        ("m.dfg:9", "recv train/x"): pytest.approx(20e-6),
        (traces.NO_LINE, "train/x"): pytest.approx(3e-6),
    }


def test_a_wait_inside_other_work_for_the_host_is_counted_at_its_line(tmp_path: Path) -> None:
    labels = [Label("host", "answered_rows train/x", "m.dfg:7", "train"), Label("wait", "`train/x`", "", "")]
    rows = np.array([[0, 9_000, 0, 0], [1_000, 4_000, 1, 0], [5_000, 8_000, 1, 1], [20_000, 21_000, 1, 0]])
    tracing.write(tmp_path / "t.json", "m", [Part(0, "rank 0", labels, rows)])
    found = {key: sum(total.lengths) for key, total in traces.stalls(traces.read(tmp_path / "t.json")).items()}
    assert found == {
        ("m.dfg:7", "`train/x`"): pytest.approx(3e-6),
        (traces.NO_LINE, "`train/x`"): pytest.approx(4e-6),  # of another thread, and behind that work
    }


def test_kernels_of_all_ranks_are_added_by_line(trace: Path) -> None:
    ((key, total),) = traces.kernels(traces.read(trace)).items()
    assert key == ("m.dfg:4", "train/y")
    assert sum(total.lengths) == pytest.approx(11e-6)
    assert total.ranks == {0, 1}


def test_the_worst_line_comes_first(trace: Path, dfc: Command) -> None:
    ended = dfc("trace", str(trace), "--top", "1")
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[0] == "m: 2 ranks, 43 us, 6 events"
    assert lines[lines.index("top stalls by source line") + 2].split()[:3] == ["m.dfg:9", "20", "us"]
    assert "between calls" not in ended.out


def test_another_file_is_refused(tmp_path: Path, dfc: Command) -> None:
    (tmp_path / "t.json").write_text('{"traceEvents": []}')
    ended = dfc("trace", str(tmp_path / "t.json"))
    assert ended.code == 6
    assert "t.json is no trace of dfc: it has no 'otherData'" in ended.message
    (tmp_path / "t.json").write_bytes(b"\xff\x00")
    assert "t.json is no trace of dfc: it is no text" in dfc("trace", str(tmp_path / "t.json")).message


def test_a_wait_without_a_line_is_the_entrys_that_is_called(tmp_path: Path) -> None:
    labels = [Label("call", "train", entry="train"), Label("wait", "the end of `train`")]
    rows = np.array([[0, 9_000, 0, 0], [1_000, 4_000, 1, 0], [10_000, 12_000, 1, 0]])
    tracing.write(tmp_path / "t.json", "m", [Part(0, "rank 0", labels, rows)])
    found = {key: sum(total.lengths) for key, total in traces.stalls(traces.read(tmp_path / "t.json")).items()}
    assert found == {
        ("(in train)", "the end of `train`"): pytest.approx(3e-6),
        (traces.NO_LINE, "the end of `train`"): pytest.approx(2e-6),
    }


def test_the_columns_of_a_rank_add_up_to_the_length_of_the_trace(tmp_path: Path, dfc: Command) -> None:
    labels = [
        Label(tracing.LOAD, "load"),
        Label("wait", "a call from rank 0"),
        Label("call", "train", entry="train"),
        Label("kernel", "train/y", "m.dfg:4", "train"),
        Label("wait", "the end of `train`"),
    ]
    rows = np.array(
        [
            [0, 100_000, 0, 0],
            [120_000, 320_000, 1, 0],
            [400_000, 1_000_000, 2, 0],
            [500_000, 700_000, 3, 0],
            [700_000, 750_000, 4, 0],
        ]
    )
    tracing.write(tmp_path / "t.json", "m", [Part(0, "rank 0", labels, rows)])
    ended = dfc("trace", str(tmp_path / "t.json"))
    head, row = (line.strip() for line in ended.out.splitlines()[1:3])
    assert head.split("  ")[0] == "rank" and "before the first step" in head
    assert row.split()[2:] == ["400", "us", "200", "us", "50", "us", "350", "us"]


def test_kernels_that_no_line_asks_for_are_their_entrys(tmp_path: Path, dfc: Command) -> None:
    """`init` draws state, and the loop over the blocks of a replicated entry is nobody's line."""
    (tmp_path / "m.dfg").write_text(PROGRAM)
    (tmp_path / "m.deploy").write_text(DEPLOYMENT)
    asked = ["--timed", "--deploy", str(tmp_path / "m.deploy"), "-o", str(tmp_path / "m.bundle")]
    assert dfc("compile", str(tmp_path / "m.dfg"), *asked).code == 0
    np.save(tmp_path / "x.npy", np.ones((8, 4), np.float32))
    feed = ["--feed", f"x={tmp_path / 'x.npy'}", "--trace", str(tmp_path / "t.json")]
    assert dfc("run", str(tmp_path / "m.bundle"), "train", *feed).code == 0
    found = traces.kernels(traces.read(tmp_path / "t.json"))
    lines = {line.rpartition("/")[2] for line, _ in found}
    assert lines <= {"(in init)", *(f"m.dfg:{number}" for number in range(1, 9))} and "(in init)" in lines, lines
    assert any(line.endswith("m.dfg:5") for line in lines), lines
    assert "<generated>" not in dfc("trace", str(tmp_path / "t.json"), "--top", "100").out


PROGRAM = """dfg 1

param w: f32[4] = uniform(-0.5, 0.5)

entry train[B](x: f32[B, 4]) -> (loss: f32) {
  let loss = mean(square(x @ w))
  w -= grad(loss, w)
  return loss
}
"""
DEPLOYMENT = """deploy 1 for "m.dfg"

job worker tasks 1

replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 4
"""
