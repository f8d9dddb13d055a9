"""`dfc bench cnn`: a convolutional network of the zoo is trained, with the arguments of the guide of TensorFlow's."""

from __future__ import annotations

from functools import partial
from typing import cast

import click

from dfc.cli.networks import running, variables
from dfc.cli.networks.jobs import HERE, JOBS, Jobs, hosts_of, name_of
from dfc.cli.networks.request import Request
from dfc.cli.networks.steps import check_steps, steps_of
from dfc.cli.networks.zoo import NETWORKS
from dfc.cli.ranks.launchers import is_rank
from dfc.cli.ranks.process import as_rank
from dfc.cli.tables import table
from dfc_runtime.errors import UnsupportedError

NOT_FOR_RANKS = frozenset({"bundles", "dry_run", "job_name", "task_index"})
"""Options that say something of one process alone."""


@click.command("cnn", short_help="Train a convolutional network and say how many images it takes a second.")
@click.option("--model", type=click.Choice(list(NETWORKS)), default="resnet50", show_default=True)
@click.option("--data_dir", metavar="DIR", help="Files of records with images; without it, images are made up.")
@click.option("--batch_size", type=click.IntRange(1), default=32, show_default=True, help="Images for each device.")
@click.option(
    "--variable_update",
    type=click.Choice(variables.MODES),
    default="parameter_server",
    show_default=True,
    help="Who has the variables.",
)
@click.option("--staged_vars/--nostaged_vars", default=False, help="Take gradients at variables of the step before.")
@click.option(
    "--cross_replica_sync/--nocross_replica_sync", default=True, help="Whether workers take their steps together."
)
@click.option(
    "--backup_workers", type=click.IntRange(0), default=0, show_default=True, help="So many are not waited for."
)
@click.option("--local_parameter_device", type=click.Choice(["cpu", "gpu"]), help="Where they are in their owner.")
@click.option("--num_gpus", type=click.IntRange(0), default=0, show_default=True, help="GPUs of each worker.")
@click.option("--ps_hosts", metavar="HOST:PORT,..", help="The parameter servers.")
@click.option("--worker_hosts", metavar="HOST:PORT,..", help="The workers; without it, one on this machine.")
@click.option("--job_name", type=click.Choice(JOBS), help="The job of this process: for --dry-run.")
@click.option("--task_index", type=int, help="The number of this process in its job.")
@click.option("--distortions/--nodistortions", default=False, help="Change images by chance: crop, flip, colours.")
@click.option("--use_nccl", type=bool, is_flag=False, flag_value=True, help="Refused: there is no NCCL here.")
@click.option("--nouse_nccl", is_flag=True, help="Add up gradients by MPI, as without it.")
@click.option("--num_batches", type=click.IntRange(1), default=100, show_default=True, help="Steps that count.")
@click.option("--num_warmup_batches", type=click.IntRange(0), default=10, show_default=True, help="Steps before them.")
@click.option("--image_size", type=click.IntRange(1), help="The side of images, if not that of the paper.")
@click.option("--num_classes", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--narrow", type=click.IntRange(1), default=1, show_default=True, help="Divide channels by this.")
@click.option("--threads", type=click.IntRange(1), help="Threads of each rank.")
@click.option("--json", "as_json_", is_flag=True, help="Print one JSON object and nothing else.")
@click.option("--dry-run", is_flag=True, help="Print ranks and the deployment, and run nothing.")
@click.option("--bundles", metavar="DIR", hidden=True, help="What ranks run, compiled before they were started.")
@click.pass_context
def command(context: click.Context, **options: object) -> int:
    """Trains a network of samples/zoo on batches and prints images a second, without the steps to warm up.

    The arguments are those of the guide of TensorFlow's benchmarks. One command starts all processes, as ranks of MPI.
    """
    request = _request(options)
    own = _own_rank(request.jobs, cast("str | None", options["job_name"]), cast("int | None", options["task_index"]))
    if options["dry_run"]:
        click.echo(_plan_of(request, own, _words(context)))
        return 0
    if is_rank(starts_ranks=request.ranks > 1):
        return as_rank(partial(running.as_one_of, request, cast("str | None", options["bundles"]), own))
    if own is not None:
        text = "--job_name and --task_index say which rank one process is, and all ranks are started at once"
        raise click.UsageError(f"{text}: leave them out, or add --dry-run to see the ranks")
    return running.start(request, _words(context)) if request.ranks > 1 else running.alone(request)


def _request(options: dict[str, object]) -> Request:
    """The options, checked together."""
    if options["use_nccl"]:
        text = "--use_nccl: there is no NCCL here; gradients, also those of GPUs, are added up on processors, by MPI"
        raise UnsupportedError(f"{text}\n  leave it out, or write --nouse_nccl or --use_nccl=False", code="E1001")
    gpus, model = cast(int, options["num_gpus"]), cast(str, options["model"])
    narrow, channels = cast(int, options["narrow"]), NETWORKS[model].channels
    if narrow > channels:
        raise click.UsageError(f"--narrow {narrow}: {model} has layers of {channels} channels, so {channels} is most")
    servers = hosts_of(cast("str | None", options["ps_hosts"]), "--ps_hosts")
    workers = hosts_of(cast("str | None", options["worker_hosts"]), "--worker_hosts")
    jobs, mode = Jobs(servers, workers or (() if servers else (HERE,)), gpus), cast(str, options["variable_update"])
    warm_up, count = cast(int, options["num_warmup_batches"]), cast(int, options["num_batches"])
    steps = steps_of(
        is_staged=bool(options["staged_vars"]),
        is_synchronous=bool(options["cross_replica_sync"]),
        backups=cast(int, options["backup_workers"]),
        count=count,
        warm_up=warm_up,
    )
    variables.check(mode, jobs, cast("str | None", options["local_parameter_device"]))
    check_steps(steps, mode, jobs)
    return Request(
        model,
        mode,
        steps,
        jobs,
        cast(int, options["batch_size"]),
        cast("int | None", options["image_size"]) or NETWORKS[model].image,
        narrow,
        cast(int, options["num_classes"]),
        cast("str | None", options["data_dir"]),
        bool(options["distortions"]),
        warm_up,
        count,
        bool(options["as_json_"]),
        cast("int | None", options["threads"]),
    )


def _own_rank(jobs: Jobs, job: str | None, index: int | None) -> int | None:
    """The rank that this process is said to be."""
    if job is None and index is None:
        return None
    if job is None or index is None:
        raise click.UsageError("give --job_name and --task_index together")
    return jobs.rank_of(job, index)


def _words(context: click.Context) -> list[str]:
    """This command line for ranks, without what is about one process."""
    words = ["bench", "cnn"]
    for parameter in context.command.params:
        name, value = parameter.name or "", context.params[parameter.name or ""]
        if name in NOT_FOR_RANKS or value is None or value == parameter.default:
            continue
        if not (isinstance(parameter, click.Option) and parameter.is_flag):
            words.append(f"{parameter.opts[0]}={value}")
        else:
            words += (parameter.opts if value else parameter.secondary_opts)[:1]
    return words


def _plan_of(request: Request, own: int | None, words: list[str]) -> str:
    """What `--dry-run` prints: ranks, how they are started, the deployment."""
    processes = request.jobs.processes
    rows = [
        [str(rank), each.job, str(each.task), each.host, "this process" if rank == own else ""]
        for rank, each in enumerate(processes)
    ]
    lines = [request.title, "", *table(["rank", "job", "task", "host", ""], rows, right=["rank", "task"])]
    if len(processes) > 1:
        names = [name_of(each.host) for each in processes]
        where = "" if set(names) <= set(running.own_names()) else f" -hosts {','.join(names)}"
        command_line = f"mpiexec{where} -n {len(processes)} python -m mpi4py -m dfc {' '.join(words)}"
        lines += ["", "started by this command without --dry-run, or by", f"  {command_line}"]
    deployment = request.deployment()
    lines += ["", deployment.rstrip() if deployment else "no deployment: each rank runs the program by itself"]
    return "\n".join(lines)
