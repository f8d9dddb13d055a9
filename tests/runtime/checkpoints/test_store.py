from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

import dfc_runtime
from dfc_runtime import Module, observation
from dfc_runtime.checkpoints import format, store
from dfc_runtime.checkpoints.files import Disk
from dfc_runtime.checkpoints.format import About, Saved
from dfc_runtime.errors import CheckpointError, FeedError, FileError
from tests.support.bundles import Sketch, entry, state
from tests.support.natives import program


@pytest.fixture
def model() -> Module:
    return dfc_runtime.loads(program().to_bytes())


def with_state(*types: tuple[str, str]) -> Module:
    return dfc_runtime.loads(Sketch([(entry("f", {}), "nothing")], [state(n, t) for n, t in types]).to_bytes())


def snapshot(model: Module) -> dict[str, bytes]:
    return {name: np.asarray(model.state[name]).tobytes() for name in model.state}


def test_what_was_saved_comes_back_bit_for_bit(tmp_path: Path) -> None:
    types = (
        "bool[3]",
        "i8[2]",
        "u64",
        "f16[4]",
        "bf16[3]",
        "f32[2, 2]",
        "f64",
        "c64[2]",
        "c128[2]",
        "f32[0, 3]",
        "c128",
    )
    model = with_state(*((f"v{i}", t) for i, t in enumerate(types)))
    generator = np.random.default_rng(0)
    for array in model.state.arrays.values():
        raw = generator.integers(0, 2, array.nbytes, "u1")
        array.reshape(-1).view("u1")[:] = raw
    before = snapshot(model)
    path = model.save(tmp_path / "there")
    for array in model.state.arrays.values():
        array[...] = 0
    assert model.restore(tmp_path / "there") == path
    assert snapshot(model) == before


def test_any_reader_of_safetensors_opens_a_checkpoint(tmp_path: Path, model: Module) -> None:
    path = Module.save(model, tmp_path)
    found = safetensors.numpy.load_file(path / "task-0.safetensors")
    assert found.keys() == {"w", "count"}
    np.testing.assert_array_equal(found["w"], model.state["w"])
    assert json.loads((path / "manifest.json").read_text())["step"] == 1


def test_entries_save_and_restore_what_they_name(tmp_path: Path, model: Module) -> None:
    model.tick()
    model.save(tmp_path / "a")
    model.tick()
    model.restore(path=tmp_path / "a")
    assert model.tick().count == 2


def test_an_entry_that_restores_takes_names_and_patterns(tmp_path: Path, model: Module) -> None:
    model.tick()
    model.save(tmp_path)
    model.state["w"] = np.zeros((2, 3), "f4")
    model.tick()
    model.restore(tmp_path, only="w")
    assert model.state["w"].max() == 5
    assert model.state["count"] == 2
    with pytest.raises(FeedError, match="has no feed only"):
        model.save(tmp_path, only="w")


def test_state_that_is_not_to_be_saved_is_not(tmp_path: Path, model: Module) -> None:
    assert set(format.read(Module.save(model, tmp_path)).state) == {"w", "count"}


def test_a_checkpoint_that_does_not_fit_changes_nothing_and_lists_every_difference(tmp_path: Path) -> None:
    old = with_state(("w1", "f32[784, 256]"), ("weights2", "f32[256, 10]"), ("b", "f32[10]"))
    old.save(tmp_path / "monday")
    new = with_state(("w1", "f32[784, 128]"), ("w2", "f32[128, 10]"), ("b", "f32[10]"))
    before = snapshot(new)
    with pytest.raises(CheckpointError) as caught:
        new.restore(tmp_path / "monday")
    assert caught.value.code == "E0902"
    assert caught.value.message == (
        f"{tmp_path}/monday does not fit model; nothing was restored\n"
        "  shape differs   w1        f32[784, 256] in the checkpoint, f32[784, 128] in the program (model.dfg:12)\n"
        "  not in program  weights2  f32[256, 10]\n"
        "  not in file     w2        f32[128, 10] (model.dfg:12)\n"
        '  only="b" restores what fits'
    )
    assert snapshot(new) == before


NOTHING = "nothing that is missing here is in it: it is of another program, or of other settings"


@pytest.mark.parametrize(
    ("saved", "here", "remedy"),
    [
        (
            {"bias": "f32[10]", "weights": "f32[4, 10]"},
            {"w": "f32[4, 10]", "other": "f32[3]"},
            'rename={"weights": "w"} maps names',
        ),
        ({"a": "f32[4]"}, {"b": "f32[5]"}, NOTHING),
        ({"w": "f32[4]"}, {"w": "f32[5]"}, NOTHING),
        (
            {"a.k": "f32[2]", "b.k": "f32[2]", "n": "i64"},
            {"net.b.k": "f32[2]", "net.a.k": "f32[2]", "n": "i64"},
            'rename={"a.k": "net.a.k", "b.k": "net.b.k"} maps names; only="n" restores what fits',
        ),
        (
            dict.fromkeys("abcdef", "f32"),
            dict.fromkeys("abcdefg", "f32"),
            'only=["a", "b", "c", "d", ...] restores what fits',
        ),
    ],
)
def test_the_remedy_is_one_that_works(saved: dict, here: dict, remedy: str, tmp_path: Path) -> None:
    with_state(*saved.items()).save(tmp_path)
    model = with_state(*here.items())
    with pytest.raises(CheckpointError) as caught:
        model.restore(tmp_path)
    assert caught.value.message.splitlines()[-1].strip() == remedy


def test_proposed_names_are_taken(tmp_path: Path) -> None:
    with_state(("bias", "f32[10]"), ("weights", "f32[4, 10]")).save(tmp_path)
    fresh = with_state(("w", "f32[4, 10]"), ("b", "f32[10]"))
    with pytest.raises(CheckpointError) as caught:
        fresh.restore(tmp_path)
    told = caught.value.message.splitlines()[-1]
    assert told.strip() == 'rename={"bias": "b", "weights": "w"} maps names'
    fresh.restore(tmp_path, rename={"bias": "b", "weights": "w"})


def test_names_are_mapped_and_parts_restored(tmp_path: Path) -> None:
    old = with_state(("a", "f32[2]"), ("b", "f32[3]"))
    old.state["a"], old.state["b"] = np.full(2, 5, "f4"), np.full(3, 6, "f4")
    old.save(tmp_path)
    renamed = with_state(("x", "f32[2]"), ("b", "f32[3]"))
    renamed.restore(tmp_path, rename={"a": "x"})
    assert renamed.state["x"].tolist() == [5, 5]
    part = with_state(("b", "f32[3]"), ("other", "f32[9]"))
    part.restore(tmp_path, only=["b"])
    assert part.state["b"].tolist() == [6, 6, 6]
    for wrong in ({"only": 3}, {"only": [3]}, {"rename": "a"}, {"rename": {"a": 1}}):
        with pytest.raises(FeedError):
            renamed.restore(tmp_path, **wrong)
    for rename in ({"zzz": "x"}, {"a": "b"}):
        with pytest.raises(CheckpointError):
            renamed.restore(tmp_path, rename=rename)
    with pytest.raises(CheckpointError, match=r"^\[E0902\] only='zzz\*' matches no state; there is x, b$"):
        renamed.restore(tmp_path, only="zzz*")


def test_numbers_grow_and_at_least_two_checkpoints_stay(tmp_path: Path, model: Module) -> None:
    names = [Module.save(model, tmp_path).name for _ in range(4)]
    assert names == ["step-1", "step-2", "step-3", "step-4"]
    assert store.steps_in(tmp_path) == [4, 3]
    assert Module.save(model, tmp_path, step=100).name == "step-100"
    with pytest.raises(CheckpointError, match="checkpoint of step 100 already"):
        Module.save(model, tmp_path, step=100)
    assert Module.save(model, tmp_path).name == "step-101"


def test_old_checkpoints_go_only_after_the_new_one_was_read_back(
    tmp_path: Path, model: Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        Module.save(model, tmp_path)
    events: list[str] = []
    monkeypatch.setattr(observation, "listeners", [events.append])
    Module.save(model, tmp_path)
    assert events == ["verified step-3", "remove step-1"]


def test_a_damaged_checkpoint_is_skipped_for_the_one_before(tmp_path: Path, model: Module) -> None:
    Module.save(model, tmp_path)
    model.tick()
    newest = Module.save(model, tmp_path)
    data = bytearray((newest / "task-0.safetensors").read_bytes())
    data[-1] ^= 1
    (newest / "task-0.safetensors").write_bytes(data)
    model.tick()
    with pytest.warns(UserWarning, match="skipped the checkpoint .*step-2: task-0.safetensors does not have its hash"):
        assert Module.restore(model, tmp_path).name == "step-1"
    assert model.state["count"] == 0


@pytest.mark.parametrize("name", ["task-0.safetensors", "manifest.json"])
def test_every_flipped_byte_and_every_cut_is_noticed(tmp_path: Path, model: Module, name: str) -> None:
    path = Module.save(model, tmp_path) / name
    whole = path.read_bytes()
    before = snapshot(model)
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (place % 8)
        for data in (bytes(damaged), whole[:place]):
            path.write_bytes(data)
            with pytest.raises(CheckpointError):
                Module.restore(model, tmp_path)
    path.write_bytes(whole)
    Module.restore(model, tmp_path)
    assert snapshot(model) == before


def test_what_is_missing_is_named(tmp_path: Path, model: Module) -> None:
    with pytest.raises(CheckpointError, match="absent does not exist"):
        Module.restore(model, tmp_path / "absent")
    with pytest.raises(CheckpointError, match="holds no checkpoint") as caught:
        Module.restore(model, tmp_path)
    assert (caught.value.code, caught.value.exit_code) == ("E0908", 5)
    (Module.save(model, tmp_path) / "task-0.safetensors").unlink()
    with pytest.raises(CheckpointError, match="No such file"):
        Module.restore(model, tmp_path)


def test_leftovers_of_dead_processes_go_and_others_stay(tmp_path: Path, model: Module) -> None:
    alive = tmp_path / "step-7.tmp-1"
    alive.mkdir()
    dead = tmp_path / f"step-7.tmp-{2**22 + 12345}"
    dead.mkdir()
    (tmp_path / "step-x").mkdir()
    Module.save(model, tmp_path)
    assert not dead.exists()
    assert alive.exists() and (tmp_path / "step-x").exists()


class Failing(Disk):
    """Fails at one call."""

    def __init__(self, call: str, time: int) -> None:
        self.call, self.time = call, time

    def __getattribute__(self, name: str) -> object:
        if name != object.__getattribute__(self, "call"):
            return object.__getattribute__(self, name)
        self.time -= 1
        if self.time == -1:
            return self._fail
        return object.__getattribute__(self, name)

    def _fail(self, *_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


REMOVING = ["remove", "remove_folder", "rename_inside"]
CALLS = ["names", "make_folder", "create", "write", "sync", "close", "sync_folder", "rename", *REMOVING]
CALLS += ["open_folder", "open_inside", "names_inside"]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("time", range(4))
def test_a_save_that_fails_leaves_what_was_there(tmp_path: Path, call: str, time: int) -> None:
    saved = [Saved("v", "f32", (2,), np.ones(2, "f4"))]
    for _ in range(2):
        store.publish(tmp_path, About(0, "p"), saved)
    failed = False
    try:
        store.publish(tmp_path, About(0, "p"), saved, disk=Failing(call, time))
    except FileError as problem:
        failed = True
        assert "No space left" in problem.message and problem.exit_code == 6
    assert not failed or call not in REMOVING
    assert store.find(tmp_path).checkpoint.about.step >= 2
    store.publish(tmp_path, About(0, "p"), saved)
    assert len(store.steps_in(tmp_path)) == 2 and not list(tmp_path.glob("*.tmp-*"))


def test_another_saver_that_takes_the_number_loses_nothing(tmp_path: Path) -> None:
    taken: list[Path] = []

    class Late(Disk):
        def rename(self, old: Path, new: Path) -> None:
            if not taken:
                taken.append(new)
                new.mkdir()
                (new / "theirs").touch()
            super().rename(old, new)

    saved = [Saved("v", "f32", (2,), np.ones(2, "f4"))]
    assert store.publish(tmp_path, About(0, "p"), saved, disk=Late()).name == "step-2"
    assert (taken[0] / "theirs").exists()


class Logging(Disk):
    """Writes down what is done, and to what."""

    def __init__(self) -> None:
        self.log: list[str] = []
        for name in CALLS:
            setattr(self, name, self._logged(name, getattr(self, name)))

    def _logged(self, name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            self.log.append(f"{name} {arguments[0].name}" if isinstance(arguments[0], Path) else name)
            return real(*arguments)

        return call


def test_a_checkpoint_is_written_before_it_gets_its_name(tmp_path: Path) -> None:
    disk = Logging()
    store.publish(tmp_path, About(0, "p"), [Saved("v", "bf16", (2,), np.ones(2, ml_dtypes.bfloat16))], disk=disk)
    log = [line for line in disk.log if not line.startswith(("names", "open")) and line != "write"]
    log.remove("close")  # of the folder, after a look for leftovers
    file = ["sync", "close"]
    temporary = f"step-1.tmp-{os.getpid()}"
    assert log == [
        f"make_folder {temporary}",
        "create task-0.safetensors",
        *file,
        "create manifest.json",
        *file,
        f"sync_folder {temporary}",
        f"rename {temporary}",
        f"sync_folder {tmp_path.name}",
    ]


def test_what_is_old_loses_its_name_first_and_only_after_the_new_one_was_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = [Saved("v", "f32", (2,), np.ones(2, "f4"))]
    for _ in range(2):
        store.publish(tmp_path, About(0, "p"), saved)
    disk = Logging()
    monkeypatch.setattr(observation, "listeners", [disk.log.append])
    store.publish(tmp_path, About(0, "p"), saved, disk=disk)
    end = disk.log[disk.log.index("verified step-3") :]
    end = [line for line in end if not line.startswith(("names", "open", "close"))]
    assert end[1:3] == ["remove step-1", "rename_inside"]
    assert {line.split()[0] for line in end[3:]} == {"remove", "remove_folder"}
    assert not any(line.startswith("remove") for line in disk.log[: disk.log.index("verified step-3")])


def test_folders_above_a_checkpoint_are_made_and_last(tmp_path: Path) -> None:
    disk = Logging()
    store.publish(tmp_path / "a" / "b", About(0, "p"), [], disk=disk)
    assert disk.log[:4] == ["make_folder a", f"sync_folder {tmp_path.name}", "make_folder b", "sync_folder a"]
