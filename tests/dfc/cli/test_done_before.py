"""`dfc run --state` destroys no history: what only reads saves nothing, a run that is over is not made again, and of
two runs in one folder the older one ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import dfc_runtime
from dfc_runtime.checkpoints import format, store
from dfc_runtime.distributed.launch import epochs
from dfc_runtime.module import Module
from tests.support.command_line import TOOL, Command, environment
from tests.support.line_program import FEEDS, bits, wait_for_handlers

RUN = ("run", "line.bundle")
TRAIN = (*RUN, "train", *FEEDS, "--batch", "4")
PREDICT = (*RUN, "predict", "--feed", "x=x.npy")
FETCH = (*RUN, "--fetch", "predict/total", "--feed", "x=x.npy")


def contents(folder: Path) -> Mapping[str, bytes]:
    """Every file of a folder, by its path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("words", [PREDICT, FETCH, (*RUN, "save", "--feed", "path=other")])
def test_what_only_reads_state_leaves_the_folder_as_it_was(words: tuple[str, ...], folder: Path, dfc: Command) -> None:
    assert dfc(*TRAIN, "--epochs", 2, "--state", "state", "--save-every", 1, "--keep", 5).code == 0
    before = contents(folder / "state")
    for _ in range(3):
        ended = dfc(*words, "--state", "state")
        assert (ended.code, ended.err) == (0, "")
    assert contents(folder / "state") == before and store.steps_in(folder / "state") == [6, 5, 4, 3, 2]


def test_what_only_reads_state_asks_to_write_nothing(
    folder: Path, dfc: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a folder that is read-only, which a test of root cannot make."""
    assert dfc(*TRAIN, "--state", "state").code == 0
    expected = dfc(*PREDICT, "--state", "state").out

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    for name in ("mkdir", "rename", "unlink", "rmdir"):
        monkeypatch.setattr(os, name, refused)
    assert dfc(*PREDICT, "--state", "state").out == expected


@pytest.mark.parametrize("words", [("--save-every", 2), ("--keep", 3), ("--best", "total")])
def test_wishes_to_save_what_does_not_change_are_refused(words: tuple[object, ...], folder: Path, dfc: Command) -> None:
    assert dfc(*TRAIN, "--state", "state").code == 0
    ended = dfc(*PREDICT, "--state", "state", *words)
    assert ended.code == 2
    assert ended.err == "error: --save-every, --keep and --best save state, and 'predict' changes none\n"


@pytest.mark.parametrize("words", [PREDICT, FETCH])
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("stat", "stat does not exist; did you mean state?\n  in . there are checkpoints in state\n"),
        ("state/step-9", "state/step-9 does not exist, and no folder in state holds checkpoints\n"),
        ("no/where", "no/where does not exist: neither does no\n"),
        (".", ". holds no checkpoint\n  in . there are checkpoints in state\n"),
        ("full", "full holds no checkpoint; it holds a, b\n"),
        ("line.dfg", "line.dfg is no folder, and checkpoints lie in folders\n"),
    ],
)
def test_state_that_is_not_there_is_an_error_for_what_reads_it(
    words: tuple[str, ...], name: str, told: str, folder: Path, dfc: Command
) -> None:
    assert dfc(*TRAIN, "--state", "state").code == 0
    (folder / "full").mkdir()
    for each in ("a", "b"):
        (folder / "full" / each).touch()
    before = contents(folder)
    ended = dfc(*words, "--state", name)
    assert (ended.code, ended.out, ended.err) == (5, "", f"error[E0908]: {told}")
    assert contents(folder) == before


def test_one_checkpoint_can_be_looked_at(folder: Path, dfc: Command) -> None:
    assert dfc(*RUN, "fill", "--feed", "value=0", "--state", "state").code == 0
    assert dfc(*RUN, "fill", "--feed", "value=1", "--state", "state").code == 0
    for option in ("--state", "--from"):
        assert dfc(*PREDICT, option, "state/step-1").out.endswith("total 0\n")


@pytest.mark.parametrize("name", ["state/step-1", "state/step-1/", "./state/../state/step-1"])
def test_state_is_not_saved_in_a_checkpoint(name: str, folder: Path, dfc: Command) -> None:
    for epochs_ in (1, 2):
        assert dfc(*TRAIN, "--epochs", epochs_, "--state", "state").code == 0
    before = contents(folder)
    ended = dfc(*TRAIN, "--epochs", 3, "--state", name)
    path = Path(name)
    assert ended.code == 2
    assert ended.message == (
        f"error: {path} is one checkpoint, and state is saved beside it\n"
        f"  --from {path} --state {path.parent} goes on from it\n"
    )
    assert contents(folder) == before
    ended = dfc(*TRAIN, "--epochs", 3, *ended.message.splitlines()[1].split()[:4])
    assert ended.code == 0
    assert ended.err == f"the run starts from {path}, the end of a run of train (3 steps)\n"
    assert int.from_bytes(bits("state")["steps"], "little") == 3 + 9
    assert store.steps_in(folder / "state") == [3, 2]


def test_a_name_among_checkpoints_is_no_folder_for_others(folder: Path, dfc: Command) -> None:
    assert dfc(*TRAIN, "--state", "state").code == 0
    ended = dfc(*TRAIN, "--state", "state/step-9")
    assert ended.code == 2
    assert ended.message == "error: state/step-9 would be one of the checkpoints in state: name another folder\n"
    assert not (folder / "state" / "step-9").exists()


def test_a_folder_inside_of_a_checkpoint_is_refused(
    folder: Path, dfc: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert dfc(*TRAIN, "--state", "state").code == 0
    (folder / "link").symlink_to("state/step-1")
    before = contents(folder)
    for inside in ("state/step-1/inner", "state/step-1/a/b", "link/inner", "state/./step-1/../step-1/inner"):
        ended = dfc(*TRAIN, "--state", inside)
        assert (ended.code, "would be removed with it: name a folder elsewhere" in ended.message) == (2, True), inside
        assert contents(folder) == before
    with pytest.raises(dfc_runtime.CheckpointError, match=r"lies in the checkpoint .*step-1, and would be removed"):
        Module.save(dfc_runtime.load("line.bundle"), "state/step-1/inner")
    monkeypatch.chdir(folder / "state" / "step-1")
    assert dfc("run", folder / "line.bundle", *TRAIN[2:], "--state", "inner").code == 2


def test_what_a_save_has_left_is_no_folder_for_others(folder: Path, dfc: Command) -> None:
    assert dfc(*TRAIN, "--state", "state/step-7.tmp-1/inner").code == 2
    assert not (folder / "state").exists()


def test_a_way_round_to_a_name_among_checkpoints_is_refused_alike(folder: Path, dfc: Command) -> None:
    assert dfc(*TRAIN, "--state", "state").code == 0
    ended = dfc(*TRAIN, "--state", "state/step-9/../step-9")
    assert (ended.code, "would be one of the checkpoints" in ended.message) == (2, True)
    assert "new folder" not in ended.err


def test_stages_may_be_called_like_checkpoints(folder: Path, dfc: Command) -> None:
    for stage in ("stages/step-1", "stages/step-2"):
        for _ in range(2):
            assert dfc(*TRAIN, "--state", stage, "--again").code == 0
        assert store.steps_in(folder / stage) == [2, 1]


def test_a_module_saves_in_no_checkpoint_either(folder: Path) -> None:
    model = dfc_runtime.load("line.bundle")
    path = Module.save(model, "state")
    with pytest.raises(dfc_runtime.CheckpointError, match=r"step-1 is one checkpoint, .*: save in state$"):
        Module.save(model, path)


def test_the_same_command_is_done_before(folder: Path, dfc: Command) -> None:
    words = (*TRAIN, "--epochs", 2, "--state", "state", "--save-every", 4, "--out", "out.npz")
    first = dfc(*words)
    before = contents(folder)
    again = dfc(*words)
    assert again.code == 0
    assert again.out == f"train: done before, 6 steps  {first.out.split('  ')[1]}"
    assert again.err == (
        "this run was done before, and is saved in state: --again makes it once more, from where it ended\n"
    )
    assert contents(folder) == before
    told = json.loads(dfc(*words, "--json").out)
    assert told["done_before"] is True and told["steps"] == 6 and set(told["results"]) == {"loss"}
    (folder / "out.npz").unlink()
    ended = dfc(*words)
    assert ended.code == 2 and "out.npz is not there" in ended.message


METRICS = """dfg 1

param w: f32[3] = 0.5

entry train[B](x: f32[B, 3], y: f32[B]) -> (loss: f32, worst: f32, spread: bf16, hits: i32, off: f32[B]) {
  let off = x @ w - y
  let loss = mean(square(off))
  w -= 0.01 * grad(loss, w)
  return loss, max(abs(off)), sqrt(loss) as bf16, sum((off < 0.5) as i32), off / 0.0
}
"""


@pytest.mark.parametrize("words", [("--batch", "4"), ("--batch", "4", "--last", "drop"), ("--steps", "3")])
def test_what_was_done_before_is_told_as_it_was(words: tuple[str, ...], folder: Path, dfc: Command) -> None:
    Path("metrics.dfg").write_text(METRICS)
    command = ("run", "metrics.dfg", "train", *FEEDS[:4], *words, "--state")
    first, again = dfc(*command, "text"), dfc(*command, "text")
    steps, results = first.out.split()[1], first.out.split("  ", 1)[1]
    assert again.out == f"train: done before, {steps} steps  {results}"
    first, again = (json.loads(dfc(*command, "json", "--json").out) for _ in range(2))
    assert again == {**first, "seconds": 0.0, "done_before": True}
    assert {*again["results"]} == {"loss", "worst", "spread", "hits", "off"}


def test_long_results_are_no_part_of_a_checkpoint(folder: Path, dfc: Command) -> None:
    Path("metrics.dfg").write_text(METRICS)
    np.savez("data.npz", x=np.zeros((900, 3), np.float32), y=np.zeros(900, np.float32))
    command = ("run", "metrics.dfg", "train", *FEEDS[:4], "--steps", "2", "--state")
    first, again = dfc(*command, "text"), dfc(*command, "text")
    assert again.out == f"train: done before, 2 steps  {first.out.split('  ', 1)[1]}"
    first, again = (json.loads(dfc(*command, "json", "--json").out) for _ in range(2))
    assert len(first["results"].pop("off")) == 900
    assert again["results"] == first["results"]


def test_other_feeds_settings_and_programs_are_other_runs(folder: Path, dfc: Command) -> None:
    words = [*RUN, "train", *FEEDS, "--steps", "3", "--state", "state"]
    data = dict(np.load("data.npz"))
    assert dfc(*words).code == 0
    assert "done before" in dfc(*words).out
    assert "done before" in dfc(*words, "--threads", 2, "--keep", 3).out
    changed = words.copy()
    changed[changed.index("rate=0.01")] = "rate=0.02"
    data["x"][0, 0] += 1
    np.savez("other.npz", **data)
    Path("line.dfg").write_text(Path("line.dfg").read_text().replace("0.01 * noise", "0.02 * noise"))
    others = [
        changed,
        [word.replace("x=data.npz", "x=other.npz") for word in words],
        ["4" if word == "3" else word for word in words],
        [*words, "--batch", "4"],
        ["line.dfg" if word == "line.bundle" else word for word in words],
    ]
    for step, other in enumerate(others, 1):
        ended = dfc(*other)
        assert ended.code == 0 and f"the run goes on from state/step-{step}, the end of a run of train" in ended.err
    shutil.copy("data.npz", "copy.npz")
    assert "done before" not in dfc(*words).out, "others have trained meanwhile"
    assert "done before" in dfc(*[word.replace("data.npz", "copy.npz") for word in words]).out


def test_calls_one_by_one_are_made_each_time(folder: Path, dfc: Command) -> None:
    for count in (1, 2, 3):
        ended = dfc(*RUN, "train", *FEEDS, "--state", "state")
        assert ended.code == 0
        assert int.from_bytes(bits("state")["steps"], "little") == count
    assert ended.err == "the run goes on from state/step-2, the end of a run of train (1 step)\n"


def test_a_run_that_starts_elsewhere_leaves_that_alone_and_goes_on_by_itself(folder: Path, dfc: Command) -> None:
    assert dfc(*TRAIN, "--epochs", 1, "--state", "first").code == 0
    before = contents(folder / "first")
    words = (*TRAIN, "--epochs", 2, "--from", "first", "--state", "second", "--save-every", 1, "--keep", 9)
    ended = dfc(*words)
    assert ended.err == "the run starts from first/step-1, the end of a run of train (3 steps)\n"
    whole = bits("second")
    assert int.from_bytes(whole["steps"], "little") == 9
    assert "done before" in dfc(*words).out
    for step in (5, 6):
        shutil.rmtree(folder / "second" / f"step-{step}")
    assert dfc(*words).err == "the run goes on behind step 4 of 6\n"
    assert bits("second") == whole
    assert contents(folder / "first") == before
    assert dfc(*words, "--again").err == ended.err
    assert bits("second") == whole
    ended = dfc(*TRAIN, "--epochs", 2, "--from", "absent", "--state", "third")
    assert ended.code == 5 and not (folder / "third").exists()


@pytest.mark.parametrize(("done", "lost"), [(1, 0), (3, 0), (4, 1), (5, 2)])
def test_results_that_a_resumed_run_does_not_have_are_told(done: int, lost: int, folder: Path, dfc: Command) -> None:
    words = (*TRAIN, "--epochs", 2, "--state", "state", "--save-every", 1, "--keep", 9, "--out", "out.npz")
    assert dfc(*words).code == 0
    for later in range(done + 1, 7):
        shutil.rmtree(folder / "state" / f"step-{later}")
    told = f"warning: out.npz lacks the results of the first {lost} of 3 steps of the last epoch, "
    lines = [f"the run goes on behind step {done} of 6", f"{told}which were made before"][: 1 + (lost > 0)]
    ended = dfc(*words)
    assert (ended.code, ended.err.splitlines()) == (0, lines)
    assert np.load("out.npz")["loss"].shape == (3 - lost,)


def test_again_wants_a_folder(folder: Path, dfc: Command) -> None:
    ended = dfc(*TRAIN, "--again")
    assert (ended.code, ended.err) == (2, "error: --again wants the folder of the run that is over: --state DIR\n")


def test_how_many_stay_is_remembered(folder: Path, dfc: Command) -> None:
    words = (*TRAIN, "--state", "state", "--save-every", 1)
    assert dfc(*words, "--steps", 9, "--keep", 5).code == 0
    assert dfc(*words, "--steps", 8).code == 0
    assert len(store.steps_in(folder / "state")) == 5
    model = dfc_runtime.load("line.bundle")
    Module.restore(model, "state")
    Module.save(model, "state")
    model.save(path="state")
    assert len(store.steps_in(folder / "state")) == 5
    assert dfc(*words, "--steps", 7, "--keep", 3).code == 0
    assert dfc(*words, "--steps", 6).code == 0
    assert len(store.steps_in(folder / "state")) == 3


def test_a_checkpoint_of_an_earlier_version_is_gone_on_from(folder: Path, dfc: Command) -> None:
    model = dfc_runtime.load("line.bundle")
    Module.save(model, "state", progress={"run": "0123456789abcdef", "steps": 3, "total": 9})
    text = (folder / "state" / "step-1" / "manifest.json").read_text()
    assert "keep" not in text
    ended = dfc(*TRAIN, "--state", "state")
    assert (ended.code, ended.err) == (0, "the run goes on from state/step-1\n")


@pytest.mark.parametrize("make", [lambda path: path.touch(), lambda path: path.symlink_to("..")])
def test_state_that_cannot_be_written_is_told_before_training(folder: Path, dfc: Command, make: object) -> None:
    assert callable(make)
    assert dfc(*TRAIN, "--state", "state").code == 0
    for path in (folder / "state" / "epochs").iterdir():
        path.unlink()
    (folder / "state" / "epochs").rmdir()
    make(folder / "state" / "epochs")
    before = sorted(folder.iterdir())
    ended = dfc(*TRAIN, "--steps", 10**9, "--state", "state")
    told = "error[E0909]: cannot save checkpoints in state: state/epochs is no folder\n"
    assert (ended.code, ended.err) == (6, told)
    assert sorted(folder.iterdir()) == before
    ended = dfc(*TRAIN, "--steps", 10**9, "--state", "/proc/state")
    assert ended.code == 6 and ended.message.startswith("error[E0909]: cannot save checkpoints in /proc/state: ")


def test_of_two_runs_in_one_folder_the_older_one_ends_with_one_message(folder: Path, dfc: Command) -> None:
    words = [str(TOOL), *TRAIN, "--steps", str(10**9), "--state", "state", "--save-every", "1000"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment(DFC_THREADS="1")) as older:
        try:
            wait_for_handlers(older.pid)
            while not store.steps_in(folder / "state"):
                time.sleep(0.01)
            assert dfc(*PREDICT, "--state", "state").code == 0, "to look at it disturbs nobody"
            assert older.poll() is None
            assert dfc(*TRAIN, "--steps", 5, "--state", "state").code == 0
            _, err = older.communicate(timeout=60)
        finally:
            older.kill()
    assert older.returncode == 75
    told = "error[E0911]: another run saves in state now: this one (session 1, the other is 2) ends\n"
    assert err == f"state is a new folder: the run starts from initial state\n{told}"
    newest = store.find(folder / "state").checkpoint.about
    assert newest.progress["total"] == 5


def test_a_run_whose_folder_was_taken_publishes_nothing(folder: Path) -> None:
    model = dfc_runtime.load("line.bundle")
    mine = epochs.take(Path("state"))
    Module.save(model, "state", epoch=mine)
    epochs.take(Path("state"))
    with pytest.raises(epochs.ReplacedError):
        Module.save(model, "state", epoch=mine)
    with pytest.raises(epochs.ReplacedError):
        Module.save_async(model, "state", epoch=mine).result()
    assert sorted(path.name for path in Path("state").iterdir()) == ["epochs", "step-1"]


def test_a_run_stopped_by_a_signal_is_not_over(folder: Path, dfc: Command) -> None:
    words = [*TRAIN, "--steps", str(10**9), "--state", "state"]
    with subprocess.Popen(
        [str(TOOL), *words], stderr=subprocess.PIPE, text=True, env=environment(DFC_THREADS="1")
    ) as process:
        wait_for_handlers(process.pid)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    progress = format.about(store.find(folder / "state").path).progress
    assert "results" not in progress
    steps = progress["steps"]
    with subprocess.Popen(
        [str(TOOL), *words], stderr=subprocess.PIPE, text=True, env=environment(DFC_THREADS="1")
    ) as process:
        wait_for_handlers(process.pid)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert err.startswith(f"the run goes on behind step {steps} of 1000000000\n")
