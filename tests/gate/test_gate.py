"""The gate's own behaviour: what it runs, and that a part which finds something is never overlooked."""

from __future__ import annotations

import importlib.util

import pytest

from tests.gate import __main__ as gate
from tests.gate import second_type_check, sweeps
from tests.support import sweeping


def test_every_part_is_a_module_that_exists() -> None:
    assert all(importlib.util.find_spec(command[0]) for command in gate.parts().values())


def test_a_part_that_nobody_knows_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        gate.main(["no_such_part"])
    assert refused.value.code == 2 and "no_such_part" in capsys.readouterr().err


def test_a_part_that_finds_something_fails_the_gate(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gate, "parts", lambda: {"whole": ("platform",), "broken": ("no.such.module",)})
    monkeypatch.setattr(gate, "ELSEWHERE", {"whole": (), "broken": ()})
    assert gate.main(["whole", "--seed", "5"]) == 0
    assert gate.main(["--seed", "5"]) == 1
    assert "something was found by broken (seed 5)" in capfd.readouterr().out


def test_a_type_checker_that_is_not_installed_fails_its_part(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(second_type_check, "CHECKER", "no_such_checker")
    assert second_type_check.main() == 1
    assert "no_such_checker is not installed" in capsys.readouterr().err and gate.parts()["second_type_check"]


def test_sweeps_run_all_files_that_have_more_cases_than_a_run_of_the_tests() -> None:
    named = sweeps.files()
    assert "tests/targets/cpu/test_folding.py" in named, "which has other code"
    assert "tests/samples/test_learning.py" in named
    assert "tests/dfc/transforms/test_random_loops.py" in named and "tests/gate/test_gate.py" not in named


def test_some_cases_are_spread_over_all_and_the_gate_has_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "WHOLE", False)
    assert sweeping.few(range(10), 3) == [0, 3, 6]
    assert sweeping.few(range(2), 3) == [0, 1]
    monkeypatch.setattr(sweeping, "WHOLE", True)
    assert sweeping.few(range(10), 3) == [*range(10)]
