"""Simulated blocks: lanes meet at barriers and in shuffles, in the same order each time."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.support.cuda_simulator.lane_threads import at_once, in_threads
from tests.support.cuda_simulator.names import define, simulated_names
from tests.support.cuda_simulator.simulation import SimulationError, simulate

Launcher = Callable[[Callable[..., Any], int, int, Sequence[Any]], None]
SUM_OF_A_BLOCK = """
def k0(a, b, error):
    part = a[thread()]
    mask = i64(2)
    while mask > i64(0):
        part = i64(part + shuffle_xor_i64(part, mask))
        mask = i64(mask >> i64(1))
    sums = shared_i64(2)
    if (thread() & 3) == 0:
        sums[thread() >> 2] = part
    barrier()
    if thread() == 0:
        b[block_index()] = i64(sums[0] + sums[1])
"""


def function(source: str, warp: int = 4) -> Callable[..., None]:
    names = dict(simulated_names(warp))
    define(source, "<test text>", names)
    return names["k0"]


def threaded(function: Callable[..., Any], blocks: int, threads: int, arguments: Sequence[Any]) -> None:
    in_threads(at_once(function), blocks, threads, arguments)


in_turns_and_in_threads = pytest.mark.parametrize("run", [simulate, threaded])


@in_turns_and_in_threads
def test_lanes_exchange_values_and_share_memory(run: Launcher) -> None:
    a, b = np.arange(8, dtype=np.int64), np.zeros(2, np.int64)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(20):
            b[:] = 0
            run(function(SUM_OF_A_BLOCK), 2, 8, [a, b, np.zeros(3, np.int64)])
            assert b.tolist() == [28, 28]
    finally:
        sys.setswitchinterval(interval)


@in_turns_and_in_threads
def test_warps_may_exchange_on_their_own(run: Launcher) -> None:
    source = "def k0(a):\n    if thread() < 4:\n        a[thread()] = shuffle_i64(i64(thread()), i64(2))\n"
    a = np.full(8, -1, np.int64)
    run(function(source), 1, 8, [a])
    assert a.tolist() == [2, 2, 2, 2, -1, -1, -1, -1]


@in_turns_and_in_threads
def test_a_warp_may_exchange_while_others_wait_for_the_block(run: Launcher) -> None:
    lines = ["def k0(a):", "    if thread() < 4:", "        a[0] = shuffle_i64(i64(thread()), i64(2))"]
    source = "\n".join([*lines, "    barrier()", "    a[1] = 5", ""])
    a = np.zeros(2, np.int64)
    run(function(source), 1, 8, [a])
    assert a.tolist() == [2, 5]


@in_turns_and_in_threads
def test_lanes_at_different_barriers_are_an_error(run: Launcher) -> None:
    source = "def k0(a):\n    if thread() == 0:\n        barrier()\n    else:\n        barrier()\n"
    with pytest.raises(SimulationError, match=r"different lines of the text: \[3, 5\]"):
        run(function(source), 1, 4, [np.zeros(1)])


@in_turns_and_in_threads
def test_a_lane_that_fails_ends_the_block_with_its_error(run: Launcher) -> None:
    source = "def k0(a):\n    if thread() == 2:\n        a[100] = 1\n    barrier()\n"
    with pytest.raises(IndexError, match="100"):
        run(function(source), 1, 4, [np.zeros(1)])


def test_functions_that_a_text_calls_may_meet_too() -> None:
    source = "def k0(a):\n    later(a, 1)\n    a[0] = a[1]\ndef later(a, i):\n    barrier()\n    a[i] = a[i] + 1\n"
    a = np.zeros(2, np.int64)
    simulate(function(source), 1, 4, [a])
    assert a.tolist() == [4, 4]


def test_shared_memory_holds_no_zeros_to_rely_on() -> None:
    source = "def k0(a):\n    memory = shared_i32(2)\n    a[0] = memory[1]\n"
    a = np.zeros(1, np.int32)
    simulate(function(source), 1, 1, [a])
    assert a[0] != 0


def test_the_first_fault_wins() -> None:
    source = "def k0(error):\n    report(error, i64(thread() + 7), i64(thread()), i64(5))\n"
    error = np.zeros(3, np.int64)
    simulate(function(source), 1, 4, [error])
    assert error.tolist() == [8, 0, 5]


def test_wide_accesses_must_be_aligned() -> None:
    source = "def k0(a):\n    x, y, z, w = load4_f32(a, 2)\n"
    with pytest.raises(IndexError, match="not a multiple of 4"):
        simulate(function(source), 1, 1, [np.zeros(8, np.float32)])
