"""`dfc run --state`: saved and restored bit for bit, and what happens to a run that a signal stops."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dfc_runtime.checkpoints import store
from tests.support.command_line import TOOL, Command, environment
from tests.support.line_program import FEEDS, bits, wait_for_handlers

TRAIN = ("run", "line.bundle", "train", *FEEDS, "--batch", "4")
ENDLESS = ("--steps", "1000000000")


def test_a_resumed_run_equals_one_that_was_not_interrupted(folder: Path, dfc: Command) -> None:
    assert dfc(*TRAIN, "--epochs", 6, "--state", "whole").code == 0
    for epochs in (1, 2, 3):
        assert dfc(*TRAIN, "--epochs", epochs, "--state", "parts").code == 0
    assert bits("parts") == bits("whole")
    assert set(bits("whole")) == {"w", "steps", "dice"}


def test_without_state_every_run_starts_over(folder: Path, dfc: Command) -> None:
    words = ("run", "line.bundle", "predict", "--feed", "x=x.npy", "--json")
    before = dfc(*words).out.split('"results"')[1]
    assert dfc(*TRAIN).code == 0
    assert dfc(*words).out.split('"results"')[1] == before


def test_a_readonly_entry_sees_what_was_trained(folder: Path, dfc: Command) -> None:
    assert dfc("run", "line.bundle", "fill", "--feed", "value=0", "--state", "state").code == 0
    told = dfc("run", "line.bundle", "predict", "--feed", "x=x.npy", "--state", "state").out
    assert told.endswith("total 0\n")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("full", "full holds no checkpoint; it holds notes"),
        ("line.dfg", "is no folder, and checkpoints lie in folders"),
    ],
)
def test_a_state_that_is_none_is_refused(name: str, told: str, folder: Path, dfc: Command) -> None:
    (folder / "full").mkdir()
    (folder / "full" / "notes").touch()
    ended = dfc(*TRAIN, "--state", name)
    assert ended.code == 5
    assert "error[E0908]" in ended.message and told in ended.message
    assert [path.name for path in (folder / "full").iterdir()] == ["notes"]


def test_a_run_begins_in_an_empty_folder(folder: Path, dfc: Command) -> None:
    (folder / "empty").mkdir()
    ended = dfc(*TRAIN, "--state", "empty")
    assert (ended.code, ended.err) == (0, "empty is a new folder: the run starts from initial state\n")
    assert store.steps_in(folder / "empty") == [1]


def test_the_state_of_another_program_is_refused_whole(folder: Path, dfc: Command) -> None:
    assert dfc(*TRAIN, "--state", "state").code == 0
    before = bits("state")
    ended = dfc("run", "line.dfg", "fill", "--set", "WIDTH=4", "--feed", "value=1", "--state", "state")
    assert ended.code == 5
    assert "error[E0902]" in ended.message
    assert "f32[4]" in ended.err
    assert bits("state") == before


def test_a_run_that_fails_saves_nothing(folder: Path, dfc: Command) -> None:
    ended = dfc(*TRAIN[:-2], "--feed", "rate=x.npy", "--state", "state")
    assert ended.code == 2
    assert not (folder / "state").exists()
    assert dfc(*TRAIN, "--state", "state").code == 0
    before = sorted(path.name for path in (folder / "state").iterdir())
    assert dfc(*TRAIN[:-2], "--feed", "rate=x.npy", "--state", "state").code == 2
    assert sorted(path.name for path in (folder / "state").iterdir()) == before


@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[str]]:
    """A run in a process of its own that has begun to make steps: its bundle is open and its signals are caught."""
    with subprocess.Popen(
        [str(TOOL), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(DFC_THREADS="1"),
    ) as process:
        try:
            wait_for_handlers(process.pid)
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_run_between_two_steps_and_saves(
    number: signal.Signals, code: int, folder: Path, dfc: Command
) -> None:
    with running(*TRAIN, *ENDLESS, "--state", "stopped") as process:
        os.kill(process.pid, number)
        out, err = process.communicate(timeout=60)
    begun, *stopping = err.splitlines()
    assert begun == "stopped is a new folder: the run starts from initial state"
    assert (process.returncode, stopping) == (code, ["stopping after this step; again to stop now"])
    assert "stopped by a signal" in out
    steps = int.from_bytes(bits("stopped")["steps"], "little")
    assert steps > 0
    assert dfc(*TRAIN, "--steps", steps, "--state", "whole").code == 0
    assert bits("whole") == bits("stopped")


def test_a_second_signal_ends_the_run_at_once(folder: Path) -> None:
    with running(*TRAIN, *ENDLESS, "--json") as process:
        os.kill(process.pid, signal.SIGINT)
        os.kill(process.pid, signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode in (130, 143, -signal.SIGTERM)
    assert "Traceback" not in err


def test_json_tells_that_a_run_was_stopped(folder: Path) -> None:
    with running(*TRAIN, *ENDLESS, "--json") as process:
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 143
    assert '"stopped": true' in out


def test_a_folder_without_a_name_is_refused(folder: Path, dfc: Command) -> None:
    before = sorted(folder.iterdir())
    for option in ("--state", "--from"):
        ended = dfc(*TRAIN, option, "")
        assert (ended.code, ended.message) == (
            2,
            f"error: {option} wants the name of a folder, and this one is empty\n",
        )
    assert sorted(folder.iterdir()) == before


def test_a_folder_that_is_a_link_to_nothing_is_named(folder: Path, dfc: Command) -> None:
    (folder / "link").symlink_to("nowhere")
    for state in ("link", "link/deep"):
        ended = dfc(*TRAIN, "--state", state)
        text = f"error[E0909]: cannot save checkpoints in {state}: link is a link to nowhere, which is not there\n"
        assert (ended.code, ended.message) == (6, text)
