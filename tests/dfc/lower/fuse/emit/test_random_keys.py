"""Random numbers that differ by their key alone come from one kernel."""

from __future__ import annotations

import numpy as np

from dfc.driver.pipeline import optimise
from dfc.lower.buffers.buffers import assign_buffers
from dfc.lower.fuse.fuse import fuse
from dfc.lower.schedule.schedule import schedule
from tests.support.building import graph_of
from tests.support.lowering import agree

STATE = {
    "first": np.zeros((6, 4), np.float32),
    "second": np.zeros((6, 4), np.float32),
    "long": np.zeros((7, 4), np.float32),
}
PROGRAM = """
dfg 1

param first: f32[6, 4] = normal(0, 0.5)
param second: f32[6, 4] = normal(0, 0.5)
param long: f32[7, 4] = normal(0, 0.5)

entry sums() -> f32 {
  return sum(first) + sum(second) + sum(long)
}
"""


def test_first_values_of_one_shape_share_a_kernel_whatever_their_key() -> None:
    program = assign_buffers(schedule(fuse(optimise(graph_of(PROGRAM)))))
    init = next(entry for entry in program.entries if entry.name == "init")
    launched = [step.kernel for step in init.steps if hasattr(step, "kernel")]
    assert launched[0] == launched[1] != launched[2] and len(launched) == 3


def test_the_numbers_are_those_of_their_own_keys() -> None:
    """Against the reference evaluator, which knows of no kernels."""
    agree(optimise(graph_of(PROGRAM)), state=STATE, entry="init")
