"""Masks of processors, and when workers are covered by them."""

import ctypes
import os
import threading

import pytest

from dfc_driver_cpu import affinity
from dfc_driver_cpu.affinity import Affinity, masks_but_one
from dfc_driver_cpu.context import Pool


@pytest.mark.parametrize("processors", [[0, 1], [1, 3, 64], [0, 63, 65, 130]])
def test_each_mask_has_all_processors_but_one(processors: list[int]):
    table, size = masks_but_one(processors)
    data = bytes(table)
    for left_out in range(processors[-1] + 1):
        mask = int.from_bytes(data[left_out * size : (left_out + 1) * size], "little")
        assert {number for number in range(8 * size) if mask >> number & 1} == set(processors) - {left_out}
    assert len(data) == size * (processors[-1] + 1)


@pytest.mark.parametrize(
    ("processors", "workers", "covers"), [({0, 1}, 1, True), ({0, 1}, 2, False), ({0}, 0, False), (range(9), 1, False)]
)
def test_workers_are_covered_where_there_is_a_processor_for_each(
    monkeypatch: pytest.MonkeyPatch, processors: set[int], workers: int, covers: bool
):
    freed: list[int] = []
    monkeypatch.setattr(affinity.os, "sched_getaffinity", lambda _: set(processors))
    monkeypatch.setattr(affinity.os, "sched_setaffinity", lambda number, _: freed.append(number))
    pool = Pool()
    numbers = [threading.get_native_id() + i for i in range(workers)]
    table = Affinity(pool)
    table.cover(numbers)
    assert bool(pool.masks) == covers and freed == ([] if covers else numbers)
    if covers:
        assert list((ctypes.c_int32 * workers).from_address(pool.thread_ids)) == numbers
        assert pool.masked == max(processors) + 1 and pool.avoided == affinity.NOWHERE


def test_a_worker_that_has_ended_is_passed_over():
    pool = Pool()
    Affinity(pool).cover([2**22 + number for number in range(len(os.sched_getaffinity(0)))])
    assert not pool.masks
