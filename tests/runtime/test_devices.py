"""Programs that work in the memory of a device: state there and here, feeds and results that stay there."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dfc_runtime
from dfc_runtime import Module, devices, driver
from dfc_runtime.calls.device_arrays import DeviceArray
from dfc_runtime.calls.memory import address_of
from dfc_runtime.errors import BundleError, FeedError, UnsupportedError
from tests.support import fake_driver
from tests.support.bundles import Sketch
from tests.support.fake_device import FakeArray, FakeDeviceDriver, PackedArray
from tests.support.natives import program

W = np.arange(6, dtype="f4").reshape(2, 3)


@pytest.fixture(autouse=True)
def device_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(driver.BUILT_IN, "device", "tests.support.fake_device:FakeDeviceDriver")
    monkeypatch.delenv(devices.DEVICE_VARIABLE, raising=False)


def sketch() -> Sketch:
    made = program()
    made.driver = "device"
    return made


def loaded(**options: object) -> Module:
    return dfc_runtime.loads(sketch().to_bytes(), **options)


def last() -> FakeDeviceDriver:
    made = fake_driver.INSTANCES[-1]
    assert isinstance(made, FakeDeviceDriver)
    return made


def test_state_that_a_call_has_changed_is_fetched_when_it_is_read() -> None:
    model = loaded()
    model.tick()
    assert last().memory.host["count"] == 0  # nothing is copied before somebody asks
    assert model.state["count"] == 1
    np.testing.assert_array_equal(model.state["w"], W)
    assert last().memory.log == [("pull", ("count",)), ("pull", ("w",))]


def test_calls_copy_no_state() -> None:
    model = loaded()
    del last().memory.log[:]
    for _ in range(3):
        model.tick()
    assert last().memory.log == []


def test_state_that_is_written_reaches_the_device() -> None:
    model = loaded()
    model.state["count"] = 41
    assert model.tick().count == 42


def test_a_checkpoint_holds_what_is_on_the_device(tmp_path: Path) -> None:
    model = loaded()
    model.tick()
    model.save(tmp_path / "now")
    model.save_async(tmp_path / "later").result()
    model.tick()
    for folder in ("now", "later"):
        model.restore(tmp_path / folder)
        assert model.tick().count == 2


def test_a_snapshot_is_of_the_moment_it_was_begun(tmp_path: Path) -> None:
    model = loaded()
    saving = model.save_async(tmp_path)
    model.tick()
    saving.result()
    model.restore(tmp_path)
    assert model.state["count"] == 0


def test_a_program_saves_and_restores_what_is_on_the_device(tmp_path: Path) -> None:
    model = loaded()
    model.tick()
    model.save(tmp_path / "python")
    entries = model.entries
    entries["save"](str(tmp_path / "program"))
    model.tick()
    entries["restore"](str(tmp_path / "program"))
    assert model.tick().count == 2


def test_all_names_of_a_checkpoint_are_copied_at_once(tmp_path: Path) -> None:
    model = loaded()
    Module.save(model, tmp_path)
    del last().memory.log[:]
    Module.restore(model, tmp_path)
    assert last().memory.log == [("push", ("w", "count"))]


def test_init_starts_over_on_the_device() -> None:
    model = loaded()
    model.tick()
    model.init()
    assert model.state["count"] == 0


def test_state_can_be_read_and_saved_when_the_module_is_closed(tmp_path: Path) -> None:
    model = loaded()
    model.tick()
    model.close()
    last().memory.copies["count"][...] = 99  # nobody asks a device that was given back
    assert model.state["count"] == 1
    Module.save(model, tmp_path)


def test_a_device_has_its_own_working_memory() -> None:
    arenas: list[int] = []
    fake_driver.FUNCTIONS["watched"] = lambda call: arenas.append(call.size(5)) or 0
    for made, expected in ((sketch(), 0), (program(), None)):
        made.entries[2] = (made.entries[2][0], "watched")
        dfc_runtime.loads(made.to_bytes()).scale(np.ones((3, 4), "f4"), 2)
        assert (arenas[-1] == 0) is (expected == 0)


@pytest.mark.parametrize("version", [2, 3])
def test_an_array_of_another_library_is_read_in_place(version: int) -> None:
    model = loaded()
    x = np.full((3, 4), 1.5, "f4")
    y, total = model.scale(FakeArray(x, version=version), 2)
    np.testing.assert_array_equal(y, 2 * x)
    assert total == 18
    assert last().on_device == [(0, True), (2, False)]


def test_the_stream_of_an_array_is_waited_for() -> None:
    model, x = loaded(), np.ones((1, 4), "f4")
    model.scale(FakeArray(x, stream=1234), 2)
    model.scale(FakeArray(x, stream=None), 2)
    model.scale(FakeArray(x, version=2), 2)  # which says nothing, so it may be the default one
    assert last().memory.waited == [1234, 1]


def test_an_array_is_taken_by_dlpack_on_the_stream_of_the_program() -> None:
    model, x = loaded(), np.arange(8, dtype="f4").reshape(2, 4)
    packed = PackedArray(x)
    y, _ = model.scale(packed, 3)
    np.testing.assert_array_equal(y, 3 * x)
    assert packed.streams == [77]
    assert last().on_device == [(0, True), (2, False)]


def test_what_was_fed_by_dlpack_is_given_back() -> None:
    class Owner(np.ndarray):
        pass

    model = loaded()
    x = np.ones((2, 4), "f4").view(Owner)
    gone = weakref.ref(x)
    model.scale(PackedArray(x), 2)
    del x
    gc.collect()
    assert gone() is None


def test_a_number_on_the_device_is_copied() -> None:
    model = loaded()
    assert model.add(FakeArray(np.array(2, "f4")), 3) == 5


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (FakeArray(np.ones((3, 4), "f8")), "float64 of shape (3, 4) on a GPU"),
        (FakeArray(np.ones((3, 5), "f4")), "axis 1 has size 5 instead of 4"),
        (FakeArray(np.ones((4, 3), "f4").T), "x.contiguous()"),
        (PackedArray(np.ones((3, 4), "f4"), (2, 1)), "it lies on GPU 1, and the program runs on GPU 0"),
        (PackedArray(np.ones((4, 3), "f4").T), "not in row-major order"),
    ],
)
def test_an_array_that_does_not_fit_is_refused(value: object, said: str) -> None:
    with pytest.raises(FeedError) as caught:
        loaded().scale(value, 2)
    assert caught.value.code == "E0901" and said in caught.value.message


@pytest.mark.parametrize("make", [FakeArray, PackedArray])
def test_a_program_of_the_processor_refuses_it(make: type[FakeArray | PackedArray]) -> None:
    model = dfc_runtime.loads(program().to_bytes())
    with pytest.raises(FeedError, match=r"in the memory of a GPU[\s\S]*perhaps x.cpu\(\), .get\(\) or .to_host\(\)"):
        model.scale(make(np.ones((3, 4), "f4")), 2)


def test_results_stay_on_the_device_where_that_is_wanted() -> None:
    model = loaded(results="device")
    x = np.ones((3, 4), "f4")
    y, total = model.scale(x, 2)
    assert isinstance(y, DeviceArray) and type(total) is np.float32
    assert last().on_device == [(0, False), (2, True)]
    assert (y.shape, y.dtype, y.ndim, y.size, y.nbytes) == ((3, 4), np.dtype("f4"), 2, 12, 48)
    np.testing.assert_array_equal(y.to_host(), 2 * x)
    np.testing.assert_array_equal(np.asarray(y), 2 * x)
    again, _ = model.scale(y, 5)
    np.testing.assert_array_equal(again.to_host(), 10 * x)
    assert last().on_device[2:] == [(0, True), (2, True)]


def test_the_memory_of_a_result_is_given_back_with_its_last_user() -> None:
    model = loaded(results="device")
    y = model.scale(np.ones((3, 4), "f4"), 2).y
    memory = last().memory
    capsule = y.__dlpack__()
    assert len(memory.allocated) == 1
    del y
    gc.collect()
    assert len(memory.allocated) == 1  # the capsule keeps it
    del capsule
    gc.collect()
    assert memory.allocated == {}


def test_others_take_a_result_without_a_copy() -> None:
    model = loaded(results="device")
    y = model.scale(np.ones((3, 4), "f4"), 2).y
    told = y.__cuda_array_interface__
    assert (told["shape"], told["typestr"], told["version"], told["stream"]) == ((3, 4), "<f4", 3, None)
    assert list(last().memory.allocated) == [told["data"][0]]
    assert y.__dlpack_device__() == (2, 0)
    last().memory.kind = (1, 0)  # NumPy takes capsules of the processor only
    taken = np.from_dlpack(y)
    assert address_of(taken) == told["data"][0] and taken.shape == (3, 4)
    del y
    gc.collect()
    np.testing.assert_array_equal(taken, np.full((3, 4), 2, "f4"))
    del taken
    gc.collect()
    assert last().memory.allocated == {}


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i8", "f2", "f8", "c8", "c16"])
def test_every_element_type_goes_through_dlpack(dtype: str) -> None:
    model = loaded(results="device")
    memory = last().memory
    memory.kind = (1, 0)
    assert np.from_dlpack(DeviceArray(memory, (2, 0, 3), np.dtype(dtype))).dtype == dtype
    assert np.from_dlpack(DeviceArray(memory, (2, 3), np.dtype(dtype))).shape == (2, 3)
    del model


def test_the_device_is_chosen_by_the_caller_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded()
    assert last().device == 0
    monkeypatch.setenv("DFC_DEVICE", "3")
    loaded()
    assert last().device == 3
    loaded(device=1)
    assert last().device == 1


@pytest.mark.parametrize("wrong", [-1, 1024, True, "0", 1.0])
def test_no_number_of_a_device(wrong: object) -> None:
    with pytest.raises(FeedError, match="the number of a device is a whole number from 0 to 1023"):
        loaded(device=wrong)


@pytest.mark.parametrize("wrong", ["one", "-1", "1024"])
def test_a_wrong_number_in_the_environment_is_told_by_its_name(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DFC_DEVICE", wrong)
    with pytest.raises(FeedError, match=f"a whole number from 0 to 1023, but DFC_DEVICE is '{wrong}'"):
        loaded()


def test_the_processor_has_no_device_to_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DFC_DEVICE", "1")  # speaks of programs that have one
    dfc_runtime.loads(program().to_bytes())
    with pytest.raises(FeedError, match="leave it out, or compile with --target cuda"):
        dfc_runtime.loads(program().to_bytes(), device=0)
    with pytest.raises(FeedError, match="leave it out, or compile with --target cuda"):
        dfc_runtime.loads(program().to_bytes(), results="device")
    with pytest.raises(FeedError, match='results is "host" or "device"'):
        loaded(results="gpu")


def test_the_code_of_the_device_is_chosen_by_its_driver() -> None:
    made = sketch()
    made.required_bits = ("sm_80",)
    dfc_runtime.loads(made.to_bytes())
    with pytest.raises(BundleError) as caught:
        dfc_runtime.loads(made.to_bytes(), device=7)
    assert caught.value.code == "E0924" and "this GPU is sm_87: compile it with --arch sm_87" in caught.value.message


def test_shared_state_is_refused() -> None:
    made = sketch()
    made.state[0] = replace(made.state[0], container="shared")
    with pytest.raises(UnsupportedError) as caught:
        dfc_runtime.loads(made.to_bytes())
    assert caught.value.code == "E1003" and "compile with --target cpu" in caught.value.message


@pytest.mark.parametrize(
    ("neighbour", "visible", "chosen"),
    [(0, "", 1), (3, "", 7), (3, "4,5", 1), (2, "0,1,2,3", 1), (1, "GPU-1a,GPU-2b,GPU-3c,GPU-4d", 3)],
)
def test_ranks_of_a_machine_have_their_own_devices(
    neighbour: int, visible: str, chosen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert devices.device_of_rank({"device": [1, 2]}, neighbour, None) == chosen


def test_the_device_of_a_rank_can_be_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    assert devices.device_of_rank({"device": [1, 2]}, 3, 0) == 0
    assert devices.device_of_rank({}, 3, None) is None
    monkeypatch.setenv("DFC_DEVICE", "2")
    assert devices.device_of_rank({"device": [1, 2]}, 3, None) is None  # what the environment says holds
    with pytest.raises(ValueError, match="device is not a whole number from 0 to 1024"):
        monkeypatch.delenv("DFC_DEVICE")
        devices.device_of_rank({"device": [1, -2]}, 3, None)
