"""Runs cases: dfc and each peer in turns, A B A B, one peer at a time beside dfc; the limit of the machine likewise.

Guarantees that a system that is absent, fails or computes something else is in the record with the reason. A record is
what is written as JSON, and all that reports know.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.cases import CASES
from bench.cases.case import Case
from bench.comparison.contestant import Contestant
from bench.comparison.environments import EnvironmentFailure, python_of
from bench.comparison.results import compare, load_results
from bench.peers.registry import DFC, LIMIT, LIMITS, OWN, PEERS, System, isa_switches

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Options:
    """`pythons` are interpreters to use instead of making environments; `checkouts` those of other checkouts of dfc, by
    title."""

    seconds: float = 0.5
    turns: int = 7
    patience: float = 300.0
    is_small: bool = False
    isa: str | None = None
    peers: Sequence[str] = tuple(PEERS)
    own_python: str = ""
    pythons: Mapping[str, str] = field(default_factory=dict[str, str])
    checkouts: Mapping[str, str] = field(default_factory=dict[str, str])


class Run:
    """One case: dfc's process lives as long as it, those of peers come and go."""

    def __init__(self, case: Case, options: Options, folder: Path) -> None:
        self._case, self._options, self._folder = case, options, folder
        self._slices: list[float] = []

    def record(self) -> Record:
        case, sizes = self._case, self._case.at(self._options.is_small)
        work = case.work(sizes)
        record: Record = {
            "case": case.name,
            "group": case.group,
            "sizes": dict(sizes),
            "tolerance": case.tolerance,
            "flops": work.flops,
            "bytes": work.bytes,
            "target": {
                "ratio": case.target.ratio,
                "share": case.target.share,
                "compile_seconds": case.target.compile_seconds,
            },
            "systems": {},
        }
        own = self._start(OWN, DFC, self._options.own_python)
        try:
            record["systems"][DFC] = own.report if own.is_ready else {"reason": own.reason}
            if own.is_ready:
                self._measure_systems(own, record)
                record["systems"][DFC] |= self._summary(self._slices) | {"megabytes": own.megabytes()}
        finally:
            own.close()
        return record

    def _measure_systems(self, own: Contestant, record: Record) -> None:
        own.pause()
        if self._case.limit:
            limit = self._pairs(own, LIMITS, LIMIT, self._options.own_python, is_checked=False)
            record["limit"] = {"kind": self._case.limit, **limit}
        for title, python in self._options.checkouts.items():
            record["systems"][title] = self._pairs(own, OWN, title, python) | {"is_checkout": True}
        for name in self._options.peers:
            system = PEERS[name]
            try:
                python = self._options.pythons.get(name) or python_of(system.environment, system.packages)
            except EnvironmentFailure as failure:
                record["systems"][name] = {"reason": str(failure)}
                continue
            record["systems"][name] = self._pairs(own, system, name, python)
        if not self._slices:
            own.resume()
            self._slices += [statistics.median(own.measure(self._options.seconds)) for _ in range(self._options.turns)]
            return
        own.resume()

    def _start(self, system: System, name: str, python: str) -> Contestant:
        options = {
            "small": self._options.is_small,
            "isa": self._options.isa,
            "results": str(self._results(name)),
        }
        variables = {**system.variables, **isa_switches(self._options.isa)}
        return Contestant(
            python, (system.module, system.name, self._case.name), options, variables, self._options.patience
        )

    def _results(self, name: str) -> Path:
        return self._folder / f"{name.replace('/', '_')}.npz"

    def _pairs(self, own: Contestant, system: System, name: str, python: str, is_checked: bool = True) -> Record:
        """dfc and another system in turns."""
        other = self._start(system, name, python)
        try:
            if not other.is_ready:
                return {"reason": other.reason}
            report = dict(other.report)
            if is_checked:
                results = (load_results(self._results(x)) for x in (DFC, name))
                agreement = compare(*results, self._case.tolerance)
                report |= {"agrees": agreement.agrees, "error": agreement.error, "difference": agreement.reason}
                self._results(name).unlink()
            ours, theirs = self._turns(own, other)
            if not theirs:
                return {"reason": other.reason or "it ended while it was measured"}
            megabytes = other.megabytes() if is_checked else None
            return report | self._summary(theirs) | {"beside": ours, "megabytes": megabytes}
        finally:
            other.close()

    def _turns(self, own: Contestant, other: Contestant) -> tuple[list[float], list[float]]:
        """Medians of slices in pairs: of dfc, and of the other system."""
        ours: list[float] = []
        theirs: list[float] = []
        other.pause()
        for _ in range(self._options.turns):
            pair: list[float] = []
            for contestant in (own, other):
                contestant.resume()
                times = contestant.measure(self._options.seconds)
                contestant.pause()
                pair += [statistics.median(times)] if times else []
            if len(pair) < 2:
                break
            ours.append(pair[0])
            theirs.append(pair[1])
        other.resume()
        self._slices += ours
        return ours, theirs

    @staticmethod
    def _summary(slices: list[float]) -> Record:
        """Microseconds."""
        return {"slices": slices, "median": statistics.median(slices), "best": min(slices)}


def run_case(name: str, options: Options) -> Record:
    """The record of a case."""
    with tempfile.TemporaryDirectory(prefix="dfc-bench-") as folder:
        return Run(CASES[name], options, Path(folder)).record()
