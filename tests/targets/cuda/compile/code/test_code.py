"""The LLVM code that numba makes of kernel texts, run on this host: the same bits as the text that runs as Python.

Some kernels of each op; `tests.gate.device_code` runs all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dfc.lower.program import lower_graph
from dfc.ops.record import OpRecord
from dfc.transforms.expand import expand
from tests.support import random_programs
from tests.support.native_texts import NativeInterpreter
from tests.support.op_graphs import RECORDS, graph_of_samples
from tests.support.sweeping import few

LARGEST = 24  # elements of an operand: beside it a simulated lane runs in Python


def run(graph: Any, name: str, feeds: list[Any], state: dict[str, Any], sizes: dict[str, int]) -> None:
    program = lower_graph(expand(graph))
    entry = next(each for each in program.entries if each.name == name)
    machine = NativeInterpreter(program, entry, state, {symbol: sizes[str(symbol)] for symbol in entry.dims})
    machine.arguments = {number: np.array(feed) for number, feed in enumerate(feeds)}
    machine.run(entry.steps)


@pytest.mark.parametrize("record", few(RECORDS, 8))
def test_every_op_has_the_bits_of_its_text(record: OpRecord) -> None:
    graph, feeds = graph_of_samples(record, LARGEST)
    with np.errstate(all="ignore"):
        run(graph, "e", list(feeds.values()), {}, {})


@pytest.mark.parametrize("seed", few(range(12), 2))
def test_programs_with_state_and_loops_have_the_bits_of_their_texts(seed: int) -> None:
    with np.errstate(all="ignore"):
        run_program(random_programs.Generator(900 + seed))


def run_program(generator: random_programs.Generator) -> None:
    case = generator.program()
    (name,) = case.graph.entries
    feeds = [case.feeds[key] for key in case.graph.entries[name].parameter_names]
    state = {key: np.array(value) for key, value in case.state.items()}
    run(case.graph, name, feeds, state, {"B": case.batch})
