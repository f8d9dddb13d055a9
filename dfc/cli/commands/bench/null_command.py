"""`dfc bench null`: what the coordination of a step takes, with parameters in servers and next to nothing computed."""

from __future__ import annotations

import json
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dfc.cli.ranks.launch import Launch, supervise
from dfc.cli.ranks.launchers import is_rank
from dfc.cli.ranks.null_steps import (
    NUMBER_BYTES,
    WIDTH,
    Measured,
    Sizes,
    messages_measured,
    percentiles,
    steps_measured,
)
from dfc.cli.ranks.process import as_rank, follow, watched
from dfc.cli.saving import Plan
from dfc.cli.tables import seconds, size, table
from dfc_runtime.distributed.calls.cluster_module import ClusterModule
from dfc_runtime.distributed.loading import load_on
from dfc_runtime.errors import counted

if TYPE_CHECKING:
    from mpi4py import MPI

    from dfc_runtime.distributed.launch.records import SupervisorLink

SILENCE = 30.0
WARM_UP = 5
MEGABYTE = 1_000_000


@click.command("null", short_help="Say what it takes to fetch parameters from servers and to update them.")
@click.option("--servers", type=click.IntRange(2, 64), default=2, show_default=True, help="Tasks with parameters.")
@click.option("--workers", type=click.IntRange(1, 256), default=2, show_default=True, help="Tasks that take steps.")
@click.option(
    "--dense", type=click.IntRange(1, 4_000), default=100, show_default=True, help="Megabytes of a dense step."
)
@click.option(
    "--table", "table_", type=click.IntRange(1, 4_000), default=16, show_default=True, help="Megabytes of a table."
)
@click.option("--steps", type=click.IntRange(1), default=50, show_default=True, help="Steps of each kind that count.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.option("--bundle", metavar="BUNDLE", hidden=True, help="What ranks run, compiled before they were started.")
def command(
    servers: int, workers: int, dense: int, table_: int, steps: int, *, as_json: bool, bundle: str | None
) -> int:
    """Takes steps that compute next to nothing, on ranks of MPI that it starts, and prints seconds of a step.

    Each worker fetches one number, all of some dense parameters, or 32 rows of a table, and the servers update what
    was fetched. Beside it stand plain messages of the same sizes.
    """
    sizes = Sizes(
        servers,
        workers,
        -(-dense * MEGABYTE // (NUMBER_BYTES * servers)) * servers,
        -(-table_ * MEGABYTE // (NUMBER_BYTES * WIDTH * servers)) * servers,
    )
    if bundle is not None and is_rank(starts_ranks=True):
        return as_rank(partial(_as_one_of, sizes, bundle, steps, is_json=as_json))
    words = ["bench", "null", f"--servers={servers}", f"--workers={workers}", f"--dense={dense}", f"--table={table_}"]
    words += [f"--steps={steps}", *(["--json"] * as_json)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "null.bundle"
        path.write_bytes(_compiled(sizes))
        launch = Launch(sizes.ranks, 0, 0, SILENCE)
        return supervise(launch, [*words, f"--bundle={path}"], Plan(), claims=False)


def _compiled(sizes: Sizes) -> bytes:
    # Ranks do without the compiler.
    from dfc.diagnostics.source import SourceFile
    from dfc.driver.api import compile_source
    from dfc.ir.options import CompileOptions

    source, deploy = SourceFile("null.dfg", sizes.program()), SourceFile("null.deploy", sizes.deployment())
    return compile_source(source, CompileOptions(), deploy).to_bytes()


def _as_one_of(
    sizes: Sizes, bundle: str, steps: int, comm: MPI.Intracomm, records: SupervisorLink, *, is_json: bool
) -> int:
    """One of the ranks: messages alone first, then steps, which rank 0 asks for."""
    asked = sizes.steps()
    messages = [messages_measured(comm, sizes, step, WARM_UP, steps) for step in asked]
    module = load_on(Path(bundle).read_bytes(), comm, threads=1)
    assert isinstance(module, ClusterModule)
    with watched(module, records):
        if module.rank:
            return follow(module)
        try:
            times = [steps_measured(module, step, WARM_UP, steps) for step in asked]
        finally:
            module.close()
    rows = [Measured(*each) for each in zip(asked, times, messages, strict=True)]
    click.echo(_as_json(sizes, rows) if is_json else _as_text(sizes, rows, steps))
    return 0


def _as_text(sizes: Sizes, rows: list[Measured], steps: int) -> str:
    head = ("step", "parameters", "to a worker", "10 %", "50 %", "90 %", "messages", "ratio")
    lines = [_line(each) for each in rows]
    title = f"{counted(sizes.servers, 'server')}, {counted(sizes.workers, 'worker')}: "
    return "\n".join([f"{title}{counted(steps, 'step')} of each kind after {WARM_UP}", *table(head, lines, head[1:])])


def _line(row: Measured) -> tuple[str, ...]:
    low, middle, high = percentiles(row.seconds)
    sizes = (size(row.step.numbers * NUMBER_BYTES), size(sum(row.step.fetched) * NUMBER_BYTES))
    messages = percentiles(row.messages)[1]
    return (row.step.entry, *sizes, *map(seconds, (low, middle, high, messages)), f"{row.ratio:.1f}")


def _as_json(sizes: Sizes, rows: list[Measured]) -> str:
    steps = [
        {
            "step": row.step.entry,
            "parameter_bytes": row.step.numbers * NUMBER_BYTES,
            "bytes_to_a_worker": sum(row.step.fetched) * NUMBER_BYTES,
            "seconds": list(row.seconds),
            "seconds_of_messages": list(row.messages),
        }
        for row in rows
    ]
    return json.dumps({"servers": sizes.servers, "workers": sizes.workers, "steps": steps})
