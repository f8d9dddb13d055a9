"""The parts of a task on its devices: any program with any devices gives the very bits of the undivided one."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from dfc.diagnostics.diagnostic import CompileError
from dfc.diagnostics.source import SourceFile
from dfc.distribute.deployment.task_devices import ON_CPU, Device
from dfc.distribute.partition import EntryParts, RankGraphs, RankRole
from dfc.distribute.partition.devices import DeviceParts, job_of, split_by_device
from dfc.distribute.place.devices import DeviceConstraints, place_on_devices
from dfc.driver import pipeline
from dfc.elaborate import build
from dfc.ir import walk
from dfc.ir.graph import Graph
from dfc.ops.effects.communication import RecvAttributes, SendAttributes
from tests.support.agreeing import reference, verified
from tests.support.random_graphs import random_case
from tests.support.sweeping import few
from tests.support.tasks import run_parts

DEVICES = (Device("gpu", 0), Device("gpu", 1), ON_CPU)


def randomly(graph: Graph, random: Random) -> DeviceParts:
    """Any devices for names, or none; some ops without a kernel on GPUs."""
    names = [*graph.resources, *(node.name for entry in walk.entries(graph) for node in walk.nodes(entry.block))]
    allowed = {name: (random.choice(DEVICES),) for name in names if random.random() < 0.7}
    ops = sorted({node.op for entry in walk.entries(graph) for node in walk.nodes(entry.block) if not node.regions})
    lacking = {op: "for a test" for op in ops if random.random() < 0.1 and op not in ("read", "assign")}
    return split_by_device(graph, place_on_devices(graph, DeviceConstraints(DEVICES, allowed, lacking=lacking)))


def as_tasks(split: DeviceParts, graph: Graph) -> RankGraphs:
    """Devices as tasks, for whoever runs those."""
    made = RankGraphs({job_of(device): 1 for device in split.graphs})
    made.graphs = {RankRole(job_of(device), 0): part for device, part in split.graphs.items()}
    for name, entry in graph.entries.items():
        results = {
            result: f"{job_of(device)}:0"
            for device, part in split.graphs.items()
            if name in part.entries
            for result in part.entries[name].result_names
        }
        assert results.keys() == set(entry.result_names)
        made.entries[name] = EntryParts((), {}, results)
    return made


@pytest.mark.parametrize("seed", few(range(100), 35))
def test_devices_together_compute_what_the_whole_computes(seed: int) -> None:
    case = random_case(seed, size=14)
    split = randomly(case.graph, Random(seed))
    parts = as_tasks(split, case.graph)
    for role, graph in parts.graphs.items():
        verified(graph, f"partition of {role.name}")

    expected = reference(case)
    state, names = case.state(), case.graph.entries["e"].result_names
    own = {f"{role.job}:0": {name: state[name] for name in graph.resources} for role, graph in parts.graphs.items()}
    results, after = run_parts(parts, "e", case.feeds(), own, {"N": case.size})
    for name, value in zip(names, expected.results, strict=True):
        np.testing.assert_array_equal(results[name], value, err_msg=f"seed {seed}, {name}")
    for task, values in after.items():
        for name, value in values.items():
            np.testing.assert_array_equal(value, expected.state[name], err_msg=f"seed {seed}, {name} in {task}")


def built(text: str) -> Graph:
    return pipeline.optimise(build.build(SourceFile("model.dfg", f"dfg 1\n{text}"), {}))


def test_messages_of_tasks_keep_their_keys_and_those_of_devices_have_others() -> None:
    graph = built("var a: f32[4] = 0\nvar b: f32[4] = 0\nentry f() {\n  b := sin(a)\n}\n")
    wishes = DeviceConstraints(DEVICES, {"a": DEVICES[:1], "b": DEVICES[1:2]})
    once = split_by_device(graph, place_on_devices(graph, wishes))
    (key,) = once.inner
    again = split_by_device(once.graphs[DEVICES[1]], place_on_devices(once.graphs[DEVICES[1]], wishes))
    sent = again.graphs[ON_CPU].entries["f"].block.nodes
    keys = {n.attributes.key for n in sent if isinstance(n.attributes, SendAttributes | RecvAttributes)}
    assert key in keys and len(again.inner) == 1 and key not in again.inner  # messages with others go by the processors


def test_constants_are_made_where_they_are_needed() -> None:
    graph = built("var a: f32[4] = 0\nvar b: f32[4] = 0\nentry f() {\n  a := [1, 2, 3, 4]\n  b := [1, 2, 3, 4]\n}\n")
    wishes = DeviceConstraints(DEVICES, {"a": DEVICES[:1], "b": DEVICES[1:2]})
    assert split_by_device(graph, place_on_devices(graph, wishes)).inner == ()


def test_an_entry_that_saves_is_whole_on_the_processors_and_does_nothing_else() -> None:
    text = "var a: f32[4] = 0\nentry keep(path: string) {\n  checkpoint.save(path, program)\n}\n"
    graph = built(text)
    split = split_by_device(graph, place_on_devices(graph, DeviceConstraints(DEVICES)))
    assert list(split.graphs[ON_CPU].entries) == ["keep"] and "a" in split.graphs[ON_CPU].resources
    more = built(text.replace("program)\n", "program)\n  a += 1\n"))
    with pytest.raises(CompileError, match="an entry that saves or restores does nothing else"):
        split_by_device(more, place_on_devices(more, DeviceConstraints(DEVICES)))
