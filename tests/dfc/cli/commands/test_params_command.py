"""`dfc params`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dfc.driver import api
from tests.support.command_line import Command

PROGRAM = """dfg 1

param w: f32[784, 100] = glorot_uniform()
param b: f64[100] = 0
var steps: i64 = 0
var dice: rng = philox(seed = 3)

entry f(x: f32[784]) -> (y: f32) {
  steps += 1
  let u = dice.uniform(f32[2])
  return sum(x @ w) + sum(b) as f32 + sum(u)
}
"""


@pytest.fixture
def program(folder: Path) -> str:
    (folder / "counted.dfg").write_text(PROGRAM)
    return "counted.dfg"


def test_trained_and_other_state_is_counted_exactly(program: str, dfc: Command) -> None:
    ended = dfc("params", program)
    rows = [line.split() for line in ended.out.splitlines() if line]
    assert ended.code == 0
    assert rows[0] == ["w", "f32[784,", "100]", "78,400", "306.2", "KB"]
    assert rows[1] == ["b", "f64[100]", "100", "800", "B"]
    assert rows[2] == ["trained,", "total", "78,500", "307.0", "KB"]
    assert rows[3] == ["steps", "i64", "1", "8", "B"]
    assert rows[4][:2] == ["dice", "u64[4]"]
    assert rows[5][:3] == ["other,", "total", "5"]


def test_json_holds_the_same_for_program_and_bundle(program: str, folder: Path, dfc: Command) -> None:
    api.compile(folder / program).save(folder / "counted.bundle")
    of_program, of_bundle = (json.loads(dfc("params", each, "--json").out) for each in (program, "counted.bundle"))
    assert of_program["trained"] == {
        "count": 78_500,
        "bytes": 4 * 78_400 + 8 * 100,
        "each": [
            {"name": "w", "kind": "param", "dtype": "f32", "shape": [784, 100], "count": 78_400, "bytes": 313_600},
            {"name": "b", "kind": "param", "dtype": "f64", "shape": [100], "count": 100, "bytes": 800},
        ],
    }
    assert [each["kind"] for each in of_program["other"]["each"]] == ["var", "rng"]
    assert of_program == of_bundle


def test_a_program_without_state_says_so(folder: Path, dfc: Command) -> None:
    (folder / "bare.dfg").write_text("dfg 1\n\nentry f(x: f32) -> (y: f32) {\n  return x\n}\n")
    assert dfc("params", "bare.dfg").out == "the program has no state\n"


def test_settings_change_programs_but_not_bundles(folder: Path, dfc: Command) -> None:
    one, two = (json.loads(dfc("params", "line.dfg", "--json", *more).out) for more in ([], ["--set", "WIDTH=8"]))
    assert one["trained"]["count"] != two["trained"]["count"]
    assert dfc("params", "line.bundle", "--set", "WIDTH=8").code == 2
