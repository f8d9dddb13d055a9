"""Checkpoints of many ranks that are written while the program goes on: whole, in order, and never half of one call."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from dfc_runtime.checkpoints import format, store
from dfc_runtime.distributed.save import background
from dfc_runtime.errors import CheckpointError, FileError, RankError
from tests.support.clusters import cluster_bundle, on_cluster

PROGRAM = """dfg 1

var table: f64[7, 2] = 0
var w: f64[3] = 0
var n: i64 = 0

entry step(ids: i32[4], x: f64) {
  table[ids] += x
  w += x
  n += 1
}
"""
PLACES = """
job ps tasks 2
job worker tasks 1
shard "table" axis 0 over ps by modulo
place "w" on worker
place "n" on ps task 1
"""
IDS = np.array([0, 3, 4, 6], np.int32)


class Held:
    """Holds the writing of parts back until `go` is set; then one of them may fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails: int = -1) -> None:
        self.go = threading.Event()
        write = background.write_file

        def held(path, own, ends):
            assert self.go.wait(60)
            if path.name == format.task_name(fails):
                raise FileError("the disk is full", code="E0909")
            return write(path, own, ends)

        monkeypatch.setattr(background, "write_file", held)


def state(module):
    return {name: np.array(module.state[name]) for name in ("table", "w", "n")}


def saved(path):
    return {name: each.array for name, each in format.read(path).state.items()}


def same(one, other):
    return all(np.array_equal(one[name], other[name]) for name in ("table", "w", "n"))


@pytest.mark.parametrize("all_call", [False, True])
def test_calls_after_it_are_not_in_it(tmp_path, monkeypatch, all_call):
    held = Held(monkeypatch)

    def work(module):
        module.step(IDS, 1.0)
        before = state(module)
        saving = module.save_async(tmp_path)
        module.step(IDS, 2.0)
        late = state(module)
        if module.rank == 0:
            assert not saving.done
            assert store.steps_in(tmp_path) == []
            held.go.set()
        path = saving.result(20)
        return path.name, same(saved(path), before), same(saved(path), late)

    found = on_cluster(cluster_bundle(PROGRAM, PLACES), 3, work, work if all_call else None)
    assert found == ("step-1", True, False)
    assert sorted(each.name for each in (tmp_path / "step-1").iterdir()) == [
        "manifest.json",
        *(f"task-{number}.safetensors" for number in range(3)),
    ]


def test_what_comes_next_waits_for_it(tmp_path, monkeypatch):
    held = Held(monkeypatch)

    def work(module):
        module.step(IDS, 1.0)
        threading.Timer(0.05, held.go.set).start()
        module.save_async(tmp_path, keep=9)
        module.step(IDS, 1.0)
        names = [module.save_async(tmp_path, keep=9).result(20).name, module.save(tmp_path, keep=9).name]
        module.step(IDS, 1.0)
        module.save_async(tmp_path, keep=9)
        module.step(IDS, 1.0)
        module.restore(tmp_path)
        return names, float(module.state["w"][0])

    assert on_cluster(cluster_bundle(PROGRAM, PLACES), 3, work) == (["step-2", "step-3"], 3.0)
    assert [float(saved(tmp_path / f"step-{n}")["w"][0]) for n in (1, 2, 3, 4)] == [1.0, 2.0, 2.0, 3.0]


def test_closing_the_program_waits_for_it(tmp_path, monkeypatch):
    held = Held(monkeypatch)

    def work(module):
        module.step(IDS, 1.0)
        module.save_async(tmp_path)
        threading.Timer(0.05, held.go.set).start()

    on_cluster(cluster_bundle(PROGRAM, PLACES), 3, work)
    assert store.steps_in(tmp_path) == [1]


@pytest.mark.parametrize("fails", [0, 1, 2])
def test_a_part_that_cannot_be_written_is_told_and_nothing_is_published(tmp_path, monkeypatch, fails):
    held = Held(monkeypatch, fails)
    held.go.set()

    def work(module):
        module.step(IDS, 1.0)
        saving = module.save_async(tmp_path)
        with pytest.raises(FileError, match="the disk is full"):
            saving.result(20)
        module.step(IDS, 1.0)
        monkeypatch.undo()
        return module.save_async(tmp_path).result(20).name

    assert on_cluster(cluster_bundle(PROGRAM, PLACES), 3, work) == "step-1"
    assert [each.name for each in tmp_path.iterdir()] == ["step-1"]


@pytest.mark.parametrize("how", ["save", "save_async"])
def test_what_rank_0_cannot_write_is_told_when_nobody_writes_any_more(tmp_path, monkeypatch, how):
    """The disk is so full that it takes no record of what went wrong either."""
    write, replace = background.write_file, background.files.replace_file
    failed, written = threading.Event(), threading.Event()

    def in_turns(path, own, ends):
        if path.name == format.task_name(0):
            failed.set()
            raise FileError(f"cannot save a checkpoint in {tmp_path}: the disk is full", code="E0909")
        assert failed.wait(60)
        made = write(path, own, ends)
        if path.name == format.task_name(2):
            written.set()
        return made

    def full(path, pieces):
        if path.name.endswith(".failed"):
            raise OSError("no room")
        return replace(path, pieces)

    monkeypatch.setattr(background, "write_file", in_turns)
    monkeypatch.setattr(background.files, "replace_file", full)

    def work(module):
        with pytest.raises(FileError, match=f"cannot save a checkpoint in {tmp_path}: the disk is full"):
            saving = getattr(module, how)(tmp_path)
            saving.result(20)
        assert written.is_set()

    on_cluster(cluster_bundle(PROGRAM, PLACES), 3, work)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_that_nobody_asked_for_is_told_by_the_next_save(tmp_path, monkeypatch):
    held = Held(monkeypatch, 1)
    held.go.set()

    def work(module):
        module.save_async(tmp_path)
        with pytest.warns(UserWarning, match=r"was not saved: .*the disk is full"):
            saving = module.save_async(tmp_path)
        with pytest.raises(FileError, match="the disk is full"):
            saving.result(20)

    on_cluster(cluster_bundle(PROGRAM, PLACES), 3, work)


def test_a_folder_that_cannot_be_made_does_not_end_the_run(tmp_path):
    (tmp_path / "file").write_text("in the way")

    def work(module):
        saving = module.save_async(tmp_path / "file" / "saved")
        with pytest.raises(FileError, match="cannot save a checkpoint"):
            saving.result(20)
        module.step(IDS, 1.0)
        return int(module.state["n"])

    assert on_cluster(cluster_bundle(PROGRAM, PLACES), 3, work, work) == 1


def test_a_part_that_never_comes_is_named(tmp_path):
    begun = store.begin(tmp_path, format.About(0, "model"))
    w = np.zeros(3)
    background.write_part(begun.temporary, 0, [format.Saved("w", "f64", w.shape, w)], format.Ends())
    told = r"worker 1 has not written its part of step-1, and nothing moved for 0\.05 s"
    with pytest.raises(RankError, match=told):
        background.published(begun, None, ["worker 0", "worker 1"], lambda _: "{}", 0.05)
    assert list(tmp_path.iterdir()) == []


def test_ranks_that_wait_for_the_outcome_learn_that_there_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(background, "_LAG", 0.0)
    begun = store.begin(tmp_path, format.About(0, "model"))
    store.give_up(begun)
    with pytest.raises(CheckpointError, match="step-1 was not published: rank 0 knows why"):
        background.watched(begun.temporary, None, begun.target)
