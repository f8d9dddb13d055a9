"""Measured costs: how long the kernels of a program took, as a file, and as seconds of the nodes they compute.

Assumes a profile that `dfc run --profile` wrote, on one rank or many, of the same program: kernels are found again by
the names of their nodes. What several ranks have measured is one kernel, whose seconds are the median over all
launches, each counted as the median of its rank. Guarantees that a file which is no profile is one `FileError`; names
that the program does not have any more are left out.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from dfc.deferred.dataclasses import dataclass
from dfc.distribute.place.cost import Costs
from dfc.ir import walk
from dfc.ir.graph import Graph, Node
from dfc_runtime.distributed.metering import RankTimes
from dfc_runtime.errors import FileError
from dfc_runtime.formats import strict_json
from dfc_runtime.formats.fields import integer, items, mapping, seconds, text
from dfc_runtime.formats.source import read_text
from dfc_runtime.observe.kernel_times import Meter

FORMAT = "dfc profile 1"


@dataclass(frozen=True, slots=True)
class KernelTime:
    """One kernel at one place of an entry: the median over `launches`, in seconds; `names` are the nodes it computes,
    `location` is where they stand in the source."""

    entry: str
    names: tuple[str, ...]
    seconds: float
    launches: int
    location: str


@dataclass(frozen=True, slots=True)
class Profile:
    """What one run measured. `overhead` are the seconds that each measurement would have added, and that were taken
    off. `blocks` are those into which entries were cut, by name: what is done for each took as long for one of them."""

    program: str
    overhead: float
    kernels: tuple[KernelTime, ...]
    blocks: Mapping[str, int] = field(default_factory=dict[str, int])

    def write(self, path: str | os.PathLike[str]) -> None:
        """As JSON; the kernels that took longest are first."""
        rows = [
            {
                "entry": each.entry,
                "names": list(each.names),
                "seconds": each.seconds,
                "launches": each.launches,
                "place": each.location,
            }
            for each in sorted(self.kernels, key=lambda each: -each.seconds * each.launches)
        ]
        data = {"format": FORMAT, "program": self.program, "overhead": self.overhead}
        data |= {"blocks": dict(self.blocks), "kernels": rows}
        Path(path).write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def taken(program: str, meter: Meter) -> Profile:
    """What a meter has measured."""
    kernels = [
        KernelTime(site.entry, site.names, seconds, launches, f"{site.location.name}:{site.location.line}")
        for site, seconds, launches in meter.kernels()
    ]
    return Profile(program, meter.overhead, tuple(kernels))


def merged(program: str, ranks: Sequence[RankTimes], blocks: Mapping[str, int]) -> Profile:
    """What all ranks have measured, of a program whose entries were cut into so many blocks."""
    samples: dict[tuple[str, tuple[str, ...], str], list[tuple[float, int]]] = {}
    for rank in ranks:
        for each in rank.kernels:
            samples.setdefault((each.entry, each.names, each.location), []).append((each.seconds, each.launches))
    kernels = [
        KernelTime(entry, names, _median(times), sum(launches for _, launches in times), location)
        for (entry, names, location), times in samples.items()
    ]
    overheads = [rank.overhead for rank in ranks if rank.kernels]
    return Profile(program, statistics.median(overheads) if overheads else 0.0, tuple(kernels), dict(blocks))


def _median(times: Sequence[tuple[float, int]]) -> float:
    """The median of seconds, each of which counts so many times."""
    half, seen = sum(count for _, count in times) / 2, 0
    for took, count in sorted(times):
        seen += count
        if seen >= half:
            return took
    return 0.0


def read(path: str | os.PathLike[str]) -> Profile:
    """The profile in a file."""
    try:
        data = mapping(strict_json.parse(read_text(path)), "profile")
        if data.get("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT!r}")
        kernels = tuple(_kernel(each) for each in items(data["kernels"], "kernels"))
        blocks = {name: integer(n, "blocks", 1) for name, n in mapping(data.get("blocks", {}), "blocks").items()}
        return Profile(text(data["program"], "program"), seconds(data["overhead"], "overhead"), kernels, blocks)
    except (ValueError, KeyError, OverflowError) as problem:
        raise FileError(f"{os.fspath(path)} is no profile: {problem}", code="E0909") from None


def _kernel(value: object) -> KernelTime:
    row = mapping(value, "kernel")
    names = tuple(text(each, "name") for each in items(row["names"], "names"))
    took, launches = seconds(row["seconds"], "seconds"), integer(row["launches"], "launches")
    return KernelTime(text(row["entry"], "entry"), names, took, launches, text(row["place"], "place"))


def measured(profile: Profile, graph: Graph) -> Mapping[str, float]:
    """Seconds for nodes by name. What a kernel took is divided among its nodes as the static table would have it."""
    nodes = {node.name: node for _, block in walk.graph_blocks(graph) for node in walk.nodes(block)}
    table = Costs()
    seconds: dict[str, float] = {}
    for kernel in profile.kernels:
        there = [nodes[name] for name in kernel.names if name in nodes]
        for node, share in zip(there, _shares(there, table), strict=True):
            seconds[node.name] = seconds.get(node.name, 0.0) + kernel.seconds * share
    return seconds


def _shares(nodes: Sequence[Node], table: Costs) -> list[float]:
    """Which part of a kernel is each node's."""
    costs = [table.seconds(node) for node in nodes]
    total = sum(costs)
    return [each / total if total else 1 / len(nodes) for each in costs]
