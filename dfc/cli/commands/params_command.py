"""`dfc params`: the state of a program or bundle, counted."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import click

import dfc_runtime
from dfc.cli.bundles import existing
from dfc.cli.tables import size
from dfc.cli.values import Setting, settings
from dfc.deferred.dataclasses import dataclass
from dfc_runtime.formats.element_types import SIZES


@dataclass(frozen=True, slots=True)
class Counted:
    """One piece of state."""

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.count * SIZES[self.dtype]

    @property
    def type(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]" if self.shape else self.dtype


@click.command("params", short_help="Count the parameters of a program or bundle.")
@click.argument("file", metavar="FILE|BUNDLE")
@click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Override a setting of a program FILE.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def command(file: str, pairs: tuple[str, ...], as_json: bool) -> int:
    """Lists name, shape, count and bytes of what is trained, then of all other state, with totals."""
    counted = _of_program(file, settings(pairs)) if file.endswith(".dfg") or file == "-" else _of_bundle(file, pairs)
    trained = [each for each in counted if each.kind == "param"]
    other = [each for each in counted if each.kind != "param"]
    click.echo(_json(trained, other) if as_json else _text(trained, other))
    return 0


def _of_program(file: str, setting_values: dict[str, Setting]) -> list[Counted]:
    # Only a program needs the compiler; bundles are counted where it is not installed.
    from dfc.cli.programs import source_of
    from dfc.elaborate import build

    counted: list[Counted] = []
    for each in build.build(source_of(file), setting_values).resources.values():
        shape = tuple(extent.evaluate({}) for extent in each.type.shape)
        kind = "param" if each.trained else "rng" if each.kind.value == "rng" else "var"
        counted.append(Counted(each.name, kind, str(each.type.machine), shape))
    return counted


def _of_bundle(file: str, pairs: tuple[str, ...]) -> list[Counted]:
    if pairs:
        raise click.UsageError("settings are fixed in a bundle; give --set when it is compiled")
    state = dfc_runtime.inspect(existing(file)).manifest.state
    kinds = [("param" if each.trained else "rng" if each.kind == "rng" else "var") for each in state]
    return [Counted(s.name, kind, s.dtype, tuple(s.shape)) for s, kind in zip(state, kinds, strict=True)]


def _text(trained: Sequence[Counted], other: Sequence[Counted]) -> str:
    if not trained and not other:
        return "the program has no state"
    rows = [*_group("trained", trained), *([("", "", "", "")] if trained and other else []), *_group("other", other)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [
        f"{name:<{widths[0]}}  {kind:<{widths[1]}}  {count:>{widths[2]}}  {held:>{widths[3]}}".rstrip()
        for name, kind, count, held in rows
    ]
    return "\n".join(lines)


def _group(title: str, group: Sequence[Counted]) -> list[tuple[str, str, str, str]]:
    """A line for each, and their total."""
    if not group:
        return []
    rows = [(each.name, each.type, f"{each.count:,}", size(each.bytes)) for each in group]
    total = (f"{title}, total", "", f"{sum(e.count for e in group):,}", size(sum(e.bytes for e in group)))
    return [*rows, total]


def _json(trained: Sequence[Counted], other: Sequence[Counted]) -> str:
    def record(group: Sequence[Counted]) -> dict[str, object]:
        each = [
            {"name": e.name, "kind": e.kind, "dtype": e.dtype, "shape": e.shape, "count": e.count, "bytes": e.bytes}
            for e in group
        ]
        return {"count": sum(e.count for e in group), "bytes": sum(e.bytes for e in group), "each": each}

    return json.dumps({"trained": record(trained), "other": record(other)}, indent=2)
