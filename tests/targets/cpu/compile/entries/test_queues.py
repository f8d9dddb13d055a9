"""Queues in native code, called directly: what comes out, in which order, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.ir.dtypes import BF16, BOOL, F16, F32, F64, I8, I64, U64, DType
from dfc.ir.queues import field_offsets, queue_bytes, slot_bytes
from dfc_driver_cpu.context import QueueHeader
from dfc_runtime.runners.native import CLOSED, END_OF_DATA, FAILED, PUT_CLOSED, QUEUE_FAILED, STOPPED, TOO_MANY
from tests.support.cpu_code import runnable_machines
from tests.support.native_run import NativeRun
from tests.support.queue_programs import Reference, form, native_queue
from tests.support.sweeping import few

MIXED = ((I8, ()), (F32, (3, 5)), (BOOL, (7,)), (F64, ()), (BF16, (2,)))
MACHINES = [machine.name for machine in runnable_machines()]


def element(number: int) -> tuple[np.ndarray, ...]:
    """One of `MIXED`, different in every byte from its neighbours."""
    generator = np.random.default_rng(number)
    shapes = [(dtype, shape) for dtype, shape in MIXED]
    raw = [generator.integers(0, 2 if dtype is BOOL else 100, shape) for dtype, shape in shapes]
    return tuple(np.asarray(value).astype(dtype.numpy) for value, (dtype, _) in zip(raw, shapes, strict=True))


def put(run: NativeRun, *values: object) -> None:
    run.call("put", values, {})


def many(run: NativeRun, count: int, draws: tuple[float, ...] | None = None) -> list[np.ndarray]:
    return run.call("many", () if draws is None else (np.array(draws, np.float64),), {"N": count})


def refused(run: NativeRun, entry: str, arguments: tuple[object, ...] = (), count: int = 0) -> tuple[int, ...]:
    """The values of the fault that a call ends with."""
    with pytest.raises(AssertionError) as caught:
        run.call(entry, arguments, {"N": count})
    site, values = caught.value.args[0]
    assert site == 0
    return values


def numbers(run: NativeRun) -> tuple[int, int]:
    header = QueueHeader.from_address(run.state["q"].ctypes.data)
    return header.put, header.taken


@pytest.mark.parametrize("isa", MACHINES)
def test_elements_of_several_fields_come_out_as_they_went_in_round_and_round(isa: str) -> None:
    run = native_queue(form(MIXED, 3), isa)
    taken = 0
    for number in range(20):
        put(run, *element(number))
        if number % 3 != 0:  # between one and three are inside
            for _ in range(2 if number % 3 == 2 else 1):
                for value, expected in zip(run.call("take", (), {}), element(taken), strict=True):
                    np.testing.assert_array_equal(value, expected)
                taken += 1
    assert numbers(run) == (20, taken)


def test_several_at_once_are_the_next_ones_stacked() -> None:
    run = native_queue(form(MIXED, 4))
    for start in range(0, 12, 4):
        for number in range(start, start + 4):
            put(run, *element(number))
        first, rest = many(run, 1), many(run, 3)
        for field, (one, three) in enumerate(zip(first, rest, strict=True)):
            np.testing.assert_array_equal(one, [element(start)[field]])
            np.testing.assert_array_equal(three, [element(start + 1 + i)[field] for i in range(3)])


@pytest.mark.parametrize("isa", MACHINES)
def test_a_shuffled_queue_takes_what_the_draws_choose(isa: str) -> None:
    queue = form(((I64, ()), (F32, (3,))), capacity=13, window=5)
    run, reference, generator = native_queue(queue, isa), Reference(queue), np.random.default_rng(7)
    number = 0
    for _ in range(200):
        while len(reference.elements) < 13 and generator.random() < 0.8:
            put(run, np.int64(number), np.full(3, number, np.float32))
            reference.put(np.int64(number), np.full(3, number, np.float32))
            number += 1
        count = int(generator.integers(0, max(len(reference.elements) - 4, 0) + 1))
        draws = tuple(generator.random(count)) if generator.random() < 0.9 else (1 - 2**-53,) * count
        keys, rows = many(run, count, draws)
        expected = reference.take(draws)
        assert keys.tolist() == [int(each[0]) for each in expected]
        np.testing.assert_array_equal(rows[:, 0], keys)
    assert number > 500


KEYS = {
    I8: [-128, 127, 0, -1, 5],
    U64: [0, 2**64 - 1, 2**63, 7, 7],
    F16: [1.5, -np.inf, np.nan, 0.0, -0.0],
    BF16: [1.5, -np.inf, np.nan, 0.0, -3.0],
    F32: [np.nan, 1e-30, np.inf, -1.0, 0.0],
    F64: [np.nan, 1e-300, np.inf, -1e300, 0.0],
}


@pytest.mark.parametrize("isa", MACHINES)
@pytest.mark.parametrize("dtype", few([*KEYS], 4), ids=str)
def test_a_priority_queue_takes_the_first_of_the_smallest_keys(isa: str, dtype: DType) -> None:
    """Keys repeat, so that the order among equal ones is seen; what stays keeps its order."""
    queue = form(((F32, (3,)), (dtype, ()), (I64, ())), capacity=11, window=6, key="f1")
    run, reference, generator = native_queue(queue, isa), Reference(queue), np.random.default_rng(3)
    number, taken, expected = 0, [], []
    for _ in range(60):
        while len(reference.elements) < 11 and generator.random() < 0.8:
            key = np.asarray(KEYS[dtype][generator.integers(5)], dtype.numpy)
            values = (np.full(3, number, np.float32), key, np.int64(number))
            put(run, *values)
            reference.put(*values)
            number += 1
        if len(reference.elements) >= 7:  # two at once, the second of a full window
            taken += many(run, 2)[2].tolist()
            expected += [int(reference.take_smallest()[2]) for _ in range(2)]
    run.call("close", (), {})
    while reference.elements:
        taken.append(run.call("take", (), {})[2])
        expected.append(int(reference.take_smallest()[2]))
    assert taken == expected
    assert number > 60


def test_random_keys_come_out_sorted_when_all_are_ready() -> None:
    queue = form(((I64, ()),), capacity=50, window=50, key="f0")
    run, keys = native_queue(queue), np.random.default_rng(1).integers(-99, 99, 50)
    for key in keys:
        put(run, key)
    run.call("close", (), {})
    assert [int(run.call("take", (), {})[0]) for _ in range(50)] == sorted(keys.tolist())


def test_draws_that_are_no_numbers_stay_inside() -> None:
    run = native_queue(form(((I64, ()),), capacity=8, window=3))
    for number in range(8):
        put(run, np.int64(number))
    draws = (np.nan, -5.0, 1e300, 7.0, -np.inf)
    assert sorted(many(run, 5, draws)[0].tolist() + many(run, 1, (0.0,))[0].tolist()) == [0, 1, 2, 3, 4, 5]


def test_what_a_closed_shuffled_queue_holds_comes_out_whole() -> None:
    queue = form(((I64, ()),), capacity=8, window=4)
    run, reference = native_queue(queue), Reference(queue)
    for number in range(6):
        put(run, np.int64(number))
        reference.put(np.int64(number))
    run.call("close", (), {})
    draws = (0.9, 0.1, 0.99, 0.5, 0.7, 0.3)
    taken = [int(run.call("take", (np.array([draw]),), {})[0]) for draw in draws]
    assert taken == [int(each[0]) for each in reference.take(draws)]
    assert refused(run, "take", (np.array([0.5]),))[0] == END_OF_DATA


def test_none_at_once_never_waits() -> None:
    run = native_queue(form(((I64, ()),), capacity=8, window=4))
    assert many(run, 0, ())[0].shape == (0,)
    run.call("close", (), {})
    assert many(run, 0, ())[0].shape == (0,)


def test_more_than_can_be_ready_is_refused_whatever_is_inside() -> None:
    run = native_queue(form(((I64, ()),), capacity=8, window=4))
    assert refused(run, "many", (np.zeros(6),), count=6)[:3] == (TOO_MANY, 6, 5)
    assert numbers(run) == (0, 0)


def test_a_closed_queue_gives_the_rest_and_then_ends() -> None:
    run = native_queue(form(((I64, ()),), capacity=4))
    for number in range(3):
        put(run, np.int64(number))
    for _ in range(2):  # a second time changes nothing
        run.call("close", (), {})
    assert refused(run, "put", (np.int64(9),))[0] == PUT_CLOSED
    assert many(run, 2)[0].tolist() == [0, 1]
    assert refused(run, "many", (), count=2)[0] == END_OF_DATA  # a take of two does not take one
    assert run.call("size", (), {}) == [1]
    assert run.call("take", (), {}) == [2]
    assert refused(run, "take")[0] == END_OF_DATA


def test_the_last_elements_of_a_closed_queue_come_out_though_they_are_fewer() -> None:
    queue = form(((I64, ()), (F32, (2,))), capacity=8, window=3)
    run, reference = native_queue(queue), Reference(queue)
    for number in range(7):
        put(run, np.int64(number), np.full(2, number, np.float32))
        reference.put(np.int64(number), np.full(2, number, np.float32))
    draws = np.array([0.9, 0.2, 0.5, 0.7])
    assert [each.tolist() for each in run.call("up_to", (draws[:0],), {"N": 0})] == [[], [], 0]
    for number in (4, 3):
        keys, rows, count = run.call("up_to", (draws,), {"N": 4})
        assert count == number
        expected = [int(each[0]) for each in reference.take(draws[:number].tolist())]
        assert keys[:number].tolist() == expected
        np.testing.assert_array_equal(rows[:number, 1], expected)
        run.call("close", (), {})
    assert refused(run, "up_to", (draws,), count=4)[0] == END_OF_DATA


@pytest.mark.parametrize(("state", "reason"), [(FAILED, QUEUE_FAILED), (STOPPED, STOPPED + 1)])
def test_states_only_go_further_and_say_why(state: int, reason: int) -> None:
    run = native_queue(form(((I64, ()),), capacity=4))
    put(run, np.int64(7))
    queue = run.driver.queues.queue("q")
    queue.close(state)
    queue.close(CLOSED)
    assert queue.numbers == (1, 0, state)
    assert refused(run, "put", (np.int64(9),))[0] == reason
    if state == FAILED:
        assert run.call("take", (), {}) == [7]
    assert refused(run, "take")[0] == reason


def test_elements_lie_where_the_form_says() -> None:
    queue = form(MIXED, 3)
    run = native_queue(queue)
    put(run, *element(1))
    memory = run.state["q"]
    assert memory.nbytes == queue_bytes(queue)
    slots = memory[-3 * slot_bytes(queue) :]
    for offset, value in zip(field_offsets(queue), element(1), strict=True):
        assert slots[offset : offset + value.nbytes].tobytes() == value.tobytes()
    assert not slots[slot_bytes(queue) :].any()
