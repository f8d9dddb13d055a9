"""Calls of entries on a simulated device: launches, bytes that move, graphs that are kept, faults."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dfc.bundle.target import Lowered
from dfc.diagnostics.source import Span
from dfc.ir.dims import dim
from dfc.ir.dtypes import BOOL, F32
from dfc.ir.graph import Resource, ResourceKind
from dfc.ir.types import TensorType
from dfc.kernels.program import Buffer, BufferRole, Check, Copy, EntryProgram, Program
from dfc_runtime.errors import BundleError, LimitError
from dfc_runtime.graphs import executor
from dfc_runtime.graphs import memory_layout as places
from dfc_runtime.graphs.memory_layout import DEVICE_BIT
from tests.support.device_training import TRAIN, batch, bits, trainer
from tests.support.simulated_device import SimulatedDevice
from tests.support.simulated_programs import SimulatedRun, interpreted, program_of

SCALE = "readonly entry scale[B](x: f32[B], k: f32) -> (y: f32[B]) { return x * k }"
LOOKUP = """
var w: f32[3] = 0
var count: i64 = 0
entry look[B](ids: i32[B], k: f32) -> (y: f32[B], total: f32) {
  count += 1
  let y = w[ids] * k
  w += 1
  return y, sum(y)
}
"""


def test_a_training_step_is_one_launch_and_moves_feeds_and_results_only() -> None:
    run = trainer()
    x, y = batch(8)
    for _ in range(3):
        run.call("train", [x, y, np.float32(0.1)], {"B": 8})
    run.device.counts.clear()
    run.call("train", [x, y, np.float32(0.1)], {"B": 8})
    counts = run.device.counts
    assert (counts.launches, counts.graphs, counts.copies_in, counts.copies_out) == (1, 0, 1, 1)
    lines = 64 * -(-x.nbytes // 64) + 64 * -(-y.nbytes // 64)
    assert counts.bytes_in == 64 + lines + 64, "the slots of arguments, the feeds, the error block"
    assert counts.bytes_out == 64 + 16, "the error block, the loss"


def test_state_stays_on_the_device_until_it_is_pulled() -> None:
    run = trainer()
    x, y = batch(5)
    w, k = np.ones((4, 3)), 0.1
    for _ in range(4):
        run.call("train", [x, y, np.float32(k)], {"B": 5})
        w -= k * 2 / 15 * (x.T.astype(np.float64) @ (x @ w - y))
    np.testing.assert_allclose(run.state["w"], w, rtol=1e-5, atol=1e-6)
    run.state["w"][...] = 0
    run.driver.memory.push(["w"])
    run.state["w"][...] = 7
    run.driver.memory.pull(["w"])
    assert not run.state["w"].any() and run.state["steps"] == 4


def test_large_tensors_travel_by_themselves() -> None:
    size = places.SMALL // 4 + 1
    run = SimulatedRun(program_of(SCALE))
    x = np.arange(size, dtype=np.float32)
    (y,) = run.call("scale", [x, np.float32(2)], {"B": size})
    np.testing.assert_array_equal(y, 2 * x)
    counts = run.device.counts
    assert (counts.copies_in, counts.copies_out, counts.launches) == (2, 2, 1)
    assert counts.bytes_in < x.nbytes + 256 and counts.bytes_out < x.nbytes + 256


def test_graphs_are_kept_for_sizes_and_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "MOST_SESSIONS", 2)
    run = SimulatedRun(program_of(SCALE))

    def call(size: int) -> int:
        """How many graphs were built for a call."""
        before = run.device.counts.graphs
        (y,) = run.call("scale", [np.ones(size, np.float32), np.float32(size)], {"B": size})
        assert (y == size).all()
        return run.device.counts.graphs - before

    call(40)  # the largest first: later ones fit its memory
    assert [call(size) for size in (40, 30, 40, 30)] == [0, 1, 0, 0]
    assert [call(size) for size in (20, 30, 20, 40, 30)] == [1, 0, 0, 1, 1], "40 was used least recently, then 20"


def test_more_memory_moves_and_graphs_follow() -> None:
    """Nothing runs on memory that was freed: the device would say so."""
    run = trainer()
    for size in (1, 300, 1, 900, 300, 1):
        x, y = batch(size)
        before = run.state["w"].astype(np.float64)
        (loss,) = run.call("train", [x, y, np.float32(0.01)], {"B": size})
        np.testing.assert_allclose(loss, np.mean((x @ before - y) ** 2), rtol=1e-5)


def test_no_elements_are_no_work() -> None:
    run = SimulatedRun(program_of(SCALE))
    (y,) = run.call("scale", [np.zeros(0, np.float32), np.float32(2)], {"B": 0})
    assert y.shape == (0,)
    assert run.device.counts.kernels == 0


# --- memory of callers on the device


class Arrays:
    """Arrays on the device, and calls with them."""

    def __init__(self, run: SimulatedRun, entry: int = 0) -> None:
        self.run, self.entry = run, entry
        self.memory = run.driver.memory

    def put(self, array: np.ndarray, skip: int = 0) -> int:
        """The address of a copy, `skip` bytes into its memory."""
        address = self.memory.allocate(array.nbytes + 64) + skip
        with self.run.device.current():
            self.run.device.copy_in(address, array.ctypes.data, array.nbytes)
        return address

    def get(self, address: int, count: int) -> np.ndarray:
        found = np.zeros(count, np.float32)
        self.memory.copy_out(address, found)
        return found

    def call(self, *words: int) -> None:
        slots = np.array([*words, 0], np.uint64)
        assert self.run.driver.entry(self.entry).call(slots.ctypes.data) == 0


def test_feeds_and_results_on_the_device_are_used_in_place() -> None:
    run = SimulatedRun(program_of(SCALE))
    there = Arrays(run)
    x = np.arange(6, dtype=np.float32)
    for k in (2.0, 3.0):
        run.device.counts.clear()
        source, target = there.put(x), there.memory.allocate(24)
        there.call(source | DEVICE_BIT, bits(k), target | DEVICE_BIT, 6)
        np.testing.assert_array_equal(there.get(target, 6), k * x)
        assert run.device.counts.bytes_in == 64 + 64, "slots and error block"
        assert run.device.counts.bytes_out == 64
    assert (run.device.counts.graphs, run.device.counts.updates) == (0, 1), "one kernel uses both addresses"
    there.call(source | DEVICE_BIT, bits(5), target | DEVICE_BIT, 6)
    assert run.device.counts.updates == 1, "nothing changed"
    np.testing.assert_array_equal(there.get(target, 6), 5 * x)


def test_unaligned_memory_of_callers_is_copied_on_the_device() -> None:
    run = SimulatedRun(program_of(SCALE))
    there = Arrays(run)
    x = np.arange(6, dtype=np.float32)
    for skip in (4, 12):
        source, target = there.put(x, skip), there.memory.allocate(64) + 8
        there.call(source | DEVICE_BIT, bits(2), target | DEVICE_BIT, 6)
        np.testing.assert_array_equal(there.get(target, 6), 2 * x)
    assert run.device.counts.graphs == 1
    assert run.device.counts.updates == 2, "the copies in and out; the kernel keeps its addresses"


def test_memory_of_callers_inside_of_loops_is_copied_first() -> None:
    text = """
    readonly entry f[B](x: f32[B], n: i64) -> (y: f32[B]) {
      return loop h: f32[B] = x for i in 0..n { h = h * 2 + x }
    }"""
    run = SimulatedRun(program_of(text))
    there = Arrays(run)
    x = np.arange(1, 5, dtype=np.float32)
    for rounds in (0, 1, 3):
        source, target = there.put(x), there.memory.allocate(16)
        there.call(source | DEVICE_BIT, rounds, target | DEVICE_BIT, 4)
        np.testing.assert_array_equal(there.get(target, 4), x * (2 ** (rounds + 1) - 1))
    assert run.device.counts.graphs == 1


def test_a_host_feed_after_a_device_feed_has_a_graph_of_its_own() -> None:
    run = SimulatedRun(program_of(SCALE))
    there = Arrays(run)
    x = np.arange(6, dtype=np.float32)
    target = there.memory.allocate(24)
    there.call(there.put(x) | DEVICE_BIT, bits(2), target | DEVICE_BIT, 6)
    (y,) = run.call("scale", [x, np.float32(3)], {"B": 6})
    np.testing.assert_array_equal(y, 3 * x)
    np.testing.assert_array_equal(there.get(target, 6), 2 * x)
    assert run.device.counts.graphs == 2


# --- faults


def lookup() -> SimulatedRun:
    return SimulatedRun(program_of(LOOKUP), {"w": np.arange(3, dtype=np.float32), "count": np.int64(0)})


def test_after_a_fault_nothing_later_is_written() -> None:
    run = lookup()
    code, (y, total) = run.attempt("look", [np.array([0, 3], np.int32), np.float32(2)], {"B": 2})
    assert code == 1
    assert run.driver.last_fault()[0] == 0
    np.testing.assert_array_equal(run.state["w"], [0, 1, 2])
    assert not y.any() and not total, "results of the caller are left alone"


def test_the_next_call_begins_without_a_fault() -> None:
    run = lookup()
    bad, good = np.array([0, 3], np.int32), np.array([1, 2], np.int32)
    for _ in range(2):
        assert run.attempt("look", [bad, np.float32(2)], {"B": 2})[0] == 1
        (y, total) = run.call("look", [good, np.float32(2)], {"B": 2})
        np.testing.assert_array_equal(y, (run.state["w"] - 1)[good] * 2)
        assert total == y.sum()


def test_the_first_fault_of_the_program_is_told() -> None:
    """Both fail; on the device nothing but the order of the program says which comes first."""
    text = """
    readonly entry f(a: i32[2], b: i32[2], x: f32[3], y: f32[3]) -> (p: f32[2], q: f32[2]) {
      assert sum(x) < 10.0, "x"
      assert sum(y) < 10.0, "y"
      return x[a], y[b]
    }"""
    program = program_of(text)
    run = SimulatedRun(program)
    a, x = np.zeros(2, np.int32), np.ones(3, np.float32)
    kinds = {"x": [a, a, 9 * x, 9 * x], "y": [a, a, x, 9 * x], "index": [a + 5, a + 5, x, x]}
    for wanted, feeds in kinds.items():
        assert run.attempt("f", feeds)[0] == 1
        fault = program.faults[run.driver.last_fault()[0]]
        assert wanted in (fault.message, fault.kind)
    assert run.attempt("f", [a, a, x, x])[0] == 0


def test_whole_numbers_have_no_negative_powers() -> None:
    program = program_of("readonly entry f(a: i32[40], b: i32[40]) -> (p: i32[40]) {\n  return a ** b\n}")
    run = SimulatedRun(program)
    a, b = np.arange(-20, 20, dtype=np.int32), np.full(40, 3, np.int32)
    np.testing.assert_array_equal(run.call("f", [a, b])[0], a**3)
    b[33] = -1
    assert run.attempt("f", [a, b])[0] == 1
    assert program.faults[run.driver.last_fault()[0]].kind == "power"


@pytest.mark.parametrize("holds", [True, False])
def test_copies_into_state_look_for_faults(holds: bool) -> None:
    """A copy of the driver would not: it is a kernel where something may have failed."""
    tensor = (dim(40),)
    buffers = [
        Buffer(F32, tensor, BufferRole.ARGUMENT, "x", index=0),
        Buffer(BOOL, (), BufferRole.ARGUMENT, "holds", index=1),
        Buffer(F32, tensor, BufferRole.RESOURCE, "w", resource="w"),
        Buffer(F32, tensor, BufferRole.RESULT, "y", index=0),
    ]
    steps = (Copy(0, 3), Check(1, 0), Copy(0, 2))
    program = Program("t", [], [EntryProgram("f", buffers, steps, (0, 1), (3,), (), dim(0), dim(0))])
    type_ = TensorType(F32, tensor)
    program.resources = {"w": Resource("w", ResourceKind.VARIABLE, type_, True, None, Span.nowhere())}
    run = SimulatedRun(program, {"w": np.zeros(40, np.float32)})
    x = np.arange(40, dtype=np.float32)
    code, (y,) = run.attempt("f", [x, np.bool_(holds)])
    assert code == (0 if holds else 1)
    np.testing.assert_array_equal(run.state["w"], x if holds else 0 * x)
    np.testing.assert_array_equal(y, x if holds else 0 * x)


def test_a_loop_ends_with_a_fault() -> None:
    text = """
    var seen: i64 = 0
    entry f(n: i64, limit: i64) -> (last: i64) {
      let last = loop k: i64 = 0 while k < n {
        assert k < limit, "too far"
        seen += 1
        k = k + 1
      }
      return last
    }"""
    run = SimulatedRun(program_of(text), {"seen": np.int64(0)})
    assert run.call("f", [np.int64(5), np.int64(9)]) == [5]
    assert run.attempt("f", [np.int64(2**60), np.int64(3)])[0] == 1
    assert run.state["seen"] == 5 + 3


# --- limits


def test_memory_that_is_not_there_is_an_error_with_sizes() -> None:
    run = SimulatedRun(program_of(SCALE), device=SimulatedDevice(capacity=1 << 20))
    size = 1 << 18
    with pytest.raises(LimitError, match=r"needs .* of GPU memory, and .* are free") as refused:
        run.call("scale", [np.ones(size, np.float32), np.float32(1)], {"B": size})
    assert refused.value.code == "E0925"
    (y,) = run.call("scale", [np.ones(5, np.float32), np.float32(1)], {"B": 5})
    assert y.all(), "smaller calls still run"


def test_state_that_does_not_fit_leaves_nothing_behind() -> None:
    device = SimulatedDevice(capacity=32)
    with pytest.raises(LimitError):
        trainer(device)
    assert device.closed and device.memory_of.used == 0


def damaged(change: Callable[[dict], None]) -> SimulatedRun:
    """A program whose plan was changed."""

    def lower(program: Program) -> Lowered:
        lowered = interpreted(program)
        change(lowered.notes["plan"])
        return lowered

    return SimulatedRun(program_of(TRAIN), {"w": np.ones((4, 3), np.float32), "steps": np.int64(0)}, lower=lower)


def test_a_plan_that_leaves_its_memory_is_refused() -> None:
    def shrink(plan: dict) -> None:
        plan["entries"][0]["arena"] = 0

    def grow(plan: dict) -> None:
        for buffer in plan["entries"][0]["buffers"]:
            if buffer["role"] == "resource" and not buffer["scalar"]:
                buffer["bytes"] = buffer["room"] = 1 << 40

    def divide(plan: dict) -> None:
        plan["kernels"][0]["points"] = [1, 0, "//"]

    def widen(plan: dict) -> None:
        for buffer in plan["entries"][0]["buffers"]:
            if buffer["role"] == "argument" and not buffer["scalar"]:
                buffer["bytes"] = 96

    x, y = batch(2)
    for change in (shrink, grow, divide, widen):
        run = damaged(change)
        with pytest.raises(BundleError) as refused:
            run.call("train", [x, y, np.float32(0.1)], {"B": 2})
        assert refused.value.code == "E0906" and "\n" not in refused.value.message
