"""`dfc ops`: the table of ops, or one op."""

from __future__ import annotations

import re
from collections.abc import Mapping

import click

from dfc.bundle.target import INCOMPLETE, installed_targets, lacking, load_target
from dfc.cli.failures import did_you_mean
from dfc.cli.output import echo_heading
from dfc.elaborate.names.foreign import STD
from dfc.ops import registry
from dfc.ops.record import OpRecord
from dfc_runtime.errors import UnsupportedError

PEOPLE = {"cuda": "gpu"}
"""Targets by other names than their own."""


@click.command("ops", short_help="List the ops of the language, or describe one.")
@click.argument("name", required=False)
@click.option("--count", "only_count", is_flag=True, help="Print only how many there are.")
def command(name: str | None, only_count: bool) -> int:
    """Lists every op with its signature, or describes the op NAME, or what the library declares by that name."""
    if only_count:
        click.echo(str(len(registry.all_records())))
    elif name is None:
        _list(registry.all_records())
    else:
        _describe(name)
    return 0


def _list(records: tuple[OpRecord, ...]) -> None:
    lacks = _lacks()
    width = len(" ".join(lacks))
    for family in dict.fromkeys(record.family for record in records):
        echo_heading(family)
        for record in (r for r in records if r.family == family):
            mark = "d" if record.gradient else " "
            where = " ".join(kind if record.name not in ops else " " * len(kind) for kind, ops in lacks.items())
            click.echo(f"  {mark} {record.name:<18} {where:<{width}}  {_first_line(record.summary)}")
    click.echo(
        f"\n{len(records)} ops; d: has a gradient; {', '.join(lacks)}: where it runs; `dfc ops NAME` describes one"
    )


def _lacks() -> dict[str, Mapping[str, str]]:
    """The ops that the installed targets have no code for, by what people call the targets. A target whose packages are
    not all installed compiles nothing here, and has no column."""
    lacks: dict[str, Mapping[str, str]] = {}
    for name in installed_targets():
        try:
            lacks[PEOPLE.get(name, name)] = lacking(load_target(name))
        except UnsupportedError as error:
            if error.code != INCOMPLETE:
                raise
    return lacks


def _describe(name: str) -> None:
    record = registry.find(name)
    if record is None and (declared := _declared(name)):
        click.echo(declared)
        return
    if record is None:
        near = did_you_mean(name, [r.name for r in registry.all_records()])
        raise click.UsageError(f"there is no op {name!r}{near}")
    click.echo(f"{record.signature}\n\n{record.summary.strip()}\n")
    for parameter in (p for p in record.parameters if p.doc):
        click.echo(f"  {parameter.name}: {parameter.doc}")
    for number, constraint in enumerate(record.constraints, 1):
        click.echo(f"  ({number}) {constraint}")
    gradient = "yes" if record.gradient else f"none: {record.no_gradient}"
    click.echo(f"  gradient: {gradient}\n  effect: {record.effect.value}")
    for kind, ops in _lacks().items():
        click.echo(f"  {kind}: {'no: ' + ops[name] if name in ops else 'yes'}")


def _declared(name: str) -> str:
    """What a module of `std` says of a function or block that it declares; "" if none does."""
    head = re.compile(rf"((?:^## ?.*\n)*)^(?:fn|proc|block) {re.escape(name)}\b", re.MULTILINE)
    for path in sorted(STD.glob("*.dfg")):
        text = path.read_text(encoding="utf-8")
        match = head.search(text)
        if match is not None:
            doc = re.sub(r"^## ?", "", match[1], flags=re.MULTILINE).strip()
            signature = text[match.end(1) : _end_of_signature(text, match.end())].rstrip()
            origin = "part of the language" if path.stem == "core" else f"from std.{path.stem} import {name}"
            return f"{signature}\n\n{doc}\n\n  {origin}"
    return ""


def _end_of_signature(text: str, start: int) -> int:
    """Where the body of a declaration begins."""
    depth = 0
    for index in range(start, len(text)):
        depth += (text[index] in "([") - (text[index] in ")]")
        if depth == 0 and text[index] in "{=":
            return index
    return len(text)


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else ""
