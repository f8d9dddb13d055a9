"""`dfc trace`: totals by source line of a trace that was written down here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dfc.cli import traces
from dfc_runtime import tracing
from dfc_runtime.tracing import Label, Part
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
    assert "t.json is no trace of dfc" in ended.message
    (tmp_path / "t.json").write_bytes(b"\xff\x00")
    assert "t.json is no trace of dfc: it is no text" in dfc("trace", str(tmp_path / "t.json")).message
