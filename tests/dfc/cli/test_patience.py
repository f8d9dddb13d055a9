"""`dfc run` and signals while a step lasts: it says what it does, and ends in any case."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import dfc as package
import dfc_runtime
from dfc.cli import patience
from dfc.cli.patience import Patience
from dfc_runtime.calls import interrupting
from tests.support.command_line import TOOL, Command, environment

PROGRAM = """
dfg 1
var n: i64 = 0
var v: f32[1000] = 0
## The third step has no end.
entry train(x: f32[1000]) -> i64 {
  n += 1
  v += x
  summary.scalar("n", n as f32)
  let k = loop k: i64 = 0 while n == 3 and k >= 0 { k = k + 1 }
  n += k
  return n
}
"""
SAYS = "stopping after this step; again to stop now\n"
BEGINS = "st is a new folder: the run starts from initial state\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package.compile(text=PROGRAM).save(tmp_path / "model.bundle")
    np.save(tmp_path / "x.npy", np.ones(1000, np.float32))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextmanager
def in_the_third_step(
    *words: str, first: int = 1, tool: Sequence[str] = (str(TOOL),)
) -> Iterator[subprocess.Popen[str]]:
    given = ["run", "model.bundle", "train", "--feed", "x=x.npy", "--summaries", "seen.jsonl", *words]
    with subprocess.Popen(
        [*tool, *given], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(DFC_THREADS="1")
    ) as process:
        try:
            for _ in range(6000):
                if Path("seen.jsonl").exists() and Path("seen.jsonl").read_text().count("\n") > 3 - first:
                    break
                time.sleep(0.01)
            yield process
        finally:
            process.kill()


def two_lines(process: subprocess.Popen[str]) -> str:
    """The first two that it says, once it has: a further signal is one of its own then."""
    assert process.stderr is not None
    return process.stderr.readline() + process.stderr.readline()


def state(folder: str) -> tuple[int, float]:
    module = dfc_runtime.load("model.bundle", summaries=lambda _: None)
    module.restore(folder)
    return int(module.state["n"]), float(module.state["v"][999])


PATIENT = "from dfc.cli import patience; patience.GRACE_S = 1e6; from dfc.__main__ import main; main()"
"""The command, which waits for a step as long as nobody asks again."""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_second_signal_interrupts_the_step_and_saves_the_one_before(
    number: signal.Signals, code: int, here: Path, dfc: Command
) -> None:
    with in_the_third_step("--steps", "9", "--state", "st", tool=(sys.executable, "-c", PATIENT)) as process:
        os.kill(process.pid, number)
        assert two_lines(process) == BEGINS + SAYS
        assert process.poll() is None  # the step goes on, and takes a processor
        os.kill(process.pid, number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (code, "")
    assert "train: 2 steps" in out and "stopped by a signal" in out
    assert state("st") == (2, 2.0)


IMPATIENT = "from dfc.cli import patience; patience.GRACE_S = 0.2; from dfc.__main__ import main; main()"
"""The command, which waits for a step for less than eight seconds: that they are eight is tested with a clock below."""


def test_a_step_that_does_not_end_is_interrupted_after_its_time(here: Path) -> None:
    with in_the_third_step("--steps", "9", "--state", "st", tool=(sys.executable, "-c", IMPATIENT)) as process:
        os.kill(process.pid, signal.SIGTERM)
        _, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (143, BEGINS + SAYS)
    assert state("st") == (2, 2.0)


def test_a_single_call_that_is_interrupted_gives_nothing(here: Path) -> None:
    module = dfc_runtime.load("model.bundle", summaries=lambda _: None)
    module.state["n"] = 2
    module.save("st")
    with in_the_third_step(
        "--state", "st", "--out", "out.npz", first=3, tool=(sys.executable, "-c", PATIENT)
    ) as process:
        os.kill(process.pid, signal.SIGINT)
        assert two_lines(process) == "the run goes on from st/step-1\n" + SAYS
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    assert "done" not in out and not (here / "out.npz").exists()
    assert state("st") == (2, 0.0)


class Clock:
    """A patience with a clock of its own, and what came of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.signals, self.now, self.asked, self.ended = 0, 100.0, [], []
        self.patience = Patience(lambda: 15, lambda: self.signals, thread=7, calling=True)
        monkeypatch.setattr(interrupting, "interrupt", self.asked.append)
        monkeypatch.setattr(patience, "end_at_once", self.ended.append)

    def after(self, seconds: float) -> tuple[list[int], list[int]]:
        self.now += seconds
        self.patience.look(self.now)
        return self.asked, self.ended


def test_a_call_is_interrupted_after_some_seconds_and_the_process_ended_after_ten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    assert clock.after(1000) == ([], [])
    clock.signals = 1
    assert clock.after(0) == ([], [])
    assert clock.after(7.9) == ([], [])
    assert clock.after(0.1) == ([7], [])
    assert clock.after(1.9) == ([7], [])
    assert clock.after(0.1) == ([7], [15])


def test_what_ends_at_once_says_what_is_lost_and_ends_as_its_signal_does(tmp_path: Path) -> None:
    script = "from dfc.cli.patience import end_at_once; end_at_once(15); print('it goes on')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout) == (143, "")
    assert done.stderr == "error: stopped at once; state of this run is not saved\n"


def test_what_is_no_call_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    clock.signals, clock.patience.calling = 2, False  # state is being saved, say
    assert clock.after(100) == ([], [])
    assert clock.after(100) == ([], [])
