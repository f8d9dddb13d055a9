"""Measured costs: how long the kernels of a program took, as a file, and as seconds of the nodes they compute.

Assumes a profile that `dfc run --profile` wrote, of the same program: kernels are found again by the names of their
nodes. Guarantees that a file which is no profile is one `FileError`; names that the program does not have any more are
left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dfc.ir import walk
from dfc.ir.graph import Graph, Node
from dfc.passes.place.cost import Costs
from dfc_runtime.errors import FileError
from dfc_runtime.formats import strict_json
from dfc_runtime.formats.fields import integer, items, mapping, text
from dfc_runtime.measuring import Meter

FORMAT = "dfc profile 1"


@dataclass(frozen=True, slots=True)
class KernelTime:
    """One kernel at one place of an entry: the median over `launches`, in seconds; `names` are the nodes it computes,
    `place` is where they stand in the source."""

    entry: str
    names: tuple[str, ...]
    seconds: float
    launches: int
    place: str


@dataclass(frozen=True, slots=True)
class Profile:
    """What one run measured. `overhead` are the seconds that each measurement would have added, and that were taken
    off."""

    program: str
    overhead: float
    kernels: tuple[KernelTime, ...]

    def write(self, path: str | os.PathLike[str]) -> None:
        """As JSON; the kernels that took longest are first."""
        rows = [
            {
                "entry": each.entry,
                "names": list(each.names),
                "seconds": each.seconds,
                "launches": each.launches,
                "place": each.place,
            }
            for each in sorted(self.kernels, key=lambda each: -each.seconds * each.launches)
        ]
        data = {"format": FORMAT, "program": self.program, "overhead": self.overhead, "kernels": rows}
        Path(path).write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def taken(program: str, meter: Meter) -> Profile:
    """What a meter has measured."""
    kernels = [
        KernelTime(site.entry, site.names, seconds, launches, f"{site.place.name}:{site.place.line}")
        for site, seconds, launches in meter.kernels()
    ]
    return Profile(program, meter.overhead, tuple(kernels))


def read(path: str | os.PathLike[str]) -> Profile:
    """The profile in a file."""
    try:
        data = mapping(strict_json.parse(Path(path).read_text(encoding="utf-8")), "profile")
        if data.get("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT!r}")
        kernels = tuple(_kernel(each) for each in items(data["kernels"], "kernels"))
        return Profile(text(data["program"], "program"), _seconds(data["overhead"]), kernels)
    except OSError as problem:
        raise FileError(f"cannot read {os.fspath(path)}: {problem.strerror or problem}", code="E0909") from None
    except (ValueError, KeyError) as problem:
        raise FileError(f"{os.fspath(path)} is no profile: {problem}", code="E0909") from None


def _kernel(value: object) -> KernelTime:
    row = mapping(value, "kernel")
    names = tuple(text(each, "name") for each in items(row["names"], "names"))
    seconds, launches = _seconds(row["seconds"]), integer(row["launches"], "launches")
    return KernelTime(text(row["entry"], "entry"), names, seconds, launches, text(row["place"], "place"))


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError("seconds are a number that is not below 0")
    return float(value)


def measured(profile: Profile, graph: Graph) -> Mapping[str, float]:
    """Seconds for nodes by name. What a kernel took is divided among its nodes as the static table would have it."""
    nodes = {node.name: node for _, block in walk.graph_blocks(graph) for node in walk.nodes(block)}
    table = Costs()
    found: dict[str, float] = {}
    for kernel in profile.kernels:
        there = [nodes[name] for name in kernel.names if name in nodes]
        for node, share in zip(there, _shares(there, table), strict=True):
            found[node.name] = found.get(node.name, 0.0) + kernel.seconds * share
    return found


def _shares(nodes: Sequence[Node], table: Costs) -> list[float]:
    """Which part of a kernel is each node's."""
    seconds = [table.seconds(node) for node in nodes]
    total = sum(seconds)
    return [each / total if total else 1 / len(nodes) for each in seconds]
