"""What a run tells on the way: a bar on a terminal, few plain lines elsewhere, nothing beside JSON."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest

from dfc.cli import listeners
from dfc.cli.running import Report
from tests.support.command_line import TOOL, environment

FEEDS = ("--feed", "x=data.npz:x", "--feed", "y=data.npz:y", "--feed", "rate=0.01")


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(listeners, "time", made)
    return made


def told_at(clock: Clock, seconds: list[float]) -> None:
    with listeners.Lines() as lines:
        for number, now in enumerate(seconds, 1):
            clock.now = now
            report = Report(0, number, number, len(seconds) + 1, seconds=now, last={"loss": 0.5})
            lines.step(report)
            lines.epoch(report)


def test_a_line_tells_epoch_steps_rate_and_results(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    told_at(clock, [2.0])
    assert capsys.readouterr().out == "epoch 1  step 1/2  0 steps/s  loss 0.5\n"


def test_there_is_no_more_than_one_line_a_second(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    told_at(clock, [0.1 * n for n in range(1, 51)])
    lines = capsys.readouterr().out.splitlines()
    assert 3 <= len(lines) <= 5


def test_a_quick_run_is_told_by_its_last_line_alone(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    told_at(clock, [0.2, 0.4, 0.6])
    assert capsys.readouterr().out == ""


def on_a_terminal(*words: str) -> str:
    """What the command shows on a terminal of its own."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [str(TOOL), *words], stdout=theirs, stderr=theirs, env=environment(TERM="xterm", COLUMNS="100")
    ) as process:
        os.close(theirs)
        shown = b""
        while chunk := _read(ours):
            shown += chunk
        assert process.wait(60) == 0
    os.close(ours)
    return shown.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""


def test_a_terminal_sees_a_bar_and_then_the_result(folder: Path) -> None:
    shown = on_a_terminal("run", "line.bundle", "train", *FEEDS, "--batch", "2", "--epochs", "2000")
    assert "\x1b[" in shown
    assert "10000/10000" in shown or "/10000" in shown
    assert "Traceback" not in shown
    assert shown.rstrip().splitlines()[-1].split("train: ")[-1].startswith("10000 steps in ")


def test_json_on_a_terminal_has_no_bar(folder: Path) -> None:
    shown = on_a_terminal("run", "line.bundle", "train", *FEEDS, "--batch", "2", "--epochs", "20", "--json")
    assert shown.startswith('{"entry": "train", "steps": 100, ')
    assert "\x1b" not in shown


def test_messages_are_coloured_on_a_terminal_only(folder: Path) -> None:
    (folder / "bare.dfg").write_text("const A = 1\n")
    assert "\x1b[1;33mwarning[W0001]\x1b[0m" in on_a_terminal("check", "bare.dfg")
