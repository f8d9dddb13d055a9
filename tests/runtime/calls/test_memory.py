"""Memory of large results: what is in use stays, what nobody shows is used again."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from dfc_runtime.calls.memory import ResultMemory, address_of

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
