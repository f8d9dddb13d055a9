"""Random graphs that are ready to be lowered, with what to call their entry `e` with: for tests of targets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dfc.driver import pipeline
from dfc.ir.dtypes import F32
from dfc.ir.graph import Graph
from dfc.transforms.expand import expand
from tests.support import random_graphs, random_programs


@dataclass(frozen=True)
class LoweredCase:
    """A graph as it was made, and after passes that must not change what it means."""

    original: Graph
    ready: Graph
    feeds: dict[str, Any]
    state: dict[str, Any]
    sizes: dict[str, int]


def expanded_programs(block: int, count: int) -> Iterator[LoweredCase]:
    """Programs with state and loops, expanded only; each block has seeds of its own."""
    for seed in range(500 + count * block, 500 + count * (block + 1)):
        program = random_programs.Generator(seed).program()
        with np.errstate(all="ignore"):
            ready = expand(program.graph)
        yield LoweredCase(program.graph, ready, program.feeds, program.state, {"B": program.batch})


def optimised_graphs(block: int, count: int) -> Iterator[LoweredCase]:
    """Graphs of all ops after all passes, likewise."""
    for seed in range(7000 + count * block, 7000 + count * (block + 1)):
        case = random_graphs.random_case(seed, size=14, floating=F32)
        ready = case.graph
        with np.errstate(all="ignore"):
            for phase in pipeline.PHASES:
                ready = phase.run(ready)
        yield LoweredCase(case.graph, ready, case.feeds(), case.state(), {"N": case.size})
