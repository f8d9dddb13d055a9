"""`dfc show`: the graph of a program, its kernels, or the code a target makes of them, as text."""

from __future__ import annotations

import click

from dfc.cli import passes
from dfc.cli.output import echo_program
from dfc.cli.programs import print_warnings, source_of
from dfc.cli.values import settings, variants
from dfc.driver import api
from dfc.ir.options import CompileOptions, TargetOptions


@click.command("show", short_help="Print a program as the compiler sees it.")
@click.argument("file", metavar="FILE")
@click.option("--after", metavar="PASS", help="Stop after the last run of this pass; without it, before all passes.")
@click.option("--kernels", is_flag=True, help="Print the scheduled kernels instead of the graph.")
@click.option("--llvm", is_flag=True, help="Print the LLVM code of the kernels instead of the graph.")
@click.option("--ptx", is_flag=True, help="Print the PTX of the kernels, which NVIDIA GPUs run, instead of the graph.")
@click.option("--target", help="With --kernels: cuda shows the Python text of each kernel for the GPU.")
@click.option("--arch", metavar="SM", help="With --ptx: for this GPU architecture, such as sm_90.")
@click.option("--deploy", metavar="DEPLOY", help="A deployment file: show what one role of it runs.")
@click.option("--role", metavar="ROLE", help="Which role, such as worker, or ps-0 for a task with a role of its own.")
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
    pairs: tuple[str, ...],
) -> int:
    """Prints the graph of FILE as a .dfg program: as written, or after PASS. What is printed can be compiled again."""
    _check_stage(after, kernels=kernels, llvm=llvm, ptx=ptx)
    _check_target(target, arch, kernels=kernels, llvm=llvm, ptx=ptx)
    coded = kernels or llvm or ptx
    if (deploy is None) != (role is None) or (deploy and (after is not None or coded)):
        raise click.UsageError("--deploy and --role go together, and show a graph after all passes")
    if deploy is not None and role is not None:
        return _show_role(file, deploy, role, pairs)
    passes.check_names((after,) if after is not None else ())
    options = CompileOptions(settings=tuple(settings(pairs).items()), stop_after=after, with_tests=True)
    if not coded:
        return _print(api.show(source_of(file), options, "graph"))
    listing = "llvm" if llvm else "ptx" if ptx else "kernels"
    machine = TargetOptions(variants("cuda", (), (arch,) if arch else ()), listing)
    options = CompileOptions(target or ("cuda" if ptx else "cpu"), options.settings, target_options=machine)
    return _print(api.show(source_of(file), options, "kernels" if kernels and options.target == "cpu" else "listing"))


def _check_stage(after: str | None, *, kernels: bool, llvm: bool, ptx: bool) -> None:
    if after is not None and (kernels or llvm or ptx):
        raise click.UsageError("--after shows a graph; --kernels, --llvm and --ptx show what comes after all passes")
    if kernels + llvm + ptx > 1:
        raise click.UsageError("give one of --kernels, --llvm and --ptx")


def _check_target(target: str | None, arch: str | None, *, kernels: bool, llvm: bool, ptx: bool) -> None:
    if target is not None and not (kernels or (ptx and target == "cuda") or (llvm and target == "cpu")):
        raise click.UsageError("--target chooses whose kernels are shown: give --kernels, too")
    if arch is not None and not ptx:
        raise click.UsageError("--arch chooses the architecture of --ptx")


def _show_role(file: str, deploy: str, role: str, pairs: tuple[str, ...]) -> int:
    options = CompileOptions(settings=tuple(settings(pairs).items()))
    roles = api.show_roles(source_of(file), options, api.read(deploy))
    if role not in roles:
        raise click.UsageError(f"there is no role {role}; there are {', '.join(roles)}")
    return _print(roles[role])


def _print(shown: api.Shown) -> int:
    print_warnings(shown.diagnostics)
    echo_program(shown.text, nl=not shown.text.endswith("\n"))
    return 0
