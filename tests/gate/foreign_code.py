"""Code for aarch64, made here and run under qemu: every op on its samples, and random programs with state and loops,
compute what the reference evaluator says.

    python -m tests.gate.foreign_code [COUNT] [--seed N]

COUNT random programs are run (default 60). Needs qemu-user and a C compiler for aarch64, and says what to install.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

from dfc.ir.graph import Graph
from dfc.lower.program import lower_graph
from dfc.ops.evaluate import evaluate
from dfc.transforms.expand import expand
from tests.support.foreign_run import ForeignRun, missing
from tests.support.gating import differs
from tests.support.lowering import close
from tests.support.op_graphs import RECORDS, graph_of_samples
from tests.support.random_programs import Generator

ISA = "aarch64"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("count", nargs="?", type=int, default=60)
    parser.add_argument("--seed", type=int, default=int(np.random.SeedSequence().entropy) % 2**31)
    given = parser.parse_args()
    if absent := missing(ISA):
        print(f"foreign code: {absent}")
        return 1
    print(f"seed {given.seed}", flush=True)
    differing = sum(differs(record.name, lambda record=record: run_op(record)) for record in records())
    for number in range(given.seed, given.seed + given.count):
        differing += differs(f"program {number}", lambda number=number: run_program(number))
    print(f"foreign code: {len(records())} ops, {given.count} programs, {differing} differ")
    return int(bool(differing))


def records() -> list[Any]:
    return [parameter.values[0] for parameter in RECORDS]


def run_op(record: Any) -> None:
    graph, feeds = graph_of_samples(record)
    agree(graph, "e", feeds, {}, {})


def run_program(number: int) -> None:
    case = Generator(number).program()
    (name,) = case.graph.entries
    agree(case.graph, name, case.feeds, case.state, {"B": case.batch})


def agree(graph: Graph, entry: str, feeds: dict[str, Any], state: dict[str, Any], sizes: dict[str, int]) -> None:
    """Results and state of one call are those of the reference."""
    before = {name: np.array(value) for name, value in state.items()}
    expected = evaluate(graph, entry, {name: np.asarray(value) for name, value in feeds.items()}, before)
    foreign = ForeignRun(lower_graph(expand(graph)), state, ISA)
    close(foreign.call(entry, [feeds[name] for name in graph.entries[entry].parameter_names], sizes), expected.results)
    for name, value in expected.state.items():
        close([foreign.state[name]], [value])


if __name__ == "__main__":
    sys.exit(main())
