"""The run side on ranks that do not exist: start, calls, and a rank that dies, in virtual time.

    python -m bench.ranks.virtual [--ranks 64,1024] [--deadline 2]

Each rank is a thread with a clock (`dfc_runtime.distributed.transport.virtual`), which runs the program of its task for
real: a table with two rows a rank is added to, and compared with what it has to be. Printed are virtual times, and the
most messages that one rank sends in a call. 1,024 ranks take about half a minute and 0.5 GB, 4,096 eight
minutes and 5 GB.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np

from dfc.diagnostics.source import SourceFile
from dfc.driver.api import compile_source
from dfc.ir.options import CompileOptions
from dfc_runtime.distributed.calls.cluster_module import ClusterModule
from dfc_runtime.distributed.loading import load_on
from dfc_runtime.distributed.transport.virtual import DiedError, VirtualComm, VirtualNetwork
from dfc_runtime.errors import RankError

CALLS = 4


def bundle(ranks: int) -> bytes:
    """A program whose table lies in rows on all ranks but the first."""
    owners = ranks - 1
    program = f"dfg 1\n\nvar table: i32[{2 * owners}] = 1\n\nentry add(x: i32) {{\n  table += x\n}}\n"
    placement = f'job worker tasks 1\njob ps tasks {owners}\nshard "table" axis 0 over ps by modulo\n'
    deploy = SourceFile("table.deploy", f'deploy 1 for "table.dfg"\n\n{placement}')
    return compile_source(SourceFile("table.dfg", program), CompileOptions(), deploy).to_bytes()


def started_and_called(data: bytes, ranks: int) -> str:
    """A row of the table."""
    network = VirtualNetwork(ranks)
    marks: list[float] = []
    sent: list[list[int]] = []

    def call(module: ClusterModule, comm: VirtualComm) -> None:
        marks.append(comm.seconds())
        for _ in range(CALLS):
            module.add(1)
            marks.append(comm.seconds())
            sent.append([rank.sent for rank in network.ranks])
        table = np.array(module.state["table"])
        assert (table == 1 + CALLS).all(), "a rank has not done its part, or has done it twice"
        marks.append(comm.seconds())

    _raised(network.run(lambda comm: _lived(comm, data, 60, call)))
    most = int((np.array(sent[-1]) - np.array(sent[-2])).max())
    start, last, fetch = marks[0], marks[CALLS] - marks[CALLS - 1], marks[-1] - marks[CALLS]
    return f"{ranks:>6,} {1e3 * start:>10.2f} ms {1e6 * last:>8.0f} µs {most:>10} {1e3 * fetch:>10.2f} ms"


def ended(data: bytes, ranks: int, deadline: float) -> str:
    """What comes of a rank that dies between two calls."""
    dead = ranks // 3
    network = VirtualNetwork(ranks, deaths={dead: 1.0})
    ends = [0.0] * ranks

    def call(module: ClusterModule, comm: VirtualComm) -> None:
        while comm.seconds() < 1:
            comm.idle(1000)
        module.add(1)

    def live(comm: VirtualComm) -> None:
        try:
            _lived(comm, data, deadline, call)
        finally:
            ends[comm.rank] = comm.seconds()

    outcomes = network.run(live)
    assert isinstance(outcomes.pop(dead), DiedError)
    assert all(isinstance(each, RankError) for each in outcomes)
    reports = {str(each) for each in outcomes}
    lines = len(str(outcomes[0]).splitlines())
    return f"{ranks:>6,} {max(ends) - 1:>10.2f} s {len(reports):>8} {lines:>10}"


def _lived(comm: VirtualComm, data: bytes, deadline: float, work) -> None:
    """A rank from the first to the last: rank 0 does the work, the others serve."""
    module = load_on(data, comm, seconds=deadline, threads=1)
    assert isinstance(module, ClusterModule)
    try:
        if comm.rank == 0:
            work(module, comm)
        else:
            module.serve()
    finally:
        module.close()


def _raised(outcomes: Sequence[object]) -> None:
    for each in outcomes:
        if isinstance(each, BaseException):
            raise each


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="64,1024", help="how many ranks, separated by commas")
    parser.add_argument("--deadline", type=float, default=2.0, help="seconds that a rank waits for another")
    options = parser.parse_args()
    sizes = [int(each) for each in options.ranks.split(",")]
    bundles = {ranks: bundle(ranks) for ranks in sizes}
    begin = time.monotonic()
    print(f"{'ranks':>6} {'start':>13} {'a call':>11} {'most sent':>10} {'fetch':>13}")
    for ranks in sizes:
        print(started_and_called(bundles[ranks], ranks), flush=True)
    print(f"\na rank dies, the deadline is {options.deadline:g} s")
    print(f"{'ranks':>6} {'all ended':>12} {'reports':>8} {'lines':>10}")
    for ranks in sizes:
        print(ended(bundles[ranks], ranks, options.deadline), flush=True)
    print(f"\n{time.monotonic() - begin:.0f} s of this machine")


if __name__ == "__main__":
    main()
