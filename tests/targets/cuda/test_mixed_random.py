"""Any program with nodes and state on any devices of a task means what the reference says, also the second time."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from random import Random
from typing import Any

import numpy as np
import pytest

import dfc_runtime
from dfc.bundle.writing import write
from dfc.distribute.deployment.task_devices import ON_CPU, Device
from dfc.distribute.place.devices import DeviceConstraints, OnDevices, place_on_devices
from dfc.driver.several_devices import lower_on_devices
from dfc.ir import walk
from dfc.ir.graph import Graph
from dfc.ir.options import CompileOptions, TargetOptions
from dfc.ops.effects.effects import effect
from dfc.ops.evaluate import evaluate
from dfc.ops.record import Effect
from dfc_target_cuda.target import SIMULATOR
from tests.support.cuda_simulator import simulation
from tests.support.lowered_cases import LoweredCase, expanded_programs, optimised_graphs
from tests.support.lowering import close
from tests.support.simulated_runtime import simulated_devices
from tests.support.sweeping import WHOLE, few

DEVICES = (Device("gpu", 0), Device("gpu", 1), ON_CPU)
OPTIONS = CompileOptions(target_options=TargetOptions((SIMULATOR,)))


def anywhere(graph: Graph, random: Random) -> OnDevices:
    """Half of all names on a device of their own, and two ops without a kernel on GPUs."""
    nodes = [node for entry in walk.entries(graph) for node in walk.nodes(entry.block)]
    names = [*graph.resources, *(node.name for node in nodes)]
    allowed = {name: (random.choice(DEVICES),) for name in names if random.random() < 0.5}
    ops = sorted({node.op for node in nodes if not node.regions and effect(node) is Effect.PURE})
    lacking = dict.fromkeys(random.sample(ops, min(2, len(ops))), "for a test")
    return place_on_devices(graph, DeviceConstraints(DEVICES, allowed, lacking=lacking))


def agree(case: LoweredCase, random: Random) -> None:
    """Two calls on one state."""
    placed = anywhere(case.ready, random)
    program, lowered = lower_on_devices(case.ready, placed, OPTIONS)
    lock = threading.Lock()

    def alone(*launch: Any) -> None:
        with lock:
            simulation.simulate(*launch)

    with simulated_devices(2, launch=alone):
        module = dfc_runtime.loads(write(program, lowered, "", {}).to_bytes(), threads=1, initialise=False)
        for name, value in case.state.items():
            module.state[name] = value
        state: Mapping[str, Any] = case.state
        entry = module.entries["e"].signature
        sizes = {name: case.sizes[name] for name in entry.dim_feeds}
        given = {name: np.asarray(value) for name, value in case.feeds.items()}
        for _ in range(2):
            with np.errstate(all="ignore"):
                expected = evaluate(case.original, "e", given, {k: np.array(v) for k, v in state.items()})
            found = module.e(*(case.feeds[each.name] for each in entry.parameters), **sizes)
            close(list(found) if isinstance(found, tuple) else [found], expected.results)
            for name, value in expected.state.items():
                close([np.asarray(module.state[name])], [value])
            state = expected.state
        module.close()


@pytest.mark.parametrize("block", few(range(8), 2))
def test_programs_with_state_and_loops(block: int) -> None:
    for number, case in enumerate(expanded_programs(block, 4 if WHOLE else 2)):
        agree(case, Random(100 * block + number))


@pytest.mark.parametrize("block", few(range(8), 2))
def test_graphs_of_all_ops_after_all_passes(block: int) -> None:
    for number, case in enumerate(optimised_graphs(block, 4 if WHOLE else 2)):
        agree(case, Random(100 * block + number))
