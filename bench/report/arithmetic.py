"""Ratios, shares and verdicts from the record of a case, which `bench.comparison.suite` makes, as read from JSON."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DFC = "dfc"
COMPILE_SHARE = 10
"""What torch.compile takes, divided by this, is what compiling a case may take."""
LEAST_MEGABYTES = 16.0
"""Below this it is libraries that are compared, not what a call needs."""
Record = Mapping[str, Any]


def ratio_of_pairs(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the ratios of pairs: above 1 where dfc is faster. A drift that meets both of a pair cancels."""
    return statistics.median(b / a for a, b in zip(ours, theirs, strict=True))


def peers_of(record: Record) -> dict[str, Record]:
    """Systems that count as peers: those that were measured and that computed the same."""
    return {
        name: system
        for name, system in record["systems"].items()
        if name != DFC and "slices" in system and system.get("agrees") and not system.get("is_checkout")
    }


def ratio(system: Record) -> float | None:
    """Of a peer's time to dfc's."""
    return ratio_of_pairs(system["beside"], system["slices"]) if "beside" in system else None


def best_peer(record: Record) -> tuple[str, float] | None:
    """The peer with the least ratio, and that ratio."""
    ratios = {name: value for name, system in peers_of(record).items() if (value := ratio(system)) is not None}
    return min(ratios.items(), key=lambda item: item[1]) if ratios else None


def limit_rate(record: Record) -> float | None:
    """Operations or bytes a second of the limit's own loop."""
    limit = record.get("limit", {})
    return limit["amount"] / limit["median"] * 1e6 if "slices" in limit else None


def share_of_limit(record: Record) -> float | None:
    """What the limit would need for the work of the case over what dfc needs, by pairs."""
    limit = record.get("limit", {})
    if "slices" not in limit:
        return None
    work = record["flops"] if limit["kind"] == "fma" else record["bytes"]
    return work / limit["amount"] * ratio_of_pairs(limit["beside"], limit["slices"])


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(statistics.fmean(math.log(value) for value in values))


@dataclass(frozen=True, slots=True)
class Verdict:
    """A target and what was reached; `is_met` is None where there was nothing to compare with."""

    what: str
    target: float
    value: float | None
    is_least: bool = True

    @property
    def is_met(self) -> bool | None:
        if self.value is None:
            return None
        return self.value >= self.target if self.is_least else self.value <= self.target

    @property
    def text(self) -> str:
        """In words: met, or by how much of the target it is missed."""
        if self.value is None:
            return f"{self.what}: not measured"
        if self.is_met:
            return f"{self.what}: met"
        missed = 1 - self.value / self.target if self.is_least else self.value / self.target - 1
        return f"{self.what}: missed by {missed:.0%}"


def compile_verdict(record: Record) -> Verdict | None:
    """Against a number of seconds where the case has one, else against torch.compile where that was measured."""
    own, stated = record["systems"].get(DFC, {}), record["target"]["compile_seconds"]
    peer = record["systems"].get("torch_compile", {})
    if "slices" not in own:
        return None
    if stated is not None:
        return Verdict("compile", stated, own.get("compile_processor_seconds"), is_least=False)
    if "slices" not in peer:
        return None
    return Verdict("compile", peer["compile_seconds"] / COMPILE_SHARE, own["compile_seconds"], is_least=False)


def memory_verdict(record: Record) -> Verdict | None:
    """Against the peer that needs least, or what does not matter."""
    own = record["systems"].get(DFC, {}).get("megabytes")
    others = [system["megabytes"] for system in peers_of(record).values() if system.get("megabytes") is not None]
    return (
        Verdict("memory", max(LEAST_MEGABYTES, min(others)), own, is_least=False)
        if others and own is not None
        else None
    )


def verdicts(record: Record) -> list[Verdict]:
    """All that a case is held against."""
    target, best = record["target"], best_peer(record)
    all_of_them: list[Verdict | None] = []
    if target["ratio"] is not None:
        all_of_them.append(Verdict("ratio", target["ratio"], best[1] if best else None))
    if target["share"] is not None:
        all_of_them.append(Verdict("share", target["share"], share_of_limit(record)))
    all_of_them += [compile_verdict(record), memory_verdict(record)]
    return [verdict for verdict in all_of_them if verdict is not None]


def family_verdicts(records: Sequence[Record], targets: Mapping[str, float]) -> list[tuple[str, Verdict]]:
    """The geometric mean of the ratios of each family of cases."""
    results: list[tuple[str, Verdict]] = []
    for family, target in targets.items():
        ratios = [best[1] for record in records if record["group"] == family and (best := best_peer(record))]
        if ratios:
            results.append((family, Verdict("geometric mean", target, geometric_mean(ratios))))
    return results
