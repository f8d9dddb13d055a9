"""The prelude's primitives as code, on this host: every element type, and lanes that meet."""

from __future__ import annotations

import numpy as np
import pytest

from dfc_target_cuda.code.fragments import TextKey
from tests.support import native_texts
from tests.support.cuda_simulator.lane_threads import in_threads
from tests.support.cuda_simulator.primitives import MEMORY
from tests.support.native_texts import NativeText

NUMPY = {name: np.dtype(kind) for name, kind in MEMORY.items()}
WIDE = [(name, lanes) for name, kind in NUMPY.items() for lanes in (2, 4, 8, 16) if lanes * kind.itemsize <= 16]


def run(body: str, pointers: tuple[str, ...], arrays: list[np.ndarray], threads: int = 1, blocks: int = 1) -> None:
    names = [*"abcdefgh"[: len(pointers)], "error"]
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    text = TextKey(f"def kernel({', '.join(names)}):\n{lines}", pointers, 0, False, threads)
    in_threads(NativeText(text, len(arrays)).lane, blocks, threads, [array.ctypes.data for array in arrays])


def words(kind: str, count: int) -> np.ndarray:
    """Bit patterns, none like another."""
    return np.random.default_rng(4).integers(0, 256, count * NUMPY[kind].itemsize, np.uint8).view(NUMPY[kind])


def error() -> np.ndarray:
    return np.zeros(3, np.int64)


def test_these_are_all_element_types() -> None:
    from dfc_target_cuda.kernels.prelude.device import ELEMENTS  # which loads numba: not with all that is collected
    from dfc_target_cuda.kernels.prelude.intrinsics import TYPES

    assert {name: 16 // kind.itemsize for name, kind in NUMPY.items()} == ELEMENTS
    assert {*NUMPY, "boolean"} == set(TYPES)


@pytest.mark.parametrize(("kind", "lanes"), WIDE)
def test_wide_accesses_move_neighbours_in_order(kind: str, lanes: int) -> None:
    a, b = words(kind, 3 * lanes), np.zeros(3 * lanes, NUMPY[kind])
    names = ", ".join(f"x{lane}" for lane in range(lanes))
    turned = ", ".join(f"x{lane}" for lane in reversed(range(lanes)))
    run(
        f"{names} = load{lanes}_{kind}(a, {lanes})\nstore{lanes}_{kind}(b, {lanes}, {turned})",
        (kind,) * 2,
        [a, b, error()],
    )
    bits = f"u{NUMPY[kind].itemsize}"
    expected = [*[0] * lanes, *a.view(bits)[lanes : 2 * lanes][::-1], *[0] * lanes]
    assert b.view(bits).tolist() == expected


def test_eight_halves_travel_as_four_words() -> None:
    a, b, c = words("u16", 24), np.zeros(24, np.uint16), np.zeros(4, np.uint32)
    body = """x, y, z, w = load8_u16_words(a, 8)
store8_u16_words(b, 16, w, z, y, x)
store4_u32(c, 0, x, y, z, w)"""
    run(body, ("u16", "u16", "u32"), [a, b, c, error()])
    assert c.tolist() == a[8:16].view(np.uint32).tolist()
    assert b[16:].view(np.uint32).tolist() == c[::-1].tolist() and not b[:16].any()


@pytest.mark.parametrize("kind", list(NUMPY))
def test_lanes_of_a_warp_exchange_every_bit(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_texts, "_warp", 4)
    a, b = words(kind, 8), np.zeros(16, NUMPY[kind])
    body = f"""b[thread()] = shuffle_xor_{kind}(a[thread()], 2)
b[thread() + 8] = shuffle_{kind}(a[thread()], 1)"""
    run(body, (kind,) * 2, [a, b, error()], threads=8)
    bits = f"u{NUMPY[kind].itemsize}"
    a, b = a.view(bits), b.view(bits)
    assert b[:8].tolist() == a[[2, 3, 0, 1, 6, 7, 4, 5]].tolist()
    assert b[8:].tolist() == a[[1, 1, 1, 1, 5, 5, 5, 5]].tolist()


def test_truth_travels_between_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_texts, "_warp", 4)
    a, b = np.array([1, 0, 0, 1], np.uint8), np.zeros(4, np.uint8)
    body = "b[thread()] = u8(shuffle_xor_boolean(boolean(a[thread()]), 1))"
    run(body, ("u8", "u8"), [a, b, error()], threads=4)
    assert b.tolist() == [0, 1, 1, 0]


def test_blocks_know_where_they_are_and_add_up() -> None:
    a, b = np.zeros(12, np.int64), np.zeros(2, np.uint32)
    body = """place = block_index() * block_size() + thread()
a[place] = block_count() * 100 + place
before = atomic_add_u32(b, 1, u32(3))
if barrier_any(u32_equal(before, u32(0))):
    a[place] = a[place] + 1000"""
    run(body, ("i64", "u32"), [a, b, error()], threads=4, blocks=3)
    assert a.tolist() == [300 + place + (1000 if place < 4 else 0) for place in range(12)]
    assert b.tolist() == [0, 36]


@pytest.mark.parametrize("kind", list(NUMPY))
def test_bytes_are_seen_as_elements(kind: str) -> None:
    a, b = words(kind, 6), np.zeros(2, NUMPY[kind])
    size = NUMPY[kind].itemsize
    run(f"p = {kind}_pointer(a, {2 * size})\nb[0] = p[1]\nb[1] = p[3]", ("u8", kind), [a, b, error()])
    assert b.tobytes() == a[[3, 5]].tobytes()


def test_the_first_fault_is_kept() -> None:
    told = error()
    run("report(error, 6, 10 + thread(), 20)", (), [told], threads=4)
    assert told.tolist() == [7, 10, 20]
