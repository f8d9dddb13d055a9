"""Looking at a task that works on several devices: `dfc place`, `dfc inspect`, `dfc show`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dfc.driver import api
from tests.support.command_line import Command

PROGRAM = """dfg 1

param w: f32[4, 5] = uniform(-1.0, 1.0)
param v: f32[5, 2] = uniform(-1.0, 1.0)

entry train[B](x: f32[B, 4], y: f32[B, 2]) -> (loss: f32) {
  let h = tanh(x @ w)
  let loss = mean(square(h @ v - y))
  debug.print("{}", loss)
  w -= 0.1 * grad(loss, w)
  v -= 0.1 * grad(loss, v)
  return loss
}
"""
DEPLOY = """deploy 1 for "model.dfg"

job worker tasks 2 with gpu = 2

place "w" on worker task 1 gpu 0
place "v" on worker task 1 gpu 1
place "train/**" on worker task 1
"""


@pytest.fixture
def placed(tmp_path: Path) -> tuple[Path, Path]:
    program, deployment = tmp_path / "model.dfg", tmp_path / "model.deploy"
    program.write_text(PROGRAM)
    deployment.write_text(DEPLOY)
    return program, deployment


def test_place_says_why_each_node_is_where_it_is(placed: tuple[Path, Path], dfc: Command) -> None:
    found = dfc("place", placed[0], "--deploy", placed[1]).out
    assert "worker-1  gpu 0, gpu 1, cpu  " in found and f"{placed[1]}:5,6" in found
    lines = {line.split()[0]: line for line in found.splitlines() if line.startswith("  ") and line.strip()}
    assert "worker:1 gpu 1" in lines["v"] and "gpu 1: its line says so" in lines["v"]
    assert "cpu: the host does `debug_print`" in lines["train/debug_print"]
    assert "gpu 0: with its state `w`" in lines["train/h/read"]
    assert "made where it is needed" in lines["train/loss/matmul/grad"]
    assert "gpu 0: beside what it uses" in lines["train/h/matmul"]
    assert "gpu 1 nothing that it uses is there" in lines["train/h/matmul"]
    compared = lines["train/loss/matmul"].partition("finished first here")[2]  # of h on one, and v on the other
    assert "gpu 0 " in compared and "gpu 1 " in compared and " us" in compared


def test_the_same_as_data(placed: tuple[Path, Path], dfc: Command) -> None:
    found = json.loads(dfc("place", placed[0], "--deploy", placed[1], "--format", "json").out)
    assert {"role": "worker-1", "devices": ["gpu 0", "gpu 1", "cpu"], "lines": [5, 6]} in found["devices"]
    (train,) = [entry for entry in found["entries"] if entry["name"] == "train"]
    nodes = {row["name"]: row for row in train["nodes"]}
    choice = nodes["train/loss/matmul"]["device_choice"]
    assert choice["reason"] == "finished first here"
    times = {each["device"]: each["finish"] for each in choice["alternatives"] if "finish" in each}
    assert times[nodes["train/loss/matmul"]["device"]] == min(times.values())


def test_inspect_says_what_each_device_holds_runs_and_sends(placed: tuple[Path, Path], dfc: Command) -> None:
    path = placed[0].parent / "model.bundle"
    api.compile(placed[0], deploy=placed[1], variants=["simulator"]).save(path)
    lines = [line.strip() for line in dfc("inspect", path).out.splitlines()]
    assert lines[1].startswith("compiled by LLVM ")  # the part of the processors; that of the GPUs is simulated
    start = lines.index("devices of worker-1")
    assert lines[start + 1].startswith("gpu 0: train, init; code simulator ")
    assert lines[start + 2] == "holds w"
    assert "sends train/loss/read:0: f32[5, 2] to gpu 0" in lines
    assert "sends train/loss: f32 to cpu" in lines
    assert any(line.startswith("cpu: train; code ") for line in lines)
    assert dfc("verify", path).code == 0


def test_show_prints_what_a_device_runs(placed: tuple[Path, Path], dfc: Command) -> None:
    roles = ["show", placed[0], "--deploy", placed[1], "--role"]
    whole, part = dfc(*roles, "worker-1").out, dfc(*roles, "worker-1/gpu1").out
    assert "debug_print" in whole and "graph.recv" not in whole
    assert "debug_print(" in whole and "debug_print(" not in part
    assert 'graph.send(loss_read, key = "train/loss/read:0"' in part and "param v" in part and "param w" not in part
    assert "worker-1, worker-1/gpu0, worker-1/gpu1, worker-1/cpu0" in dfc(*roles, "none").err
