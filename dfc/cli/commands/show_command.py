"""`dfc show`: the graph of a program, its kernels, or its LLVM code, as text."""

from __future__ import annotations

import click

from dfc import api
from dfc.cli import passes
from dfc.cli.programs import print_warnings, source_of
from dfc.cli.values import settings
from dfc.options import CompileOptions


@click.command("show", short_help="Print a program as the compiler sees it.")
@click.argument("file", metavar="FILE")
@click.option("--after", metavar="PASS", help="Stop after the last run of this pass; without it, before all passes.")
@click.option("--kernels", is_flag=True, help="Print the scheduled kernels instead of the graph.")
@click.option("--llvm", is_flag=True, help="Print the LLVM code of the kernels instead of the graph.")
@click.option("--deploy", metavar="DEPLOY", help="A deployment file: show what one role of it runs.")
@click.option("--role", metavar="ROLE", help="Which role, such as worker, or ps-0 for a task with a role of its own.")
@click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Override a setting of the program.")
def command(
    file: str,
    after: str | None,
    kernels: bool,
    llvm: bool,
    deploy: str | None,
    role: str | None,
    pairs: tuple[str, ...],
) -> int:
    """Prints the graph of FILE as a .dfg program: as written, or after PASS. What is printed can be compiled again."""
    if after is not None and (kernels or llvm):
        raise click.UsageError("--after shows a graph; --kernels and --llvm show what comes after all passes")
    if kernels and llvm:
        raise click.UsageError("give --kernels or --llvm, not both")
    if (deploy is None) != (role is None) or (deploy and (after is not None or kernels or llvm)):
        raise click.UsageError("--deploy and --role go together, and show a graph after all passes")
    if deploy is not None and role is not None:
        return _show_role(file, deploy, role, pairs)
    passes.check_names((after,) if after is not None else ())
    options = CompileOptions(settings=tuple(settings(pairs).items()), stop_after=after, with_tests=True)
    if kernels or llvm:
        options = CompileOptions(settings=options.settings)
    shown = api.show(source_of(file), options, "kernels" if kernels else "llvm" if llvm else "graph")
    return _print(shown)


def _show_role(file: str, deploy: str, role: str, pairs: tuple[str, ...]) -> int:
    options = CompileOptions(settings=tuple(settings(pairs).items()))
    roles = api.show_roles(source_of(file), options, api.read(deploy))
    if role not in roles:
        raise click.UsageError(f"there is no role {role}; there are {', '.join(roles)}")
    return _print(roles[role])


def _print(shown: api.Shown) -> int:
    print_warnings(shown.diagnostics)
    click.echo(shown.text, nl=not shown.text.endswith("\n"))
    return 0
