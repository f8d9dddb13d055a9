"""`dfc place`: where everything of a program goes, why, and how good that is."""

from __future__ import annotations

import click

from dfc.cli.programs import print_warnings, source_of
from dfc.cli.reports import placement, simulation
from dfc.cli.values import settings, sizes
from dfc.driver import api
from dfc.ir.options import CompileOptions


@click.command("place", short_help="Say where a program is placed, and why.")
@click.argument("file", metavar="FILE")
@click.option("--deploy", required=True, metavar="DEPLOY", help="The deployment file: which tasks there are.")
@click.option("--profile", metavar="FILE.json", help="Measured costs, from dfc run --profile; else those of a table.")
@click.option("--only", metavar="GLOB", help="List only the names that match, such as 'train/**'.")
@click.option("--size", "size_pairs", multiple=True, metavar="NAME=N", help="How large a dimension is; else 64.")
@click.option("--memory", is_flag=True, help="Plan memory, too: what it saves that values are received late.")
@click.option(
    "--simulate",
    "simulate",
    multiple=True,
    metavar="ranks=N[,network=FILE]",
    help="Predict a step of replicated entries on N ranks instead; several times for several N.",
)
@click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Override a setting of the program.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(
    file: str,
    deploy: str,
    profile: str | None,
    only: str | None,
    size_pairs: tuple[str, ...],
    memory: bool,
    simulate: tuple[str, ...],
    pairs: tuple[str, ...],
    form: str,
) -> int:
    """Places FILE as DEPLOY says, without compiling it. For every piece of state and every node: where it goes, the
    lines behind that, and when it would be done elsewhere; for every entry the simulated run beside a lower bound."""
    options = CompileOptions(settings=tuple(settings(pairs).items()))
    source, deployment, dims = source_of(file), api.read(deploy), sizes(size_pairs)
    if simulate:
        asked = simulation.scenarios(simulate)
        predictions, diagnostics = api.scale(source, options, deployment, asked, profile, dims)
        print_warnings(diagnostics)
        click.echo(simulation.as_json(predictions) if form == "json" else simulation.as_text(predictions, asked))
        return 0
    report, diagnostics = api.place(source, options, deployment, profile, only, plans_memory=memory, sizes=dims)
    print_warnings(diagnostics)
    if only is not None and not report.state and not any(entry.rows for entry in report.entries):
        raise click.UsageError(f"nothing here matches --only {only!r}; `dfc show {file}` prints all names")
    click.echo(placement.as_json(report) if form == "json" else placement.as_text(report))
    return 0
