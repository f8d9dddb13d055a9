"""Loops without end in native code: found out whoever computes them, and told once with what is known of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dfc.diagnostics.source import SourceFile
from dfc.driver.api import compile_source
from dfc.ir.options import CompileOptions
from tests.mpi.test_run_command import _run
from tests.support.sweeping import few

pytestmark = [pytest.mark.timeout(180)]

HANGING = """dfg 1

var a: f32 = 1
var b: f32 = 1

entry spin(rounds: i64) -> (last: f32, other: f32) {
  let last, k = loop v = b, k: i64 = 0 while k < rounds {
    v = v * 1.0001
    k = k + 1
  }
  let other = a * last
  a := other
  return last, other
}
"""
HANGING_PLACES = """deploy 1 for "hanging.dfg"

job w tasks 3

place "b" on w task 1
place "spin/last" on w task 1
place "spin/k" on w task 1
place "a" on w task 2
place "spin/other" on w task 2
"""


ALONE = """deploy 1 for "hanging.dfg"

job w tasks 2

place "**" on w task 0
"""
ALONE_TIMED = """dfg 1

var table: f32[100000] = 1

entry spin(rounds: i64) -> (last: f32[100000]) {
  let last, k = loop v = table, k: i64 = 0 while k < rounds {
    v = v * 1.0001
    k = k + 1
  }
  return last
}
"""


@pytest.fixture(scope="module")
def hanging(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bundles with a loop without end: `hanging` in rank 1, and in rank 0 while nobody waits `alone` and `timed`, with
    a clock around each kernel."""
    folder = tmp_path_factory.mktemp("hanging")
    for name, text, places, timed in (
        ("hanging", HANGING, HANGING_PLACES, False),
        ("alone", HANGING, ALONE, False),
        ("timed", ALONE_TIMED, ALONE, True),
    ):
        program, places = SourceFile("hanging.dfg", text), SourceFile("hanging.deploy", places)
        compile_source(program, CompileOptions(timed=timed), places).save(folder / f"{name}.bundle")
    return folder


ENDLESS = ["spin", "--feed", "rounds=100000000000000", "--deadline", 2]


def test_a_loop_without_end_is_reported_once_with_the_line_that_is_awaited(hanging: Path, tmp_path: Path) -> None:
    code, out, err = _run(hanging, tmp_path, *ENDLESS, "-n", 3, bundle="hanging.bundle")
    assert (code, out) == (75, "")
    assert err.count("has waited 2 s for") == 1 and err.count("error") == 1, err
    assert "rank 0 (w task 0): it calls `spin`, and has waited" in err
    assert "rank 1 (w task 1): does not answer: it has computed for " in err and " s in call 1 of `spin`" in err
    assert "for `spin/last:0` (" in err and "hanging.dfg:7:17) from rank 1 (w task 1)" in err


@pytest.mark.parametrize(
    ("name", "kernel"), few([("timed", r", last in `spin/[^`]+` \(hanging\.dfg:\d+\)"), ("alone", "")], 1)
)
def test_a_loop_without_end_for_which_nobody_waits_is_reported_too(
    hanging: Path, tmp_path: Path, name: str, kernel: str
) -> None:
    code, out, err = _run(hanging, tmp_path, *ENDLESS, "-n", 2, bundle=f"{name}.bundle")
    assert (code, out) == (75, "")
    assert err.startswith("error[E0911]: rank 0 (w task 0) has computed for ") and err.count("error") == 1, err
    told = f" s in call 1 of `spin`{kernel}, and nobody has heard of it: the deadline is 2 s\n +if it is no endless"
    assert re.search(told, err), err
