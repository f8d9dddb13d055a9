"""Tasks that work on processors and GPUs at once: one program, one process, devices with memories of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dfc
from dfc.diagnostics.source import SourceFile
from dfc.driver.api import compile_source
from dfc.ir.options import CompileOptions, TargetOptions
from dfc_driver_cuda import libcuda
from dfc_runtime.devices import no_device
from dfc_runtime.distributed.calls.cluster_module import ClusterModule
from dfc_runtime.errors import DfcError, RunError
from dfc_target_cuda.target import SIMULATOR
from tests.support.clusters import on_cluster
from tests.support.corpus import ROOT
from tests.support.cuda_simulator import simulation
from tests.support.documents import code_blocks
from tests.support.simulated_device import SimulatedDevice
from tests.support.simulated_runtime import simulated_devices
from tests.support.sweeping import few

PROGRAM = """
param w: f32[4, 5] = uniform(-1.0, 1.0)
param v: f32[5, 2] = uniform(-1.0, 1.0)
var seen: i64 = 0

entry train[B](x: f32[B, 4], y: f32[B, 2]) -> (loss: f32) {
  let h = tanh(x @ w)
  let loss = mean(square(h @ v - y))
  w -= 0.1 * grad(loss, w)
  v -= 0.1 * grad(loss, v)
  seen += B
  return loss
}

readonly entry predict[B](x: f32[B, 4]) -> (y: f32[B, 2]) {
  return tanh(x @ w) @ v
}
"""
RANDOM = np.random.default_rng(1)
X = RANDOM.normal(size=(4, 4)).astype(np.float32)
Y = RANDOM.normal(size=(4, 2)).astype(np.float32)
JOB = "job worker tasks 1 with gpu = 2\n"
PLACES = {
    "processor and gpu": 'place "**" on worker any gpu\nplace "seen" on worker any cpu\nplace "w" on worker any cpu\n',
    "two gpus": 'place "**" on worker gpu 0\nplace "v" on worker gpu 1\n',
    "all three": 'place "w" on worker gpu 1\nplace "v" on worker gpu 0\nplace "seen" on worker any cpu\n',
    "values alone": 'place "**" on worker gpu 1\nplace "**/h" on worker any cpu\nplace "train/loss" on worker gpu 0\n',
}


@pytest.fixture(autouse=True)
def gpus() -> Iterator[list[list[SimulatedDevice]]]:
    """What is opened of each of four. A simulated launch needs the process to itself."""
    one_at_a_time = threading.Lock()

    def simulate_alone(*launch: Any) -> None:
        with one_at_a_time:
            simulation.simulate(*launch)

    with simulated_devices(4, launch=simulate_alone) as opened:
        yield opened


def bundle(deployment: str, program: str = PROGRAM, **options: Any) -> bytes:
    deploy = SourceFile("model.deploy", f'deploy 1 for "model.dfg"\n{deployment}')
    chosen = CompileOptions(target_options=TargetOptions((SIMULATOR,)), **options)
    return compile_source(SourceFile("model.dfg", f"dfg 1\n{program}"), chosen, deploy).to_bytes()


def run(deployment: str, work: Callable[[Any], Any], program: str = PROGRAM, ranks: int = 1) -> Any:
    return on_cluster(bundle(deployment, program), ranks, work)


def alone(program: str = PROGRAM) -> Any:
    return dfc.loads(dfc.compile(text=f"dfg 1\n{program}").to_bytes(), threads=1)


def trained(module: Any) -> tuple[np.ndarray, ...]:
    losses = np.array([module.train(X, Y).loss for _ in range(3)])
    state = [np.array(module.state[name]) for name in ("w", "v", "seen")]
    return losses, *state, np.array(module.predict(X).y)


def same(found: tuple[np.ndarray, ...], expected: tuple[np.ndarray, ...]) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)  # sums are in another order


@pytest.mark.parametrize("where", few(PLACES, 2))
def test_training_is_that_of_the_processor_wherever_state_and_values_are(where: str) -> None:
    same(run(JOB + PLACES[where], trained), trained(alone()))


def test_each_gpu_is_opened_once_and_one_that_no_line_names_is_not(gpus: list[list[SimulatedDevice]]) -> None:
    run(JOB + PLACES["two gpus"], trained)
    run(JOB + 'place "**" on worker gpu 1\nplace "seen" on worker any cpu\n', trained)
    assert [len(opened) for opened in gpus] == [1, 2, 0, 0]


def test_a_call_moves_what_crosses_and_nothing_else(gpus: list[list[SimulatedDevice]]) -> None:
    """The matrices stay where they are: what a step copies is far less than they are."""
    program = PROGRAM.replace("[4, 5]", "[4, 100]").replace("[5, 2]", "[100, 2]")
    moved: list[int] = []

    def work(module: Any) -> None:
        module.train(X, Y)
        counts = [device.counts for opened in gpus for device in opened]
        for each in counts:
            each.clear()
        module.train(X, Y)
        moved.append(max(each.bytes_in for each in counts))

    lines = 'place "train/**" on worker gpu 0\nplace "w" on worker gpu 0\nplace "v" on worker gpu 1\n'
    text = program.replace("seen += B", "seen += B\n  w += 0.0 * w")
    run(f'{JOB}{lines}place "seen" on worker any cpu\n', work, text)
    assert 0 < moved[0] < 3 * 4 * 100 * 4  # h, its gradient and v's columns cross; w does not


def test_checkpoints_are_those_of_any_other_placement(tmp_path: Path) -> None:
    def work(module: Any) -> tuple[np.ndarray, ...]:
        found = trained(module)
        ClusterModule.save(module, tmp_path)
        return found

    _, w, v, seen, y = run(JOB + PLACES["all three"], work)
    processor = alone()
    processor.restore(tmp_path)
    for name, value in {"w": w, "v": v, "seen": seen}.items():
        np.testing.assert_array_equal(processor.state[name], value)
    np.testing.assert_allclose(processor.predict(X).y, y, rtol=1e-5)

    def restored(module: Any) -> tuple[np.ndarray, ...]:
        ClusterModule.restore(module, tmp_path)
        module.state["seen"] = np.int64(40)
        return np.array(module.state["w"]), np.array(module.state["v"]), np.array(module.predict(X).y)

    np.testing.assert_array_equal(run(JOB + PLACES["two gpus"], restored)[0], w)


@pytest.mark.parametrize(("failing", "other"), [("gpu 0", "gpu 1"), ("gpu 1", "gpu 0"), ("any cpu", "gpu 1")])
def test_a_fault_on_one_device_stops_the_call_with_its_line(failing: str, other: str) -> None:
    program = """
var a: f32[4] = 1
var b: f32[4] = 1

entry f(i: i32) -> (y: f32) {
  let one = a[i]
  let two = b * one
  b := two
  return sum(two)
}
"""
    lines = f'place "a" on worker {failing}\nplace "f/one" on worker {failing}\nplace "b" on worker {other}\n'

    def work(module: Any) -> tuple[Any, ...]:
        with pytest.raises(RunError, match="index") as problem:
            module.f(9)
        left = np.array(module.state["b"])
        module.init()
        return problem.value.line, left, module.f(2).y

    line, left, y = run(JOB + lines, work, program)
    assert (line, y) == (7, 4.0)
    np.testing.assert_array_equal(left, np.ones(4))  # what needed the value did not happen


def test_of_faults_on_two_devices_always_the_same_is_told() -> None:
    program = """
var a: f32[4] = 1
var b: f32[4] = 1

entry f(i: i32) -> (y: f32, z: f32) {
  let one = a[i]
  let two = b[i]
  return one, two
}
"""
    lines = 'place "a" on worker gpu 0\nplace "f/one" on worker gpu 0\nplace "b" on worker gpu 1\n'

    def work(module: Any) -> list[int]:
        found = []
        for _ in range(20):
            with pytest.raises(RunError) as problem:
                module.f(9)
            found.append(problem.value.line)
        return found

    assert set(run(f'{JOB}{lines}place "f/two" on worker gpu 1\n', work, program)) == {7}


LOOPS = """
var a: f32[6] = 0.5
var b: f32[6] = 0.25

entry f(n: i32) -> (y: f32[6], rounds: i32) {
  let y, rounds = loop y: f32[6] = a, i: i32 = 0 while i < n {
    let half = y * 0.5
    b += half
    y = sin(half) + b
    i = i + 1
  }
  if sum(y) > 1.0 {
    a := y
  } else {
    b := y
  }
  return y, rounds
}
"""


@pytest.mark.parametrize(
    "lines",
    [
        'place "a" on worker gpu 0\nplace "b" on worker gpu 1\n',
        'place "**" on worker gpu 0\nplace "b" on worker any cpu\nplace "f/half" on worker gpu 1\n',
    ],
)
def test_loops_and_branches_may_span_devices(lines: str) -> None:
    def work(module: Any) -> tuple[np.ndarray, ...]:
        found = [module.f(n) for n in (0, 1, 5)]
        kept = [np.array(module.state[name]) for name in "ab"]
        return (*(each.y for each in found), np.array([each.rounds for each in found]), *kept)

    same(run(JOB + lines, work, LOOPS), work(alone(LOOPS)))


def test_sizes_that_the_run_finds_out_cross_devices() -> None:
    program = """
var a: f32[6] = [1, -1, 2, -2, 3, 4]
var total: f32 = 0

entry f(least: f32) -> (y: f32[?]) {
  let chosen = a[a > least]
  let y = chosen * 2.0
  total += sum(y)
  return y
}
"""
    lines = 'place "a" on worker gpu 0\nplace "f/chosen" on worker gpu 0\nplace "f/y" on worker gpu 1\n'

    def work(module: Any) -> tuple[np.ndarray, ...]:
        return (*(np.array(module.f(least).y) for least in (0.0, 9.0, 1.5)), np.array(module.state["total"]))

    same(run(f'{JOB}{lines}place "total" on worker any cpu\n', work, program), work(alone(program)))


def test_parts_of_entries_run_on_the_same_state() -> None:
    def work(module: Any) -> tuple[np.ndarray, ...]:
        module.train(X, Y)
        h = module.run("train/h", {"x": X})
        loss = module.run("train/loss", {"train/h": h, "y": Y})
        return np.array(h), np.array(loss)

    h, loss = run(JOB + PLACES["two gpus"], work)
    other_h, other_loss = work(alone())
    np.testing.assert_allclose(h, other_h, rtol=1e-5)
    np.testing.assert_allclose(loss, other_loss, rtol=1e-5)


def test_what_is_printed_is_printed_once_and_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    program = PROGRAM.replace("  w -= 0.1", '  debug.print("loss {}", loss)\n  w -= 0.1').replace(
        "  seen += B", '  debug.print("seen {}", seen)\n  seen += B'
    )
    run(JOB + PLACES["two gpus"], lambda module: [module.train(X, Y) for _ in range(2)], program)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in lines] == ["loss", "seen"] * 2
    assert lines[1::2] == ["seen 0", "seen 4"]


def test_tasks_on_several_devices_are_ranks_like_any_other() -> None:
    lines = """
job ps tasks 1 with gpu = 1
job worker tasks 1 with gpu = 2

place "**" on worker gpu 1
place "w" on ps any gpu
place "v" on worker gpu 0
place "seen" on ps any cpu
"""
    same(run(lines, trained, ranks=2), trained(alone()))


def test_blocks_of_a_batch_are_trained_on_two_gpus_of_each_task(gpus: list[list[SimulatedDevice]]) -> None:
    lines = """
job worker tasks 2 with gpu = 2

place "**" on worker gpu 0
place "v" on worker gpu 1
replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 2
replicate predict over worker with mode = "independent"
"""
    same(run(lines, trained, ranks=2), trained(alone()))
    assert [len(opened) for opened in gpus] == [1, 1, 1, 1]


TABLE = """
param table: f32[8, 3] = uniform(-1.0, 1.0)
var seen: i64 = 0

entry train[B](ids: i32[B], rate: f32) -> (loss: f32) {
  let x = table[ids]
  let loss = mean(square(x))
  table -= rate * grad(loss, table)
  seen += B
  return loss
}

readonly entry near(x: f32[3]) -> (best: f32) {
  return max(table @ x)
}
"""


@pytest.mark.parametrize(
    "places",
    [
        'place "**" on worker any gpu\nplace "seen" on worker any cpu\n',
        'place "table" on ps any gpu\nplace "near/**" on ps any cpu\n',
        'place "table" on ps any gpu\nplace "seen" on worker any gpu\n',
    ],
)
def test_a_table_may_be_divided_over_tasks_of_several_devices(places: str) -> None:
    jobs = "job ps tasks 2 with gpu = 1\njob worker tasks 1 with gpu = 1\n"
    ids = np.array([1, 5, 2, 1], np.int32)

    def work(module: Any) -> tuple[np.ndarray, ...]:
        losses = np.array([module.train(ids, 0.5).loss for _ in range(3)])
        return losses, np.array(module.state["table"]), np.array(module.near(np.ones(3, np.float32)).best)

    lines = f'{jobs}{places}shard "table" axis 0 over ps by modulo\n'
    same(run(lines, work, TABLE, ranks=3), work(alone(TABLE)))


def test_the_deployment_that_the_page_shows_computes_what_one_processor_does(
    gpus: list[list[SimulatedDevice]],
) -> None:
    blocks = code_blocks(ROOT / "docs" / "DEPLOYMENT.md")
    program = next(block.text for block in blocks if block.language == "dfg")
    program = program.removeprefix("dfg 1\n").replace("WORDS = 1000", "WORDS = 12").replace("WIDTH = 16", "WIDTH = 4")
    (deployment,) = [block.text for block in blocks if 'place "output" on worker gpu 1' in block.text]
    lines = deployment.partition("\n")[2]
    center, context = (np.array(ids, np.int32) for ids in ([1, 5, 5, 2], [3, 0, 3, 11]))

    def work(module: Any) -> tuple[np.ndarray, ...]:
        losses = np.array([module.train(center, context, 0.25).loss for _ in range(2)])
        return losses, *(np.array(module.state[name]) for name in ("table", "output", "seen"))

    same(run(lines, work, program, ranks=2), work(alone(program)))
    assert [len(opened) for opened in gpus] == [1, 1, 1, 1]


def test_a_task_without_so_many_gpus_is_told_which_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def device_bits(number: int) -> frozenset[str]:
        if number:
            raise no_device(number, ["the only one"])
        return frozenset({SIMULATOR, "sm_90"})

    monkeypatch.setattr(libcuda, "device_bits", device_bits)
    with pytest.raises(DfcError, match="there is no GPU 1; there are 0 \\(the only one\\)") as problem:
        run(JOB + PLACES["two gpus"], trained)
    assert problem.value.code == "E0923"
