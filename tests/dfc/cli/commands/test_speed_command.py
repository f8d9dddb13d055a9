"""`dfc speed`: each kernel with its work, and the limit for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dfc.cli.reports import speed
from dfc.cli.reports.speed import KernelSpeed
from dfc_target_cpu import limits
from tests.support.command_line import Command

PROGRAM = """dfg 1

var total: f64 = 0

readonly entry scaled[B](x: f32[B, 100], w: f32[100, 10]) -> (y: f32[B, 10]) {
  return x @ w + 1.0
}

entry counted[B](x: f64[B], n: i64) {
  loop for i in 0..n {
    total += sum(x)
  }
}

readonly entry named(file: string, x: f32) -> (y: f32) {
  return x + 1.0
}
"""


@pytest.fixture
def program(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The limits of the machine are measured in short runs: no test asks how high they are."""
    for name, value in {"RUNS": 1, "TRIPS": 1000, "LEAST_COPIED": 1 << 20}.items():
        monkeypatch.setattr(limits, name, value)
    (folder / "m.dfg").write_text(PROGRAM)
    return "m.dfg"


def figures(dfc: Command, *words: str) -> dict[str, Any]:
    ended = dfc("speed", *words, "--json", "--calls", "3")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def test_work_follows_from_the_sizes_of_the_call(program: str, dfc: Command) -> None:
    answer = figures(dfc, program, "scaled", "--size", "B=32", "--threads", "1")
    (kernel,) = answer["kernels"]
    assert kernel["operations"] == 32 * 10 * (2 * 100 + 1)
    assert kernel["bytes"] == 4 * (32 * 100 + 100 * 10 + 32 * 10)
    assert (kernel["line"], kernel["times"]) == ("m.dfg:6", 1)
    assert kernel["limit_seconds"] > 0 and kernel["bound"] in ("operations", "bytes")
    assert (answer["entry"], answer["threads"], answer["calls"]) == ("scaled", 1, 3)


def test_sizes_follow_from_feeds(program: str, dfc: Command) -> None:
    np.save("x.npy", np.ones((5, 100), np.float32))
    (kernel,) = figures(dfc, program, "scaled", "--feed", "x=x.npy")["kernels"]
    assert kernel["operations"] == 5 * 10 * 201


def test_launches_in_loops_are_counted(program: str, dfc: Command) -> None:
    answer = figures(dfc, program, "counted", "--size", "B=1000", "--feed", "n=4")
    assert 4 in [kernel["times"] for kernel in answer["kernels"]]


def test_the_table_names_lines_and_limits(program: str, dfc: Command) -> None:
    ended = dfc("speed", program, "scaled", "--size", "B=8", "--calls", "2")
    assert ended.code == 0
    assert ended.out.startswith("m, scaled: ")
    assert "m.dfg:6" in ended.out and "of limit" in ended.out and "outside of kernels" in ended.out


def test_a_bundle_needs_clocks(program: str, dfc: Command) -> None:
    assert dfc("compile", program, "-o", "plain.bundle").code == 0
    assert "compile it with --timed" in dfc("speed", "plain.bundle", "scaled", "--size", "B=2").err
    assert dfc("compile", program, "--timed", "-o", "timed.bundle").code == 0
    (kernel,) = figures(dfc, "timed.bundle", "scaled", "--size", "B=2")["kernels"]
    assert kernel["operations"] == 2 * 10 * 201


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("scaled",), "add --size B=64"),
        (("scald", "--size", "B=2"), "did you mean 'scaled'"),
        (("scaled", "--size", "B=2", "--size", "C=3"), "scaled has no size 'C'"),
        (("named", "--feed", "x=1"), "add --feed file=TEXT"),
    ],
)
def test_mistakes_have_one_message(program: str, words: tuple[str, ...], message: str, dfc: Command) -> None:
    ended = dfc("speed", program, *words)
    assert ended.code == 2
    assert message in ended.err


def test_the_longer_of_both_limits_counts() -> None:
    kernel = KernelSpeed("m.dfg:1", ("y",), 4.0, 2, 100, 20, *max((1.0, "operations"), (2.0, "bytes")))
    assert (kernel.total, kernel.share_of_limit, kernel.bound) == (8.0, 0.5, "bytes")
    line = speed.as_text("head", [kernel], 10.0, 5).splitlines()[3]
    assert line.split() == ["m.dfg:1", "8", "s", "80", "%", "2", "100", "20", "25", "5", "50", "%", "bytes", "y"]
