"""Checks of finite values: where a program stops, what it says, and that training goes on as without."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dfc
from dfc_runtime.errors import RunError
from dfc_runtime.module import Module

DIGITS = Path(__file__).resolve().parents[4] / "samples" / "digits.dfg"
PROGRAM = """dfg 1

param w: f32[4] = 1
var calls: i64 = 0

entry fused(x: f32[3, 4]) -> (y: f32) {
  calls += 1
  let scaled = x * w
  let logs = log(scaled)
  return sum(exp(logs * 0.5) + scaled)
}

entry rounds(start: f32, count: i64) -> (y: f32) {
  calls += 1
  let z, _ = loop z = start, i: i64 = 0 while i < count {
    z = z * 1e20
    i = i + 1
  }
  return z
}

entry choice(x: f32, big: bool) -> (y: f32) {
  let y = if big then exp(x) else x + 1
  return y
}

readonly entry safe(x: f32[4]) -> (y: f32[4]) {
  return select(x > 0, 1 / x, 0)
}

readonly entry masses(x: f32[4]) -> (y: f32[4]) {
  return softmax(x)
}
"""


@pytest.fixture(scope="module")
def checked() -> Module:
    return dfc.loads(dfc.compile(text=PROGRAM, check_finite=True).to_bytes(), threads=1)


def message(run: object, **feeds: object) -> str:
    assert callable(run)
    with pytest.raises(RunError) as caught:
        run(**feeds)
    assert caught.value.code == "E0910"
    return caught.value.message


def test_a_value_inside_a_fused_loop_is_named_with_line_element_and_ranges(checked: Module) -> None:
    x = np.full((3, 4), 2, np.float32)
    x[1, 2] = -1
    text = message(checked.fused, x=x)
    assert "`fused/logs`[1, 2] is nan at <text>:9:14" in text
    assert "9 | let logs = log(scaled)" in text
    assert "1 of 12 elements is not finite" in text
    assert "input `fused/scaled`: f32[3, 4], from -1 to 2" in text


def test_the_step_is_counted_and_state_is_as_before_it(checked: Module) -> None:
    model = dfc.loads(dfc.compile(text=PROGRAM, check_finite=True).to_bytes(), threads=1)
    model.fused(x=np.ones((3, 4), np.float32))
    model.fused(x=np.ones((3, 4), np.float32))
    text = message(model.fused, x=np.zeros((3, 4), np.float32))
    assert "`fused/logs`[0, 0] is -inf" in text
    assert "in call 3 of `fused`" in text
    assert model.state["calls"] == 2


def test_an_iteration_of_a_loop_is_checked(checked: Module) -> None:
    assert checked.rounds(start=1, count=1)[0] == np.float32(1e20)
    text = message(checked.rounds, start=1, count=5)
    assert "is inf at <text>:16:9" in text
    assert "from 1e+20 to 1e+20" in text


def test_only_the_branch_that_runs_is_checked(checked: Module) -> None:
    assert checked.choice(x=1000, big=False)[0] == 1001
    assert "is inf at <text>:23:23" in message(checked.choice, x=1000, big=True)


def test_what_is_not_chosen_does_no_harm(checked: Module) -> None:
    np.testing.assert_array_equal(checked.safe(x=np.float32([0, 1, 2, -4]))[0], np.float32([0, 1, 0.5, 0]))


def test_what_an_op_does_inside_is_not_judged(checked: Module) -> None:
    assert checked.masses(x=np.float32([0, 200, 0, 0]))[0][1] == 1


def test_without_the_compiler_line_and_name_are_still_told(monkeypatch: pytest.MonkeyPatch) -> None:
    model = dfc.loads(dfc.compile(text=PROGRAM, check_finite=True).to_bytes(), threads=1)
    monkeypatch.setattr("dfc_runtime.observe.finite.COMPILER", "no.such.module")
    text = message(model.fused, x=np.zeros((3, 4), np.float32))
    assert "`fused/logs` is not finite at <text>:9:14" in text


def test_a_bundle_without_checks_is_compiled_again(tmp_path: Path) -> None:
    dfc.compile(text=PROGRAM).save(tmp_path / "plain.bundle")
    plain = dfc.load(tmp_path / "plain.bundle", threads=1)
    assert np.isnan(plain.fused(x=-np.ones((3, 4), np.float32))[0])
    model = dfc.load(tmp_path / "plain.bundle", threads=1, check_finite=True)
    assert "`fused/logs`[0, 0] is nan" in message(model.fused, x=-np.ones((3, 4), np.float32))


def test_training_with_checks_has_the_same_bits() -> None:
    data = np.load(DIGITS.parent / "data" / "digits.npz")
    feeds = {"images": data["train_images"][:64], "labels": data["train_labels"][:64], "rate": 0.3}
    plain, checked = (dfc.loads(dfc.compile(DIGITS, check_finite=on).to_bytes(), threads=1) for on in (False, True))
    for _ in range(8):
        np.testing.assert_array_equal(plain.train(**feeds), checked.train(**feeds))
    for name in plain.state:
        np.testing.assert_array_equal(plain.state[name], checked.state[name], err_msg=name)
    feeds["images"] = feeds["images"].copy()
    feeds["images"][3, 5] = np.nan
    assert "NaN" in message(checked.train, **feeds)
