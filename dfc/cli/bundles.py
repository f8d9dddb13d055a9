"""Bundles and programs as loaded modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

import dfc_runtime
from dfc.cli.values import Setting
from dfc.deferred.dataclasses import dataclass
from dfc_runtime.formats.bundle import opened
from dfc_runtime.formats.cluster import Cluster
from dfc_runtime.formats.manifest import Entry

if TYPE_CHECKING:  # whoever only looks at a bundle needs nothing that runs it
    from mpi4py import MPI

    from dfc_runtime.calls.hosts import Handler
    from dfc_runtime.distributed.calls.cluster_module import ClusterModule
    from dfc_runtime.distributed.transport.comm import Comm
    from dfc_runtime.observe.kernel_times import Meter


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How a program is to run on one rank: `summaries` and `trace` are the paths they go to, a `meter` measures
    kernels; a program is compiled for `target`, and `device` is the GPU it runs on; `data` has
    patterns of files by the names of readers."""

    check_finite: bool = False
    summaries: str | None = None
    trace: str | None = None
    meter: Meter | None = None
    target: str = "cpu"
    device: int | None = None
    data: Mapping[str, str] | None = None

    @property
    def handlers(self) -> Mapping[str, Handler] | None:
        return None if self.meter is None else _tick_handler(self.meter)


def open_module(
    path: str, settings: Mapping[str, Setting], threads: int | None = None, load_options: LoadOptions | None = None
) -> dfc_runtime.Module:
    """A loaded bundle; a `.dfg` file is compiled in memory first."""
    asked = load_options or LoadOptions()
    if path.endswith(".dfg") or path == "-":
        # The compiler is imported only where a program has to be compiled.
        from dfc.cli.programs import print_warnings, source_of
        from dfc.driver import api
        from dfc.ir.options import CompileOptions

        timed = asked.trace is not None or asked.meter is not None
        options = CompileOptions(asked.target, tuple(settings.items()), check_finite=asked.check_finite, timed=timed)
        bundle = api.compile_source(source_of(path), options)
        print_warnings(bundle.diagnostics)
        data = bundle.to_bytes()
        return dfc_runtime.loads(
            data,
            threads=threads,
            summaries=asked.summaries,
            trace=asked.trace,
            handlers=asked.handlers,
            device=asked.device,
            data=asked.data,
            folder=Path(path).parent,
        )
    if settings:
        raise click.UsageError("settings are fixed in a bundle; give --set when it is compiled")
    if asked.target != "cpu":
        raise click.UsageError("a bundle runs on what it was compiled for; give --target when it is compiled")
    module = dfc_runtime.load(
        existing(path),
        threads=threads,
        check_finite=asked.check_finite,
        summaries=asked.summaries,
        trace=asked.trace,
        handlers=asked.handlers,
        device=asked.device,
        data=asked.data,
    )
    if asked.meter is not None:
        from dfc_runtime.observe.kernel_times import is_timed

        if not is_timed(module.manifest):
            raise click.UsageError(f"{path} has no clocks: compile it with --timed, or run the program FILE.dfg")
    return module


def _tick_handler(meter: Meter) -> Mapping[str, Handler]:
    from dfc_runtime.observe.kernel_times import TICK  # few runs are measured

    return {TICK: meter.tick}


def open_on(
    path: str,
    comm: MPI.Intracomm | Comm,
    jobs: Mapping[str, int],
    deadline: float | None,
    threads: int | None,
    trace: str | None = None,
    summaries: str | None = None,
    meter: Meter | None = None,
    device: int | None = None,
    data: Mapping[str, str] | None = None,
) -> ClusterModule | dfc_runtime.Module:
    """A bundle on this rank and all others. A `meter` measures kernels; `device` is the GPU of this rank, if it is to
    be another one than its own of the machine's; `data` says which files readers read."""
    if path.endswith(".dfg") or path == "-":
        raise click.UsageError("ranks run bundles: compile the program first, with dfc compile --deploy")
    existing(path)
    from dfc_runtime.distributed.loading import load_on  # most programs run on one rank

    return load_on(
        path,
        comm,
        jobs=jobs or None,
        seconds=deadline,
        threads=threads,
        trace=trace,
        summaries=summaries,
        handlers=None if meter is None else _tick_handler(meter),
        device=device,
        data=data,
    )


def measure_on(module: ClusterModule | dfc_runtime.Module, meter: Meter, path: str) -> None:
    """Has the kernels of all ranks measured from now on, and rank 0 write them to a file when the program is closed."""
    # Runs that measure nothing do without the compiler's part in profiles.
    from dfc.driver import profiles
    from dfc_runtime.distributed.metering import Metering, RankTimes

    cluster = module.manifest.cluster
    if isinstance(module, dfc_runtime.Module) or cluster is None:
        raise click.UsageError("a program for one rank is measured without a launcher: dfc run --profile")
    blocks = {entry.name: entry.blocks for entry in cluster.entries if entry.blocks}

    def write(ranks: Sequence[RankTimes]) -> None:
        profiles.merged(module.name, ranks, blocks).write(path)

    Metering(meter, module, write).start()


def cluster_of(path: str) -> Cluster | None:
    """How a bundle is distributed over ranks; None for a program on one."""
    if path.endswith(".dfg") or path == "-":
        raise click.UsageError("ranks run bundles: compile the program first, with dfc compile --deploy")
    with opened(existing(path)) as bundle:
        return bundle.manifest.cluster


def entry_of(path: str, name: str) -> Entry | None:
    """What a bundle says of an entry, None if it has none of that name."""
    with opened(existing(path)) as bundle:
        return next((each for each in bundle.manifest.entries if each.name == name and each.is_called), None)


def existing(path: str) -> Path:
    """The path of a file that is there."""
    file = Path(path)
    if not file.exists():
        raise click.UsageError(f"there is no file {path}")
    if file.is_dir():
        raise click.UsageError(f"{path} is a folder, not a bundle")
    return file
