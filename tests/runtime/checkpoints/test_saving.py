"""What is kept, what is best, and saves that go on while the program does."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import dfc_runtime
from dfc_runtime import Module
from dfc_runtime.checkpoints import format, store
from dfc_runtime.errors import CheckpointError, FeedError, FileError
from tests.support.natives import program
from tests.support.sweeping import few


@pytest.fixture
def model() -> Module:
    return dfc_runtime.loads(program().to_bytes())


def test_as_many_stay_as_are_asked_for(tmp_path: Path, model: Module) -> None:
    for _ in range(6):
        Module.save(model, tmp_path, keep=4)
    assert store.steps_in(tmp_path) == [6, 5, 4, 3]
    Module.save(model, tmp_path)
    assert store.steps_in(tmp_path) == [7, 6, 5, 4], "as many as were said last"
    Module.save(model, tmp_path, keep=2)
    assert store.steps_in(tmp_path) == [8, 7]


def test_the_best_stays_and_can_be_restored(tmp_path: Path, model: Module) -> None:
    for score in (0.5, 0.25, float("nan"), 0.375, 0.5):
        model.state["count"] = int(score * 8) if score == score else 99
        Module.save(model, tmp_path, best=score)
    assert store.steps_in(tmp_path) == [5, 4, 2]
    assert Module.restore(model, tmp_path, best=True).name == "step-2"
    assert model.state["count"] == 2
    assert Module.restore(model, tmp_path).name == "step-5"
    Module.save(model, tmp_path, best=np.float32(0.25))
    assert Module.restore(model, tmp_path, best=True).name == "step-6"
    assert store.steps_in(tmp_path) == [6, 5]


def test_the_best_of_checkpoints_without_scores_is_none(tmp_path: Path, model: Module) -> None:
    Module.save(model, tmp_path)
    with pytest.raises(CheckpointError, match="holds no checkpoint with a score"):
        Module.restore(model, tmp_path, best=True)


def test_a_best_checkpoint_that_is_damaged_is_skipped(tmp_path: Path, model: Module) -> None:
    for score in (1, 2):
        path = Module.save(model, tmp_path, best=score)
    data = (path.parent / "step-1" / "task-0.safetensors").read_bytes()
    (path.parent / "step-1" / "task-0.safetensors").write_bytes(data[:-1])
    with pytest.warns(UserWarning, match="step-1"):
        assert Module.restore(model, tmp_path, best=True).name == "step-2"


@pytest.mark.parametrize(
    "wrong", [{"keep": 1}, {"keep": True}, {"keep": "2"}, {"best": "low"}, {"best": [1]}, {"step": -1}, {"step": 1.5}]
)
def test_wishes_that_make_no_sense_are_refused(tmp_path: Path, model: Module, wrong: dict[str, object]) -> None:
    with pytest.raises(FeedError):
        Module.save(model, tmp_path, **wrong)
    with pytest.raises(FeedError):
        Module.save_async(model, tmp_path, **wrong).result()
    assert not list(tmp_path.iterdir())


def test_progress_is_kept(tmp_path: Path, model: Module) -> None:
    path = Module.save(model, tmp_path, progress={"run": "abc", "steps": 7})
    assert format.about(path).progress == {"run": "abc", "steps": 7}
    assert format.about(Module.save(model, tmp_path)).progress == {}


class Held:
    """Stops every save before it writes, until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go = threading.Event()
        self.problem: Exception | None = None
        self._real = store.publish
        monkeypatch.setattr(store, "publish", self._publish)

    def _publish(self, *arguments: object, **named: object) -> Path:
        assert self.go.wait(60)
        if self.problem is not None:
            raise self.problem
        return self._real(*arguments, **named)


def test_what_happens_after_the_call_is_not_in_the_checkpoint(
    tmp_path: Path, model: Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in few(range(100), 10):
        held = Held(monkeypatch)
        model.state["count"] = number
        model.state["w"] = np.full((2, 3), number, "f4")
        saving = model.save_async(tmp_path / "there")
        model.tick()
        model.state["w"] = np.zeros((2, 3), "f4")
        assert not saving.done
        held.go.set()
        found = format.read(saving.result(60)).state
        assert found["count"].array == number and (found["w"].array == number).all()
        monkeypatch.undo()


def test_checkpoints_are_numbered_in_the_order_of_the_calls(tmp_path: Path, model: Module) -> None:
    begun = []
    for number in range(5):
        model.state["count"] = number
        begun.append(model.save_async(tmp_path, keep=10))
    model.state["count"] = 5
    assert Module.save(model, tmp_path, keep=10).name == "step-6"
    assert [saving.result().name for saving in begun] == [f"step-{n}" for n in range(1, 6)]
    for number in range(6):
        assert format.read(tmp_path / f"step-{number + 1}").state["count"].array == number


def test_a_restore_waits_for_what_is_being_saved(
    tmp_path: Path, model: Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    model.state["count"] = 8
    saving = model.save_async(tmp_path)
    model.state["count"] = 9
    threading.Timer(0.05, held.go.set).start()
    assert Module.restore(model, tmp_path) == saving.result()
    assert model.state["count"] == 8


def test_what_went_wrong_is_told_where_the_result_is_asked_for(
    tmp_path: Path, model: Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    held.problem = FileError("the disk is full", code="E0909")
    saving = model.save_async(tmp_path)
    with pytest.raises(TimeoutError):
        saving.result(0)
    held.go.set()
    with pytest.raises(FileError, match="the disk is full"):
        saving.result()
    monkeypatch.undo()
    assert Module.save(model, tmp_path).name == "step-1"  # no warning: somebody has been told


def test_a_failure_that_nobody_asked_for_is_told_by_the_next_save(
    tmp_path: Path, model: Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    held.problem = FileError("the disk is full", code="E0909")
    model.save_async(tmp_path).wait(0)
    held.go.set()
    monkeypatch.undo()
    with pytest.warns(UserWarning, match="was not saved: .*the disk is full"):
        Module.save(model, tmp_path)


def test_two_modules_of_one_process_save_to_one_folder(tmp_path: Path) -> None:
    models = [dfc_runtime.loads(program().to_bytes()) for _ in range(2)]
    begun = [model.save_async(tmp_path, keep=100) for _ in range(5) for model in models]
    assert sorted(saving.result().name for saving in begun) == sorted(f"step-{n}" for n in range(1, 11))
