"""Whole programs on the simulated device: against the reference evaluator, and through the runtime beside the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import dfc
from dfc.bundle.target import Lowered
from dfc.kernels.program import Program
from dfc.lower.program import lower_graph
from dfc.ops.evaluate import evaluate
from dfc.transforms.expand import expand
from dfc_runtime.errors import RunError
from dfc_runtime.graphs import arena
from dfc_target_cuda.target import SIMULATOR
from tests.support import sized_programs
from tests.support.lowering import close
from tests.support.random_loops import random_loop
from tests.support.random_programs import Generator
from tests.support.simulated_device import SimulatedDevice
from tests.support.simulated_programs import SimulatedRun, in_text, interpreted, program_of
from tests.support.simulated_runtime import native, simulated, simulated_devices
from tests.support.sweeping import few

DIGITS = Path(__file__).resolve().parents[3] / "samples" / "digits.dfg"


def agree(
    seed: int,
    nodes: int,
    lower: Callable[[Program], Lowered],
    *,
    conditional_nodes: bool = True,
    device: SimulatedDevice | None = None,
) -> None:
    """Two calls on one state mean what the reference says, though nodes without edges run in the opposite order."""
    case = Generator(seed, nodes).program()
    (name,) = case.graph.entries
    given = {key: np.asarray(value) for key, value in case.feeds.items()}
    program = lower_graph(expand(case.graph))
    device = device or SimulatedDevice(conditional_nodes=conditional_nodes)
    run = SimulatedRun(program, case.state, device, lower)
    state = {key: np.array(value) for key, value in case.state.items()}
    for _ in range(2):
        with np.errstate(all="ignore"):
            expected = evaluate(case.graph, name, given, state)
        order = [given[key] for key in case.graph.entries[name].parameter_names]
        close(run.call(name, order, {"B": case.batch}), expected.results)
        state = {key: np.array(value) for key, value in expected.state.items()}
        for key, value in state.items():
            close([run.state[key]], [value])


@pytest.mark.parametrize("seed", few(range(40), 12))
def test_random_programs_mean_the_same(seed: int) -> None:
    agree(seed, 24, interpreted)


@pytest.mark.parametrize("seed", few(range(40, 60), 6))
def test_random_programs_mean_the_same_without_conditional_nodes(seed: int) -> None:
    agree(seed, 24, interpreted, conditional_nodes=False)


@pytest.mark.parametrize("seed", few(range(60, 85), 8))
def test_random_programs_mean_the_same_in_kernel_text(seed: int) -> None:
    agree(seed, 14, in_text)


def test_a_model_learns_the_same_as_on_the_processor() -> None:
    """Through the runtime: init, training, a fault, prediction, state, what is saved."""
    settings = {"HIDDEN": 8}
    rng = np.random.default_rng(0)
    images = rng.random((6, 64)).astype(np.float32)
    labels = rng.integers(0, 10, 6).astype(np.int32)
    with simulated_devices() as opened:
        bundle = dfc.compile(DIGITS, target="cuda", variants=[SIMULATOR], settings=settings)
        model = dfc.loads(bundle.to_bytes())
        beside = dfc.loads(dfc.compile(DIGITS, settings=settings).to_bytes(), threads=1)
        for _ in range(2):
            np.testing.assert_allclose(model.train(images, labels, 0.1), beside.train(images, labels, 0.1), rtol=1e-5)
        with pytest.raises(RunError, match=r"index 10 is out of range for axis of size 10 at digits\.dfg:31"):
            model.train(images, np.maximum(labels, 10), 0.1)
        np.testing.assert_array_equal(model.predict(images).digit, beside.predict(images).digit)
        assert model.state["steps"] == 2
        for name in beside.state:
            # each of two steps rounds sums of at most 64 products in another order
            np.testing.assert_allclose(model.state[name], beside.state[name], rtol=1e-5, atol=1e-6)
        counts = opened[0][-1].counts
        counts.clear()
        model.train(images, labels, 0.1)
        assert (counts.launches, counts.graphs, counts.copies_in, counts.copies_out) == (1, 0, 1, 1)


def test_results_stay_on_the_device_and_come_back_as_feeds() -> None:
    text = "readonly entry f[B](x: f32[B, 4], k: f32) -> (y: f32[B, 4], z: f32[4]) { return x * k, sum(x, axis = 0) }"
    with simulated_devices() as opened:
        model = simulated(text, results="device")
        x = np.arange(12, dtype=np.float32).reshape(3, 4)
        y, _ = model.f(x, 2.0)
        counts = opened[0][-1].counts
        counts.clear()
        again, z = model.f(y, 3.0)
        assert counts.bytes_in + counts.bytes_out < 300, "no tensor moved"
        np.testing.assert_array_equal(again.to_host(), 6 * x)
        np.testing.assert_array_equal(z.to_host(), (2 * x).sum(axis=0))


def test_two_devices_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
var w: f32 = 0
entry add(x: f32) -> (w: f32) {
  w += x
  return w
}"""
    with simulated_devices(2) as opened:
        first, second = simulated(text, device=0), simulated(text, device=1)
        monkeypatch.setenv("DFC_DEVICE", "1")
        third = simulated(text)
        assert [len(each) for each in opened] == [1, 2]
        for number, model in enumerate((first, second, third), 1):
            model.add(number)
        assert [float(m.state["w"]) for m in (first, second, third)] == [1, 2, 3]


def test_draws_are_those_of_the_processor() -> None:
    """Random numbers are counted, not timed: the same on any machine."""
    text = """
var noise: rng = philox(seed = 7)
entry draw() -> (u: f32[5], n: f32[5]) {
  let u = noise.uniform(f32[5])
  let n = noise.normal(f32[5])
  return u, n
}"""
    with simulated_devices():
        model, beside = simulated(text), native(text)
        for _ in range(2):
            for a, b in zip(model.draw(), beside.draw(), strict=True):
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("room", [1, 1 << 20], ids=["shared", "apart"])
def test_sums_in_several_blocks_may_share_their_scratch_memory(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    """Where it is scarce they wait for each other; else they may run at the same time."""
    monkeypatch.setattr(arena, "WORKSPACE", room)
    text = "readonly entry f(x: f32[9500], y: f32[9000]) -> (a: f32, b: f32) { return sum(x), sum(y * y) }"
    rng = np.random.default_rng(4)
    x, y = rng.integers(-9, 9, 9500).astype(np.float32), rng.integers(-9, 9, 9000).astype(np.float32)
    run = SimulatedRun(program_of(text), lower=in_text)
    workspaces = [kernel["workspace"] for kernel in run.lowered.notes["plan"]["kernels"]]
    assert len(workspaces) == 2 and all(workspaces), "both sums take several blocks"
    for _ in range(2):
        assert run.call("f", [x, y]) == [x.sum(), (y * y).sum()], "whole numbers have exact sums"


def tupled(results: object) -> tuple[object, ...]:
    return results if isinstance(results, tuple) else (results,)


@pytest.mark.parametrize(("seed", "conditional_nodes"), few([(3, True), (3, False), (7, False), (7, True)], 1))
def test_loops_and_their_gradients(seed: int, conditional_nodes: bool) -> None:
    """Nested iterations, branches, emits, draws, and what backpropagation makes of them."""
    case = random_loop(seed)
    text = case.with_setting("").removeprefix("dfg 1\n")
    with simulated_devices(conditional_nodes=conditional_nodes):
        model, beside = simulated(text), native(text)
        for entry in ("f", "value"):
            found, wanted = (tupled(getattr(m, entry)(**case.feeds)) for m in (model, beside))
            for a, b in zip(found, wanted, strict=True):
                # sums of f64 or f32 in another order, through at most 35 iterations
                np.testing.assert_allclose(np.asarray(a, float), np.asarray(b, float), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("conditional_nodes", [True, False])
def test_sizes_that_only_the_run_finds_out(conditional_nodes: bool) -> None:
    case = sized_programs.random_program(2, size=9, steps=6)
    with simulated_devices(conditional_nodes=conditional_nodes):
        model = simulated(case.text.replace("dfg 1\n", "", 1))
        for a, b in zip(tupled(model.f(case.feed)), case.expected, strict=True):
            np.testing.assert_array_equal(a, b)
