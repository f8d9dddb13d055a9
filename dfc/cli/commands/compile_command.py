"""`dfc compile`: a program into a bundle."""

from __future__ import annotations

from pathlib import Path

import click

from dfc.cli import stages
from dfc.cli.programs import print_warnings, source_of
from dfc.cli.values import settings, variants
from dfc.driver.preparation import prepared
from dfc.ir.options import CompileOptions, TargetOptions


@click.command("compile", short_help="Compile a program into a bundle of native code.")
@click.argument("file", metavar="FILE")
@click.option(
    "-o", "--output", metavar="OUT", help="The bundle to write; FILE with .bundle in place of .dfg by default."
)
@click.option(
    "--entry",
    "entries",
    multiple=True,
    metavar="NAME",
    help="Only this entry, or several, and the state that they need: say predict of a program that trains.",
)
@click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Override a setting of the program.")
@click.option("--deploy", metavar="DEPLOY", help="A deployment file: which ranks there are, and what runs where.")
@click.option("--profile", metavar="FILE.json", help="With --deploy: place by what dfc run --profile has measured.")
@click.option("--target", default="cpu", show_default=True, help="What the code is for: cpu or cuda.")
@click.option(
    "--isa",
    "isas",
    multiple=True,
    help="An instruction-set variant, such as x86-64-v3 (or x86-64-v3-winograd: no convolutions by Winograd's "
    "algorithm); several make a bundle for all of them.",
)
@click.option("--arch", "archs", multiple=True, metavar="SM,...", help="GPUs, such as sm_80,sm_90, or sm_90+tf32.")
@click.option("--print-after", multiple=True, metavar="STAGE", help="Print what a stage has made, such as cse or fuse.")
@click.option("--print-after-all", is_flag=True, help="Print what every stage has made.")
@click.option("--stop-after", metavar="STAGE", help="End after the last run of this stage, without a bundle.")
@click.option("--verify-each", is_flag=True, help="Verify what every stage has made.")
@click.option("--time-passes", is_flag=True, help="Say how long each stage takes.")
@click.option("--timed", is_flag=True, help="Put a clock around each kernel, for dfc run --trace.")
@click.option("--check-finite", is_flag=True, help="Stop at the first value that is not finite, and say where from.")
@click.option(
    "--pass-limit", type=click.IntRange(min=0), help="Run only the first N passes and what no code can do without."
)
def command(
    file: str,
    output: str | None,
    entries: tuple[str, ...],
    pairs: tuple[str, ...],
    deploy: str | None,
    profile: str | None,
    target: str,
    isas: tuple[str, ...],
    archs: tuple[str, ...],
    print_after: tuple[str, ...],
    print_after_all: bool,
    stop_after: str | None,
    verify_each: bool,
    time_passes: bool,
    timed: bool,
    check_finite: bool,
    pass_limit: int | None,
) -> int:
    """Compiles FILE into one bundle that `dfc run` and `dfc_runtime.load` execute without the compiler."""
    print_after = tuple(map(stages.stage_of, print_after))
    stop_after = stages.stage_of(stop_after) if stop_after is not None else None
    for stage, option, runs in (("finite_checks", "--check-finite", check_finite), ("clocks", "--timed", timed)):
        if stage in print_after and stage != stop_after and not runs:
            raise click.UsageError(f"the stage {stage} runs with {option} only: give that, too")
    source = source_of(file)
    options = CompileOptions(
        target=target,
        settings=tuple(settings(pairs).items()),
        verify_each=verify_each,
        print_after=frozenset(print_after),
        print_after_all=print_after_all,
        time_passes=time_passes,
        pass_limit=pass_limit,
        stop_after=stop_after,
        check_finite=check_finite,
        timed=timed,
        entries=entries,
        target_options=TargetOptions(isas=variants(target, isas, archs, is_deployed=deploy is not None)),
    )
    if profile is not None and deploy is None:
        raise click.UsageError("a profile is for placement: give --deploy, too")
    if stop_after is not None:
        from dfc.driver import api

        print_warnings(api.stopped(source, options, api.read(deploy) if deploy is not None else None, profile))
        click.echo(f"stopped after {stop_after}; no bundle is written")
        return 0
    path = Path(output) if output else _default_output(file)
    if file != "-" and path.exists() and path.samefile(file):
        raise click.UsageError(f"{path} is the program itself; name another file for the bundle")
    with prepared(source, options, is_deployed=deploy is not None):
        from dfc.driver import api  # half a second, in which the target gets ready

        deployment = api.read(deploy) if deploy is not None else None
        bundle = api.compile_prepared(source, options, deployment, profile)
    print_warnings(bundle.diagnostics)
    bundle.save(path)
    click.echo(f"{path}: {path.stat().st_size / 1024:.1f} KB, {_entries(bundle.entries)}")
    return 0


def _default_output(file: str) -> Path:
    if file == "-":
        raise click.UsageError("a program from standard input needs -o OUT")
    return Path(file).with_suffix(".bundle")


def _entries(names: tuple[str, ...]) -> str:
    return f"entries {', '.join(names)}" if names else "no entries"
