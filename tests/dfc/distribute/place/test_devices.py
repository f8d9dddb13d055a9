"""Devices within a task: what lines say, what the host does, what has no kernel, and what the simulated run decides."""

from __future__ import annotations

import pytest

from dfc.diagnostics.source import SourceFile
from dfc.distribute.deployment.task_devices import ON_CPU, Device
from dfc.distribute.place.cost import Costs
from dfc.distribute.place.devices import DeviceConstraints, OnDevices, needs_host, place_on_devices, seconds_on
from dfc.driver import pipeline
from dfc.elaborate import build
from dfc.ir.graph import Graph

GPU, OTHER = Device("gpu", 0), Device("gpu", 1)
PROGRAM = """dfg 1

param w: f32[64, 512] = 0.5
var v: f32[512] = 0

entry step(x: f32[32, 64]) -> (y: f32) {
  let h = exp(x @ w)
  let y = sum(h)
  debug.print("{}", y)
  v := sum(h, axis = 0)
  return y
}
"""


def graph(text: str = PROGRAM) -> Graph:
    return pipeline.optimise(build.build(SourceFile("model.dfg", text), {}))


def placed(text: str = PROGRAM, **wishes: object) -> OnDevices:
    chosen = {"devices": (GPU, OTHER, ON_CPU), **wishes}
    return place_on_devices(graph(text), DeviceConstraints(**chosen))  # type: ignore[arg-type]


def test_state_and_all_that_touches_it_are_where_its_line_says() -> None:
    found = placed(allowed={"w": (OTHER,), "v": (ON_CPU,)})
    assert found.state == {"w": OTHER, "v": ON_CPU}
    read = next(node for node in found.nodes if node.op == "read")
    assert found.nodes[read] == OTHER and found.decisions["step"][read.name].reason == "with its state `w`"
    assert {found.nodes[n] for n in found.nodes if n.op == "assign" and n.name.startswith("step")} == {ON_CPU}


def test_what_no_line_is_about_begins_on_the_first_device() -> None:
    found = placed()
    assert found.state == {"w": GPU, "v": GPU}
    assert found.decisions[""]["w"].alternatives[0] == (OTHER, "named by no line of it")


def test_the_host_prints_whatever_lines_match_it() -> None:
    names = [node.name for node in graph().entries["step"].block.nodes]
    found = placed(allowed=dict.fromkeys(names, (OTHER,)), devices=(GPU, OTHER))
    told = next(node for node in found.nodes if node.op == "debug_print")
    assert found.nodes[told] == ON_CPU and found.devices == (GPU, OTHER, ON_CPU)
    assert found.decisions["step"][told.name].reason == "the host does `debug_print`"


def test_an_op_without_a_kernel_is_on_the_processors_and_the_reason_says_so() -> None:
    found = placed(devices=(GPU,), lacking={"exp": "for a test"})
    node = next(node for node in found.nodes if node.op == "exp")
    assert found.nodes[node] == ON_CPU
    assert found.decisions["step"][node.name].reason == "gpu: no kernel for `exp`, for a test"
    assert needs_host(graph(), {"exp": "for a test"}) and not needs_host(graph(), {"sinh": "for a test"})


def test_a_free_node_is_beside_what_it_uses() -> None:
    """Feeds are on the host, and draw nothing there, whatever the table says of small sizes."""
    found = placed(allowed={"w": (OTHER,), "v": (OTHER,)})
    node = next(node for node in found.nodes if node.op == "matmul")
    choice = found.decisions["step"][node.name]
    assert (choice.device, choice.reason) == (OTHER, "beside what it uses")
    assert {dict(choice.alternatives)[each] for each in (GPU, ON_CPU)} == {"nothing that it uses is there"}


def test_of_devices_that_have_something_it_uses_a_node_goes_where_it_is_finished_first() -> None:
    text = """dfg 1

var small: f32[64, 8] = 0
var large: f32[64, 4096] = 0

entry f(x: f32[32, 64]) -> (y: f32[8, 4096]) {
  let one = exp(small)
  let other = exp(large)
  return transpose(one) @ other
}
"""
    found = placed(text, allowed={"small": (GPU,), "large": (OTHER,)})
    node = next(node for node in found.nodes if node.op == "matmul")
    choice = found.decisions["f"][node.name]
    times = {device: end for device, end in choice.alternatives if isinstance(end, float)}
    assert (choice.device, choice.reason) == (OTHER, "finished first here")
    assert times.keys() == {GPU, OTHER} and times[OTHER] < times[GPU]


def test_work_on_what_the_processors_have_may_stay_there() -> None:
    found = placed(allowed={"w": (ON_CPU,), "v": (OTHER,)})
    node = next(node for node in found.nodes if node.op == "matmul")
    assert found.nodes[node] == ON_CPU


def test_state_beside_a_variable_says_so() -> None:
    found = placed(allowed={"w": (OTHER,), "v": (OTHER,)}, colocated_with={"v": "w"})
    assert found.decisions[""]["v"].reason == "beside `w`"


def test_what_is_joined_is_on_one_device() -> None:
    found = placed(allowed={"w": (GPU,), "v": (OTHER,)}, together={"v": "v", "step/h": "v"})
    node = next(node for node in found.nodes if node.name == "step/h")
    assert found.nodes[node] == OTHER and found.decisions["step"]["step/h"].reason == "together with `v`"


def test_what_is_in_a_loop_has_a_place_of_its_own_where_anything_says_so() -> None:
    text = """dfg 1

var a: f32[8] = 0
var b: f32[8] = 0

entry f() -> (y: f32[8]) {
  let y = loop y: f32[8] = a for k in 0..3 {
    b += y
    y = sin(y)
  }
  return y
}
"""
    found = placed(text, allowed={"a": (GPU,), "b": (OTHER,)})
    loop = next(node for node in found.nodes if node.op == "for")
    inside = {node.op: found.nodes[node] for node in found.nodes if node.name.startswith("f") and node is not loop}
    assert inside["assign"] == OTHER and inside["sin"] == found.nodes[loop] == GPU


@pytest.mark.parametrize("op", ["matmul", "exp"])
def test_a_gpu_is_faster_where_there_is_much_to_do_and_slower_where_there_is_little(op: str) -> None:
    node = next(n for n in graph().entries["step"].block.nodes if n.op == op)
    seconds = seconds_on(Costs(), node, ON_CPU)
    much, little = Costs(measured={}), Costs(measured={node.name: 1.0})
    assert seconds_on(much, node, GPU) == pytest.approx(5e-6 + (seconds - 0.5e-6) / 100)
    assert seconds_on(little, node, GPU) == 1.0  # as it was measured
