"""Every kernel of every op: the LLVM code that numba makes of its text, run on this host, has the bits of the text that
runs as Python. `tests.targets.cuda.compile.code.test_code` does that for some kernels of each op.

    python -m tests.gate.device_code [COUNT] [--seed N]

COUNT random programs with state and loops are run as well (default 60).
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

from tests.support import native_texts, random_programs
from tests.support.gating import differs
from tests.support.op_graphs import RECORDS, graph_of_samples
from tests.targets.cuda.compile.code.test_code import LARGEST, run, run_program


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("count", nargs="?", type=int, default=60)
    parser.add_argument("--seed", type=int, default=int(np.random.SeedSequence().entropy) % 2**31)
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    native_texts.NativeInterpreter.lines = float("inf")
    found = 0
    for record in (parameter.values[0] for parameter in RECORDS):
        found += differs(record.name, lambda record=record: run_op(record))
    for number in range(given.count):
        program = random_programs.Generator(given.seed + number)
        found += differs(f"program {given.seed + number}", lambda program=program: run_program(program))
    print(f"device code: {len(RECORDS)} ops, {given.count} programs, {found} differ")
    return int(bool(found))


def run_op(record: Any) -> None:
    graph, feeds = graph_of_samples(record, LARGEST)
    run(graph, "e", list(feeds.values()), {}, {})


if __name__ == "__main__":
    sys.exit(main())
