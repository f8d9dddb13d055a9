"""From lines of a deployment file to the devices of a task: what an optimiser keeps follows its variable."""

from __future__ import annotations

from functools import cache

import pytest

from dfc.diagnostics.source import SourceFile
from dfc.distribute.deployment.task_devices import Device
from dfc.driver import pipeline
from dfc.driver.many_ranks import DistributedProgram, distribute
from dfc.driver.several_devices import options_on
from dfc.elaborate import build
from dfc.ir.graph import Graph
from dfc.ir.options import CompileOptions, TargetOptions

PROGRAM = """dfg 1

from std.optim import Adam

var w: f32[4, 5] = 0.5
var v: f32[5, 2] = 0.25
var adam = Adam([w, v], rate = 0.01)

entry train[B](x: f32[B, 4], y: f32[B, 2]) -> (loss: f32) {
  let loss = mean(square(tanh(x @ w) @ v - y))
  adam.step(loss)
  return loss
}
"""
HEAD = 'deploy 1 for "model.dfg"\n\njob worker tasks 1 with gpu = 2\n\n'


@cache
def graphs() -> tuple[Graph, Graph]:
    built = build.build(SourceFile("model.dfg", PROGRAM), {})
    return built, pipeline.optimise(built)


def spreading(lines: str) -> DistributedProgram:
    return distribute(*graphs(), SourceFile("model.deploy", HEAD + lines))


def state(lines: str) -> dict[str, str]:
    (placed,) = spreading(lines).devices.values()
    return {name: str(device) for name, device in placed.state.items()}


def test_what_an_optimiser_keeps_is_beside_its_variable() -> None:
    found = state('place "**" on worker gpu 0\nplace "v" on worker gpu 1\n')
    assert {device for name, device in found.items() if "[v]" in name or name == "v"} == {"gpu 1"}
    assert {device for name, device in found.items() if "[v]" not in name and name != "v"} == {"gpu 0"}


def test_but_a_line_that_says_as_much_of_it_holds() -> None:
    slot = next(name for name in graphs()[1].resources if "[v]" in name)
    lines = f'place "v" on worker gpu 1\nplace "w" on worker gpu 0\nplace "{slot}" on worker any cpu\n'
    assert state(lines)[slot] == "cpu"


def test_a_task_of_one_device_is_not_cut() -> None:
    assert not spreading('place "**" on worker gpu 1\n').devices
    assert not spreading('place "**" on worker\n').devices


@pytest.mark.parametrize("device", [Device("gpu", 1), Device()])
def test_each_part_is_compiled_for_its_device(device: Device) -> None:
    asked = CompileOptions(target_options=TargetOptions(("x86-64-v3", "sm_90")))
    found = options_on(device, asked)
    assert (found.target, found.target_options.isas) == {
        "gpu": ("cuda", ("sm_90",)),
        "cpu": ("cpu", ("x86-64-v3",)),
    }[device.kind]
