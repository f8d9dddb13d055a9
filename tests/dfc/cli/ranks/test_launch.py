"""What is offered after a rank has died for the last time: only what was not given, and what is true when typed."""

from __future__ import annotations

from pathlib import Path

import pytest

import dfc
import dfc_runtime
from dfc.cli.ranks.launch import Launch, supervise
from dfc.cli.saving import Plan
from dfc_runtime.distributed.launch import supervisor

ONCE, AGAIN = Launch(2, 0, 0, 30.0), Launch(2, 3, 0, 30.0)


def advice(launch: Launch, plan: Plan, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What is told after a job in which rank 1 died."""

    def died(_job: object, tell: object, _report: object) -> int:
        tell("rank 1 has died")  # type: ignore[operator]
        return 75

    monkeypatch.setattr(supervisor, "supervise", died)
    assert supervise(launch, [], plan, claims=False) == 75
    first, second = capsys.readouterr().err.splitlines()
    assert first == "dfc: rank 1 has died"
    return second.strip()


def test_options_that_were_given_are_not_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "state"
    told = [
        advice(launch, plan, monkeypatch, capsys)
        for launch in (ONCE, AGAIN)
        for plan in (Plan(), Plan(folder), Plan(folder, every=10), Plan(folder, seconds=60.0))
    ]
    for text, (restarts, state, saves) in zip(
        told,
        [(r, *each) for r in (True, False) for each in ((True, True), (False, True), (False, False), (False, False))],
        strict=True,
    ):
        assert text.startswith("nothing was saved")
        assert ("--max-restarts" in text, "--state" in text, "--save-every" in text) == (restarts, state, saves), text


def test_what_was_saved_is_gone_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "go.dfg").write_text("dfg 1\n\nvar w: f32 = 2.0\n\nentry go() {\n  w += 1\n}\n")
    dfc.compile(tmp_path / "go.dfg").save(tmp_path / "go.bundle")
    dfc_runtime.load(tmp_path / "go.bundle").save(tmp_path / "state")
    text = advice(ONCE, Plan(tmp_path / "state"), monkeypatch, capsys)
    assert text.startswith(f"the same command goes on from the newest checkpoint in {tmp_path / 'state'}")
