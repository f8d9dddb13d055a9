"""Queues with buckets in native code, called directly: which elements come out together, and what pads them."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.ir.dtypes import F32, I8, I64
from dfc.ir.queues import QueueForm
from dfc_driver_cpu.context import QueueHeader
from dfc_runtime.runners.native import END_OF_DATA
from tests.support.cpu_code import runnable_machines
from tests.support.native_run import NativeRun
from tests.support.queue_programs import Reference, bucket_form, native_queue

MACHINES = [machine.name for machine in runnable_machines()]
FORM = bucket_form(((I64, ()), (I8, (0,)), (F32, (0, 3))), capacity=19, bounds=(2, 5, 6, 11))
"""A number, and two fields that vary; up to five at once."""
Element = tuple[np.ndarray, ...]


def element(number: int, generator: np.random.Generator) -> Element:
    first, second = (int(length) for length in generator.integers(0, 12, 2))
    rows = generator.random((second, 3)).astype(np.float32)
    return np.int64(number), generator.integers(1, 100, first).astype(np.int8), rows, np.int64(first), np.int64(second)


def put(run: NativeRun, reference: Reference, values: Element) -> None:
    run.call("put", values, {"L1": len(values[1]), "L2": len(values[2])})
    reference.put(*values)


def padded(taken: list[Element], queue: QueueForm) -> list[np.ndarray]:
    """The fields stacked, zeros behind what is shorter than the longest."""
    columns: list[np.ndarray] = []
    for field, values in enumerate(zip(*taken, strict=True)):
        if field in queue.varying:
            most = max(map(len, values))
            edges = [((0, most - len(value)), *[(0, 0)] * (value.ndim - 1)) for value in values]
            columns.append(np.stack([np.pad(value, edge) for value, edge in zip(values, edges, strict=True)]))
        else:
            columns.append(np.stack(values))
    return columns


def check(results: list[np.ndarray], expected: list[Element], queue: QueueForm = FORM) -> None:
    """Rows lie as far apart as the last bound asks for; what is behind the longest means nothing."""
    assert expected
    for got, want in zip(results, padded(expected, queue), strict=True):
        within = tuple(slice(0, size) for size in want.shape)
        np.testing.assert_array_equal(got[within], want)


@pytest.mark.parametrize("isa", MACHINES)
def test_a_take_gets_the_bucket_that_has_enough_first(isa: str) -> None:
    """Round and round; takes of one to five, when they are possible and sometimes later."""
    run, reference, generator = native_queue(FORM, isa), Reference(FORM), np.random.default_rng(4)
    number, takes = 0, 0
    while takes < 80:
        while len(reference.elements) < FORM.capacity and generator.random() < 0.9:
            put(run, reference, element(number, generator))
            number += 1
        count = int(generator.integers(1, 6))
        if fullest(run) >= count:
            check(run.call("many", (), {"N": count}), reference.take_bucket(count))
            takes += 1
    assert number > 200


def fullest(run: NativeRun) -> int:
    return QueueHeader.from_address(run.state["q"].ctypes.data).fullest


def test_the_fullest_bucket_is_known_after_each_change() -> None:
    queue = bucket_form(((I64, (0,)),), capacity=9, bounds=(1, 2, 3))
    run, reference = native_queue(queue), Reference(queue)
    seen: list[int] = []
    for length in (3, 1, 3, 2, 1, 1, 0):
        values = np.arange(length), np.int64(length)
        run.call("put", values, {"L0": length})
        reference.put(*values)
        seen.append(fullest(run))
    assert seen == [1, 1, 2, 2, 2, 3, 4]
    for count, after in ((2, 4), (3, 1), (1, 1)):
        check(run.call("many", (), {"N": count}), reference.take_bucket(count), queue)
        seen.append(fullest(run))
        assert seen[-1] == after


def test_what_is_left_comes_bucket_by_bucket_from_the_oldest_element_on() -> None:
    run, reference, generator = native_queue(FORM), Reference(FORM), np.random.default_rng(6)
    for number in range(FORM.capacity):
        put(run, reference, element(number, generator))
    run.call("close", (), {})
    sizes: list[int] = []
    while reference.elements:
        *results, count = run.call("up_to", (), {"N": 4})
        expected = reference.take_bucket(4, is_closed=True)
        assert count == len(expected)
        check(results, expected)
        sizes.append(int(count))
    assert min(sizes) < 4 == sizes[0]
    with pytest.raises(AssertionError) as caught:
        run.call("up_to", (), {"N": 4})
    assert caught.value.args[0][1][0] == END_OF_DATA


def test_a_take_of_so_many_ends_when_no_bucket_has_them() -> None:
    queue = bucket_form(((I64, (0,)),), capacity=9, bounds=(1, 2, 3))
    run = native_queue(queue)
    for length in (1, 2, 3, 3):
        run.call("put", (np.arange(length), np.int64(length)), {"L0": length})
    run.call("close", (), {})
    assert run.call("many", (), {"N": 2})[1].tolist() == [3, 3]
    with pytest.raises(AssertionError) as caught:
        run.call("many", (), {"N": 2})
    assert caught.value.args[0][1][0] == END_OF_DATA


def test_elements_leave_one_by_one_as_they_came() -> None:
    run, reference, generator = native_queue(FORM), Reference(FORM), np.random.default_rng(8)
    elements = [element(number, generator) for number in range(12)]
    for values in elements:
        put(run, reference, values)
    for values in elements:
        for got, want in zip(run.call("take", (), {}), values, strict=True):
            np.testing.assert_array_equal(got[: len(want)] if np.ndim(want) else got, want)
