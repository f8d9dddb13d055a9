"""`dfc run`: call an entry of a bundle, or of a program that is compiled on the way."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click
import numpy as np

from dfc.cli import done_before, running
from dfc.cli.bundles import LoadOptions, cluster_of, entry_of, measure_on, open_module, open_on
from dfc.cli.failures import did_you_mean, is_terminal
from dfc.cli.listeners import Bar, Both, Lines, Silent
from dfc.cli.parts import PartRequest, check_once, run_part
from dfc.cli.ranks.launch import Launch, check_batches, fitting_counts, job_counts, supervise
from dfc.cli.ranks.launchers import is_rank
from dfc.cli.ranks.options import OF_RANKS, OF_THE_LAUNCH, check_for_ranks, refuse, words
from dfc.cli.reports import runs
from dfc.cli.saving import Keeper, Plan, refuse_checkpoint, saves
from dfc.cli.values import Setting, feeds, named, require_folder, require_no_file, settings, write_arrays
from dfc.deferred.dataclasses import dataclass
from dfc_runtime import Module
from dfc_runtime.calls.batching import LAST
from dfc_runtime.checkpoints.store import KEPT
from dfc_runtime.formats.manifest import Entry
from dfc_runtime.observe.kernel_times import Meter

if TYPE_CHECKING:  # most programs run on one rank
    from mpi4py import MPI

    from dfc_runtime.distributed.calls.cluster_module import ClusterModule
    from dfc_runtime.distributed.launch.records import SupervisorLink
    from dfc_runtime.distributed.transport.comm import Comm

SIGNALLED = 128


def _folder_name(_context: click.Context, option: click.Parameter, name: str | None) -> str | None:
    """An empty name is what a script gives whose variable is not set: as a path it would be the working folder."""
    if name == "":
        raise click.UsageError(f"{option.opts[0]} wants the name of a folder, and this one is empty")
    return name


@click.command("run", short_help="Run an entry of a bundle or program.")
@click.argument("file", metavar="BUNDLE|FILE")
@click.argument("entry", required=False)
@click.option(
    "--fetch", "fetches", multiple=True, metavar="ENTRY/NAME", help="Compute this value; an ENTRY runs for its effects."
)
@click.option("--feed", "pairs", multiple=True, metavar="NAME=VALUE", help="A number, file.npy, or file.npz:key.")
@click.option("--set", "settings_", multiple=True, metavar="NAME=VALUE", help="Override a setting of a program FILE.")
@click.option(
    "--data", "sources", multiple=True, metavar="READER=GLOB", help="The files that a reader of records reads."
)
@click.option("--batch", type=click.IntRange(min=1), help="Cut the feeds into batches of N; means are told over all.")
@click.option(
    "--last",
    type=click.Choice(LAST),
    default="run",
    show_default=True,
    help="What becomes of a last batch that is shorter: it runs as it is, is left out of every epoch, or is filled up "
    "to the blocks of a replicated entry, with rows that count for nothing.",
)
@click.option("--epochs", type=click.IntRange(min=1), help="Go through the feeds N times.")
@click.option("--steps", type=click.IntRange(min=1), help="Make N calls, going through the feeds as often as needed.")
@click.option(
    "--state",
    metavar="DIR",
    callback=_folder_name,
    help="Restore the newest state in DIR if there is one, and save it there at the end, unless ENTRY is readonly. "
    "A run that was done before is not made again.",
)
@click.option(
    "--from",
    "start",
    metavar="DIR",
    callback=_folder_name,
    help="Start from the state in DIR, or from a checkpoint DIR/step-N.",
)
@click.option("--again", is_flag=True, help="Make a run once more that was done before, from where it ended.")
@click.option("--save-every", type=click.IntRange(min=1), metavar="N", help="Save the state after every N steps, too.")
@click.option("--keep", type=click.IntRange(min=KEPT), help=f"How many saves stay: {KEPT}, or as many as before.")
@click.option("--best", metavar="RESULT", help="Never remove the save whose last call gave the lowest RESULT.")
@click.option(
    "--out",
    metavar="FILE.npz",
    help="Write the results to this file (of the last epoch, joined).",
)
@click.option(
    "--summaries",
    metavar="DIR|FILE.jsonl",
    help="Write the summaries to a folder for TensorBoard (needs dfc[tensorboard]), or as lines of JSON to a file.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.option("--check-finite", is_flag=True, help="Stop at the first value that is not finite, and say where from.")
@click.option("--threads", type=click.IntRange(min=1), help="How many threads to use; the numbers do not depend on it.")
@click.option("--target", default="cpu", show_default=True, help="What a program FILE runs on: cpu or cuda.")
@click.option("--device", type=click.IntRange(min=0), help="Which GPU a bundle for GPUs runs on (DFC_DEVICE, else 0).")
@click.option("--trace", metavar="FILE.json", help="Write what happened when, for Perfetto and dfc trace.")
@click.option("--profile", metavar="FILE.json", help="Write how long each kernel took, for dfc place and dfc compile.")
@click.option("--record", metavar="FILE", help="Write in which order replicas took steps of their own (mode async).")
@click.option("--replay", metavar="FILE", help="Take them in the order of this file, with the same bits.")
@click.option("-n", "--ranks", type=click.IntRange(min=1), help="Start N ranks and see to them (needs an MPI).")
@click.option("--job", "jobs", multiple=True, metavar="NAME=TASKS", help="How many tasks a job has now.")
@click.option(
    "--max-restarts", type=click.IntRange(min=0), default=0, show_default=True, help="How often to start again."
)
@click.option("--min-ranks", type=click.IntRange(min=1), help="Go on with fewer ranks, at least so many.")
@click.option("--deadline", type=float, metavar="SECONDS", help="The longest a rank waits for another (60).")
@click.option("--silence", type=float, default=30.0, show_default=True, metavar="SECONDS", help="When a rank is dead.")
@click.pass_context
def command(
    context: click.Context,
    file: str,
    entry: str | None,
    fetches: tuple[str, ...],
    pairs: tuple[str, ...],
    settings_: tuple[str, ...],
    sources: tuple[str, ...],
    batch: int | None,
    last: str,
    epochs: int | None,
    steps: int | None,
    state: str | None,
    start: str | None,
    again: bool,
    save_every: int | None,
    keep: int | None,
    best: str | None,
    out: str | None,
    summaries: str | None,
    as_json: bool,
    threads: int | None,
    target: str,
    device: int | None,
    check_finite: bool,
    trace: str | None,
    profile: str | None,
    record: str | None,
    replay: str | None,
    ranks: int | None,
    jobs: tuple[str, ...],
    max_restarts: int,
    min_ranks: int | None,
    deadline: float | None,
    silence: float,
) -> int:
    """Calls ENTRY of a bundle, or of a program FILE.dfg, with the feeds given.

    Or computes values of an entry, and only what they need: --fetch train/loss --feed train/h=h.npy."""
    _check_names(entry, fetches)
    _check_either(context, ("epochs", "steps"), ("trace", "profile"), ("record", "replay"))
    if state is not None:
        require_no_file(state)
    plan = Plan(_path(state), save_every, keep, best, start=_path(start), again=again)
    schedule = _schedule(batch, epochs, steps, last)
    if fetches:
        check_once(plan, schedule)
    outer = (plan, schedule, out, as_json, threads, summaries, trace, profile, device, named(sources, "data"))
    asked = _Asked(file, entry or "", fetches, named(pairs, full=bool(fetches)), *outer, (record, replay))
    counts = job_counts(jobs)  # before ranks are started, which would all say what is wrong
    if is_rank(starts_ranks=ranks is not None):
        return _among_ranks(context, asked, counts, deadline)
    for written in (each for each in (trace, profile, out, record) if each is not None):
        require_folder(written)
    if ranks is not None:
        check_for_ranks(context)
        return _start(context, asked, Launch(ranks, max_restarts, min_ranks or 0, silence))
    meter = None if profile is None else Meter()
    options = LoadOptions(check_finite, summaries, trace, meter, target, device, asked.data)
    return _in_this_process(context, asked, settings_, options)


def _path(name: str | None) -> Path | None:
    return None if name is None else Path(name)


def _schedule(batch: int | None, epochs: int | None, steps: int | None, last: str) -> running.Schedule:
    """How often to call. `UsageError` for what is about batches where there are none."""
    if last != "run" and batch is None:
        raise click.UsageError(f"--last {last} is about batches: add --batch N")
    return running.Schedule(batch, epochs, steps, last)


def _check_either(context: click.Context, *pairs: tuple[str, str]) -> None:
    """Refuses two options of which each is an answer to the same question."""
    for pair in pairs:
        if all(context.params[name] is not None for name in pair):
            raise click.UsageError(f"give {' or '.join(f'--{name}' for name in pair)}, not both")


def _in_this_process(context: click.Context, asked: _Asked, settings_: tuple[str, ...], options: LoadOptions) -> int:
    """Without other ranks: a program for one, or one for many of which this is the only one."""
    cluster = None if asked.file.endswith(".dfg") or asked.file == "-" else cluster_of(asked.file)
    tasks = 1 if cluster is None else sum(job.tasks for job in cluster.jobs)
    refuse(context, OF_RANKS if tasks == 1 else OF_THE_LAUNCH)
    if cluster is not None:
        check_for_ranks(context)
        return _only_rank(asked, tasks)
    return _alone(asked, settings(settings_), options)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is to be run, and what becomes of it, on one rank or many."""

    file: str
    entry: str
    fetches: tuple[str, ...]
    texts: Mapping[str, str]
    plan: Plan
    schedule: running.Schedule
    out: str | None
    as_json: bool
    threads: int | None
    summaries: str | None
    trace: str | None
    profile: str | None
    device: int | None
    data: Mapping[str, str]
    orders: tuple[str | None, str | None] = (None, None)


def _alone(asked: _Asked, setting_values: Mapping[str, Setting], options: LoadOptions) -> int:
    """A run on one rank, of a program or a bundle."""
    module = open_module(asked.file, setting_values, asked.threads, options)
    try:
        code = _run(module, asked)
    finally:
        _close(module)  # a trace is written here, of a run that failed too
    if options.meter is not None and asked.profile is not None:
        from dfc.driver import profiles  # bundles run where the compiler is not needed

        profiles.taken(module.name, options.meter).write(asked.profile)
    return code


def _only_rank(asked: _Asked, tasks: int) -> int:
    """A run of a bundle with a deployment of one task, which needs no MPI. Says how to start the ranks of another."""
    if tasks != 1:
        raise click.UsageError(f"{asked.file} is for {tasks} ranks: start them with -n {tasks}")
    from dfc_runtime.distributed.transport.in_process import Network

    module = _opened_on(asked, Network(1).comm(0), {}, None)
    try:
        return _run(module, asked)
    finally:
        _close(module)


def _start(context: click.Context, asked: _Asked, launch: Launch) -> int:
    """Ranks that this process sees to."""
    if asked.entry == ":":  # no entry, and for launchers no word: it would become another one
        raise click.UsageError("there is no entry ':'")
    cluster = cluster_of(asked.file)
    plan = asked.plan.or_else(None if cluster is None else cluster.checkpoint)
    entry = entry_of(asked.file, asked.entry)
    claims = plan.folder is not None and entry is not None and saves(entry)
    if plan.folder is not None and claims:
        refuse_checkpoint(plan.folder)
    return supervise(launch, words(context), plan, claims=claims)


def _among_ranks(context: click.Context, asked: _Asked, jobs: Mapping[str, int], deadline: float | None) -> int:
    from dfc.cli.ranks.process import as_rank  # most runs are no rank of many

    return as_rank(partial(_as_rank, context, asked, jobs, deadline))


def _as_rank(
    context: click.Context,
    asked: _Asked,
    jobs: Mapping[str, int],
    deadline: float | None,
    comm: MPI.Intracomm,
    records: SupervisorLink,
) -> int:
    """One of many ranks."""
    if comm.rank == 0:
        check_for_ranks(context)
    counts = fitting_counts(asked.file, jobs, comm.size)
    return _on_rank(_opened_on(asked, comm, counts, deadline), asked, records)


def _opened_on(
    asked: _Asked, comm: MPI.Intracomm | Comm, counts: Mapping[str, int], deadline: float | None
) -> ClusterModule | Module:
    """The program of this rank, measured if that is asked for."""
    meter = None if asked.profile is None else Meter()
    module = open_on(
        asked.file, comm, counts, deadline, asked.threads, asked.trace, asked.summaries, meter, asked.device, asked.data
    )
    if meter is not None and asked.profile is not None:
        measure_on(module, meter, asked.profile)
    return module


def _on_rank(module: ClusterModule | Module, asked: _Asked, records: SupervisorLink) -> int:
    """Rank 0 runs, the others follow."""
    if isinstance(module, Module):
        return _run(module, asked)
    from dfc.cli.ranks.process import follow, watched

    with watched(module, records):
        if module.rank:
            return follow(module)
        try:
            return _run(module, asked, records)
        finally:
            _close(module)


def _close(module: ClusterModule | Module) -> None:
    """Ends the program, also where an entry of it is called `close`."""
    partial(type(module).close, module)()


def _run(module: ClusterModule | Module, asked: _Asked, records: SupervisorLink | None = None) -> int:
    if asked.fetches:
        return run_part(module, PartRequest(asked.fetches, asked.texts, asked.out, asked.as_json), asked.plan)
    signature = _signature(module, asked.entry)
    feed_values = feeds(asked.texts, {p.name for p in signature.parameters if p.is_text})
    asked.plan.check(signature)
    plan = asked.plan.or_else(module.manifest.cluster.checkpoint if module.manifest.cluster else None)
    if not isinstance(module, Module):
        check_batches(module, signature, asked.schedule, feed_values)
    keeper = Keeper(module, signature.name, plan, asked.schedule, feed_values, saves=saves(signature))
    # Some launchers give their ranks a terminal of their own: what it shows is passed on to who knows where.
    is_watched = records is None and is_terminal(sys.stdout)
    listener = Silent() if asked.as_json else Bar(asked.entry) if is_watched else Lines()
    start = keeper.restore()
    if keeper.is_over:
        return done_before.print_ending(
            asked.entry, start, keeper.ending, plan.folder, asked.out, as_json=asked.as_json
        )
    if asked.out is not None:
        done_before.warn_of_lost(asked.out, signature, asked.schedule, feed_values, start)
    listeners = listener if records is None else _with_supervisor(listener, records)
    with listener, keeper:
        call = _called(module, asked, start)
        gathers, alone = asked.out is not None, isinstance(module, Module)
        on_stop = None if records is None else records.on_stop
        loop = running.Loop(asked.schedule, Both(listeners, keeper), gathers, start, alone, on_stop)
        report, gathered = running.run(signature, call, feed_values, loop)
    try:
        if asked.out is not None and (report.last or not report.stopped_by):  # the last save says that all is done
            arrays = gathered.arrays() if asked.schedule.repeats else {n: np.asarray(v) for n, v in report.last.items()}
            write_arrays(asked.out, arrays)
    finally:
        keeper.finish(report)
    written = runs.json_line if asked.as_json else runs.text
    click.echo(written(asked.entry, report, runs.updates_of(module, asked.entry)))
    return SIGNALLED + report.stopped_by if report.stopped_by else 0


def _with_supervisor(listener: Silent, records: SupervisorLink) -> Both:
    """The listener, and with it the supervisor."""
    from dfc.cli.ranks.process import Pulse

    return Both(listener, Pulse(records))


def _called(module: ClusterModule | Module, asked: _Asked, start: int) -> running.Call:
    """What calls the entry, behind `start` calls that were made before; with batches of any size if these are to be
    filled up."""
    short = None if isinstance(module, Module) else module.entries[asked.entry].short
    if short is not None and asked.schedule.last == "pad":
        return short
    call = cast("running.Call", module.entries[asked.entry].function)
    if not any(asked.orders):
        return call
    from dfc.cli.ranks.update_orders import with_orders  # most runs have no order to keep

    return cast("running.Call", with_orders(call, module, asked.entry, asked.orders, start))


def _check_names(entry: str | None, fetches: Sequence[str]) -> None:
    """Either an entry or values are named, each once."""
    if entry is not None and fetches:
        raise click.UsageError(f"give an ENTRY or --fetch, not both: values are called ENTRY/NAME, as {entry}/loss")
    if entry is None and not fetches:
        raise click.UsageError("give an ENTRY to call, or values to compute: --fetch ENTRY/NAME")
    twice = next((name for index, name in enumerate(fetches) if name in fetches[:index]), None)
    if twice is not None:
        raise click.UsageError(f"the value {twice} is fetched twice")


def _signature(module: ClusterModule | Module, name: str) -> Entry:
    known = {e.name: e for e in module.manifest.entries if e.is_called}
    if name not in known:
        listed = ", ".join(sorted(known)) or "none"
        raise click.UsageError(f"there is no entry {name!r}{did_you_mean(name, known)}; entries: {listed}")
    return known[name]
