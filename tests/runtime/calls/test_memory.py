"""Memory of large results: what is in use stays, what nobody shows is used again. Arrays that share large pages."""

from __future__ import annotations

import gc
import re
from pathlib import Path

import numpy as np
import pytest

from dfc_runtime.calls.memory import ALIGNMENT, ResultMemory, address_of, aligned, aligned_together

SIZE = 1 << 20
F32 = np.dtype("f4")


def array(memory: ResultMemory, size: int = SIZE, feed: int = 0) -> np.ndarray:
    return memory.array((size // 4,), F32, size, feed)


def test_memory_of_an_array_that_is_gone_is_used_again() -> None:
    memory = ResultMemory()
    first = array(memory)
    where = address_of(first)
    del first
    gc.collect()
    assert address_of(array(memory)) == where


@pytest.mark.parametrize("keep", [lambda a: a, lambda a: a[5:], lambda a: a.view("u1"), memoryview, lambda a: [a.T]])
def test_memory_that_somebody_shows_stays(keep) -> None:
    memory = ResultMemory()
    first = array(memory)
    first[:] = 7
    where, kept = address_of(first), keep(first)
    del first
    others = [array(memory) for _ in range(2 * ResultMemory.MOST)]
    for each in others:
        each[:] = 8
        assert not where - SIZE < address_of(each) < where + SIZE
    assert np.asarray(kept).view("f4").ravel()[0] == 7


def test_memory_of_another_size_is_given_back() -> None:
    memory = ResultMemory()
    for size in range(1, 3 * ResultMemory.MOST):
        array(memory, size * SIZE)
    assert len(memory._blocks) == 1
    memory.free()
    assert not memory._blocks


def test_no_more_blocks_are_known_than_stated() -> None:
    memory = ResultMemory()
    shown = [array(memory) for _ in range(3 * ResultMemory.MOST)]
    assert len(memory._blocks) == ResultMemory.MOST < len(shown)


@pytest.mark.parametrize("feed", [0, 16, 64, 4090, 123456784])
def test_results_lie_on_cache_lines_and_apart_from_the_feed_in_its_page(feed: int) -> None:
    address = address_of(array(ResultMemory(), feed=feed))
    assert address % 64 == 0
    assert 1024 - 64 <= (address - feed) % 4096 <= 1024


FORMS = [((3,), F32), ((), np.dtype("f8")), ((0, 5), F32), ((7, 300_000), np.dtype("u1")), ((2, 2), np.dtype("i8"))]


def test_arrays_in_one_block_have_their_shapes_and_cache_lines_of_their_own() -> None:
    arrays = aligned_together(FORMS)
    assert [(each.shape, each.dtype) for each in arrays] == FORMS
    assert not any(address_of(each) % ALIGNMENT or each.any() for each in arrays)
    for number, each in enumerate(arrays):
        each[...] = number + 1
    assert all(np.all(each == number + 1) for number, each in enumerate(arrays))
    lines = [set(range(address_of(a) // ALIGNMENT, -(-(address_of(a) + a.nbytes) // ALIGNMENT))) for a in arrays]
    assert sum(map(len, lines)) == len(set().union(*lines))


def test_an_array_of_a_block_keeps_it_alive() -> None:
    kept = aligned_together(FORMS)[3]
    gc.collect()
    kept[...] = 5
    assert np.all(kept == 5)


def page_flags(address: int) -> list[str]:
    """Those of the mapping with the address, as the system states them."""
    text = Path("/proc/self/smaps").read_text(encoding="ascii")
    for mapping in re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", text):
        first, last = (int(end, 16) for end in mapping.split()[0].split("-"))
        if first <= address < last:
            return next(line.split()[1:] for line in mapping.splitlines() if line.startswith("VmFlags"))
    return []


@pytest.mark.skipif(not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="the system has small pages only")
def test_large_pages_are_asked_for_where_they_are_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    page = 2 << 20
    array = aligned((5 * page // 2,), np.dtype("u1"))
    first = address_of(array)
    assert [("hg" in page_flags(first + at)) for at in (0, 2 * page - 1, 5 * page // 2 - 1)] == [True, True, False]
    monkeypatch.delattr("dfc_runtime.calls.memory.mmap")
    aligned((page // 2,), np.dtype("u1"))  # what fills none has no pages of its own


def test_memory_that_the_system_does_not_have_is_an_error_of_memory() -> None:
    with pytest.raises(MemoryError):
        aligned((1 << 60,), np.dtype("u1"))
