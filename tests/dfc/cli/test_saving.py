"""`dfc run --save-every`: a run that is killed goes on where it was saved, and ends as if nothing had happened."""

from __future__ import annotations

import contextlib
import errno
import json
import random
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

import dfc_runtime
from dfc_runtime.checkpoints import format, store
from dfc_runtime.checkpoints.files import Disk
from tests.support.command_line import TOOL, Command, environment
from tests.support.line_program import FEEDS, bits, wait_for_handlers
from tests.support.sweeping import WHOLE

TRAIN = ("run", "line.bundle", "train", *FEEDS, "--batch", "4")
NEW = "state is a new folder: the run starts from initial state\n"
KILLS = 40
ENDLESS = 10**9


def newest(folder: str) -> format.About:
    return format.about(store.find(Path(folder)).path)


def test_state_is_saved_on_the_way_and_at_the_end(folder: Path, dfc: Command) -> None:
    ended = dfc(*TRAIN, "--steps", 10, "--state", "state", "--save-every", 3, "--keep", 9)
    assert (ended.code, ended.err) == (0, NEW)
    assert store.steps_in(Path("state")) == [4, 3, 2, 1]
    done = [format.about(Path("state") / f"step-{n}").progress["steps"] for n in (1, 2, 3, 4)]
    assert done == [3, 6, 9, 10]
    assert dfc(*TRAIN, "--steps", 10, "--state", "whole").code == 0
    assert bits("state") == bits("whole")


def test_a_run_that_ended_is_followed_by_another(folder: Path, dfc: Command) -> None:
    assert dfc(*TRAIN, "--steps", 6, "--state", "parts", "--save-every", 4).code == 0
    again = dfc(*TRAIN, "--steps", 6, "--state", "parts", "--save-every", 4, "--again")
    told = "the run goes on from parts/step-2, the end of a run of train (6 steps)\n"
    assert (again.code, again.err) == (0, told)
    assert dfc(*TRAIN, "--steps", 12, "--state", "whole").code == 0
    assert bits("parts") == bits("whole")


def cut_back(folder: str, step: int) -> None:
    """What a crash behind a checkpoint leaves."""
    for number in store.steps_in(Path(folder)):
        if number > step:
            for file in (Path(folder) / f"step-{number}").iterdir():
                file.unlink()
            (Path(folder) / f"step-{number}").rmdir()


def test_the_same_command_goes_on_behind_what_was_saved(folder: Path, dfc: Command) -> None:
    words = (*TRAIN, "--epochs", 4, "--save-every", 5, "--keep", 9)
    assert dfc(*words, "--state", "whole").code == 0
    assert dfc(*words, "--state", "cut").code == 0
    cut_back("cut", 1)
    ended = dfc(*words, "--state", "cut")
    assert (ended.code, ended.err) == (0, "the run goes on behind step 5 of 12\n")
    assert bits("cut") == bits("whole") and newest("cut").progress == newest("whole").progress
    cut_back("cut", 1)
    other = dfc(*TRAIN, "--epochs", 2, "--state", "cut")
    told = "the run goes on from cut/step-1, step 5 of 12 of another run of train\n"
    assert (other.code, other.err) == (0, told)
    assert int.from_bytes(bits("cut")["steps"], "little") == 5 + 6


def test_the_best_is_kept(folder: Path, dfc: Command) -> None:
    words = (*TRAIN, "--steps", 30, "--state", "state", "--save-every", 1, "--best", "loss")
    assert dfc(*words).code == 0
    steps = store.steps_in(Path("state"))
    assert steps[:2] == [30, 29] and len(steps) in (2, 3)
    model = dfc_runtime.load("line.bundle")
    best = dfc_runtime.Module.restore(model, "state", best=True)
    scores = [format.about(Path("state") / f"step-{n}").score for n in steps]
    assert format.about(best).score == min(scores)


def test_a_save_is_scored_by_the_call_before_it(folder: Path, dfc: Command) -> None:
    """Not by the mean of the epoch, of which there may be no end yet."""
    words = (*TRAIN, "--epochs", 1, "--state", "state", "--save-every", 1, "--keep", 9, "--best", "loss")
    ended = dfc(*words, "--out", "out.npz", "--json")
    losses = np.load("out.npz")["loss"]
    assert [format.about(Path("state") / f"step-{n}").score for n in (1, 2, 3)] == losses.tolist()
    mean = np.average(losses.astype(np.float64), weights=(4, 4, 2))
    assert json.loads(ended.out)["results"]["loss"] == pytest.approx(mean)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--save-every", 2), "want a folder: --state DIR"),
        (("--keep", 3), "want a folder: --state DIR"),
        (("--state", "s", "--best", "los"), "has no single number 'los'; did you mean 'loss'?"),
        (("--state", "s", "--keep", 1), "1 is not in the range x>=2"),
    ],
)
def test_wishes_that_make_no_sense_are_refused(
    folder: Path, dfc: Command, words: tuple[object, ...], message: str
) -> None:
    ended = dfc(*TRAIN, *words)
    assert ended.code == 2 and message in ended.message
    assert not Path("s").exists()


def test_a_save_on_the_way_that_fails_is_one_warning(
    folder: Path, dfc: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = 2
    real = Disk.rename

    def full(disk: Disk, old: Path, new: Path) -> None:
        nonlocal left
        left -= 1
        if left in (0, -1):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(disk, old, new)

    monkeypatch.setattr(Disk, "rename", full)
    ended = dfc(*TRAIN, "--steps", 10, "--state", "state", "--save-every", 2)
    assert ended.code == 0
    assert ended.err == f"{NEW}warning: cannot save a checkpoint in state: No space left on device; the run goes on\n"
    assert newest("state").progress["steps"] == 10


def test_a_last_save_that_fails_ends_with_6(folder: Path, dfc: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Disk, "create", full)
    ended = dfc(*TRAIN, "--steps", 4, "--state", "state")
    assert ended.code == 6
    assert ended.err == f"{NEW}error[E0909]: cannot save a checkpoint in state: No space left on device\n"


def test_a_folder_where_nothing_was_saved_yet_is_told(folder: Path, dfc: Command) -> None:
    (folder / "state" / f"step-1.tmp-{2**22 + 1}").mkdir(parents=True)
    ended = dfc(*TRAIN, "--steps", 4, "--state", "state", "--save-every", 2)
    assert (ended.code, ended.err) == (0, "nothing was saved in state yet: the run starts\n")


def killed(words: list[str], delay: float) -> str:
    """Runs a command, kills it some time after its first step has begun, and returns what it said."""
    with subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment(DFC_THREADS="1")
    ) as process:
        wait_for_handlers(process.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(delay)
        process.kill()
        _, err = process.communicate()
        assert process.returncode == -signal.SIGKILL, err
        return err


def test_killed_at_random_moments_it_goes_on_as_if_nothing_had_happened(folder: Path, dfc: Command) -> None:
    """Noise, counters and the place in the input are all part of what is resumed."""
    words = [str(word) for word in (TOOL, *TRAIN, "--steps", ENDLESS, "--state", "parts", "--save-every", 7)]
    chance = random.Random(4)
    told, resumed = 0, 0
    for _ in range(KILLS if WHOLE else 6):
        err = killed(words, chance.uniform(0, 0.15))
        assert "Traceback" not in err and "skipped" not in err
        resumed += "goes on behind" in err
        done = newest("parts").progress["steps"] if store.steps_in(Path("parts")) else 0
        assert isinstance(done, int) and done >= told
        told = done
    assert resumed and told > 7
    assert dfc(*TRAIN, "--steps", told, "--state", "whole").code == 0
    assert bits("parts") == bits("whole")
    assert np.frombuffer(bits("parts")["steps"], "i8")[0] == told
