"""State that no entry mentions takes no memory while it is zeros."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

import dfc_runtime
from dfc_runtime.calls.memory import address_of
from tests.support.bundles import Sketch, entry, state
from tests.support.fake_driver import Call, native

COUNT = 1 << 20
VALUES = {"used": 0.0, "idle": 0.0, "written": 0.0, "second": 0.0, "negative": -0.0, "ones": 1.0}


@native
def set_values(call: Call) -> None:
    for name, value in VALUES.items():
        call.driver.resources[name][...] = value


@native
def leave(call: Call) -> None:
    """Does nothing."""


def resident(array: np.ndarray) -> float:
    """Which part of its pages an array has in memory."""
    start, pages = address_of(array) & -mmap.PAGESIZE, array.nbytes // mmap.PAGESIZE
    present = (ctypes.c_ubyte * pages)()
    assert ctypes.CDLL(None).mincore(ctypes.c_void_p(start), ctypes.c_size_t(pages * mmap.PAGESIZE), present) == 0
    return sum(each & 1 for each in present) / pages


def test_zeros_that_no_entry_mentions_are_given_back_behind_what_entries_use() -> None:
    sketch = Sketch(state=[state(name, f"f32[{COUNT}]") for name in VALUES])
    sketch.entries = [
        (entry("init", {}, writes=list(VALUES)), "set_values"),
        (entry("act", {}, reads=["used"], writes=["written"]), "leave"),
    ]
    module = dfc_runtime.loads(sketch.to_bytes())
    arrays = module.state.arrays
    parts = {name: round(resident(array)) for name, array in arrays.items()}
    assert parts == {"used": 1, "idle": 0, "written": 1, "second": 0, "negative": 1, "ones": 1}
    assert max(address_of(arrays[name]) for name in ("used", "written")) < address_of(arrays["idle"])
    for name, value in VALUES.items():
        assert np.array_equal(module.state[name].view("u4"), np.full(COUNT, value, "f4").view("u4"))
    module.state["idle"] = np.arange(COUNT, dtype="f4")
    assert np.array_equal(module.state["idle"], np.arange(COUNT, dtype="f4"))
