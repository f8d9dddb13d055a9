"""`dfc show`: the graph of a program, its kernels, or the code a target makes of them, as text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NoReturn

import click

from dfc.cli import stages
from dfc.cli.output import echo_program
from dfc.cli.programs import print_warnings, source_of
from dfc.cli.values import settings, variants
from dfc.driver import api
from dfc.ir.options import CompileOptions, TargetOptions


@click.command("show", short_help="Print a program as the compiler sees it.")
@click.argument("file", metavar="FILE")
@click.option("--after", metavar="STAGE", help="What the last run of this stage has made; by default elaborate.")
@click.option("--kernels", is_flag=True, help="Print the scheduled kernels instead of the graph.")
@click.option("--llvm", is_flag=True, help="Print the LLVM code of the kernels instead of the graph.")
@click.option("--ptx", is_flag=True, help="Print the PTX of the kernels, which NVIDIA GPUs run, instead of the graph.")
@click.option(
    "--target", help="With --kernels: cuda shows the Python text of each kernel for the GPU. With --after: for it."
)
@click.option("--arch", metavar="SM", help="With --ptx or --after: for this GPU architecture, such as sm_90.")
@click.option("--deploy", metavar="DEPLOY", help="A deployment file: show what runs by it.")
@click.option("--role", metavar="ROLE", help="Which role, such as worker, or ps-0 for a task with a role of its own.")
@click.option(
    "--fetch", "fetches", multiple=True, metavar="ENTRY/NAME", help="Print the step that computes this value."
)
@click.option("--feed", "feeds", multiple=True, metavar="NAME", help="With --fetch: what is fed instead of computed.")
@click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Override a setting of the program.")
def command(
    file: str,
    after: str | None,
    kernels: bool,
    llvm: bool,
    ptx: bool,
    target: str | None,
    arch: str | None,
    deploy: str | None,
    role: str | None,
    fetches: tuple[str, ...],
    feeds: tuple[str, ...],
    pairs: tuple[str, ...],
) -> int:
    """Prints FILE as a stage of the compiler leaves it: by default the graph as elaborated. Graphs print as .dfg
    programs that can be compiled again; kernels, steps, memory and code print as text.

    Or prints what `dfc run --fetch` would run: the nodes that a value needs, with what is fed in the place of what
    would compute it.
    """
    if fetches or feeds:
        if not fetches:
            raise click.UsageError("--feed says what is fed to a step: say what is fetched with --fetch, too")
        if after or kernels or llvm or ptx or target or arch or deploy or role:
            raise click.UsageError("--fetch prints the graph of a step; give it with --feed and --set alone")
        return _show_step(file, fetches, feeds, pairs)
    _check_stage(after, kernels=kernels, llvm=llvm, ptx=ptx)
    _check_target(target, arch, after, kernels=kernels, llvm=llvm, ptx=ptx)
    coded = kernels or llvm or ptx
    if deploy is None and role is not None:
        raise click.UsageError("--role is one of a deployment file: give --deploy, too")
    if deploy is not None and (coded or (role is None and after is None)):
        raise click.UsageError("--deploy and --role go together, and so do --deploy and --after")
    stage = stages.stage_of(after) if after is not None else None
    if deploy is not None and role is not None and stage in (None, "partition"):
        return _show_role(file, deploy, role, pairs)
    listing = "llvm" if llvm else "ptx" if ptx else "kernels" if kernels else ""
    machine = TargetOptions(variants("cuda", (), (arch,) if arch else ()), listing)
    options = CompileOptions(
        target or ("cuda" if ptx else "cpu"), tuple(settings(pairs).items()), target_options=machine
    )
    if not coded:
        options = replace(options, stop_after=stage or "elaborate", with_tests=deploy is None)
        return _show_after(file, options, deploy, role)
    return _print(api.show(source_of(file), options, "kernels" if kernels and options.target == "cpu" else "listing"))


def _check_stage(after: str | None, *, kernels: bool, llvm: bool, ptx: bool) -> None:
    if after is not None and (kernels or llvm or ptx):
        raise click.UsageError("--after names a stage; --kernels, --llvm and --ptx show those behind all passes")
    if kernels + llvm + ptx > 1:
        raise click.UsageError("give one of --kernels, --llvm and --ptx")


def _check_target(
    target: str | None, arch: str | None, after: str | None, *, kernels: bool, llvm: bool, ptx: bool
) -> None:
    is_shown = kernels or (ptx and target == "cuda") or (llvm and target == "cpu") or after is not None
    if target is not None and not is_shown:
        raise click.UsageError("--target chooses whose kernels are shown: give --kernels, too")
    if arch is not None and not (ptx or after is not None):
        raise click.UsageError("--arch chooses the architecture of --ptx")


def _show_after(file: str, options: CompileOptions, deploy: str | None, role: str | None) -> int:
    """What a stage has made: all of it, or of one part."""
    shown = api.show_after(source_of(file), options, api.read(deploy) if deploy is not None else None)
    if role is not None:
        shown = {name: each for name, each in shown.items() if name in ("", role)} or _no_role(role, shown)
    texts = [f"# part {name}\n{each.text}" if name and len(shown) > 1 else each.text for name, each in shown.items()]
    remarks = next(iter(shown.values())).diagnostics
    return _print(api.Shown("\n".join(texts), remarks))


def _no_role(role: str, known: Iterable[str]) -> NoReturn:
    raise click.UsageError(f"there is no role {role}; there are {', '.join(known)}")


def _show_step(file: str, fetches: tuple[str, ...], feeds: tuple[str, ...], pairs: tuple[str, ...]) -> int:
    from dfc.driver.loaded.partial import (
        show_step,  # what it imports costs start-up time only where a step is asked for
    )

    options = CompileOptions(settings=tuple(settings(pairs).items()))
    return _print(api.Shown(*show_step(source_of(file), options, fetches, feeds)))


def _show_role(file: str, deploy: str, role: str, pairs: tuple[str, ...]) -> int:
    options = CompileOptions(settings=tuple(settings(pairs).items()))
    roles = api.show_roles(source_of(file), options, api.read(deploy))
    if role not in roles:
        _no_role(role, roles)
    return _print(roles[role])


def _print(shown: api.Shown) -> int:
    print_warnings(shown.diagnostics)
    echo_program(shown.text, nl=not shown.text.endswith("\n"))
    return 0
