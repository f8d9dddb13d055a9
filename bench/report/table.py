"""The table of a run in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.report.arithmetic import (
    DFC,
    Record,
    best_peer,
    family_verdicts,
    limit_rate,
    ratio,
    share_of_limit,
    verdicts,
)

NONE = "–"


def duration(microseconds: float) -> str:
    """Three digits, in the unit that fits."""
    for unit, size in (("s", 1e6), ("ms", 1e3), ("µs", 1.0)):
        if microseconds >= size:
            value = microseconds / size
            return f"{value:.{max(0, 2 - len(str(int(value))) + 1)}f} {unit}"
    return f"{microseconds * 1e3:.0f} ns"


def render(document: Mapping[str, Any], titles: Mapping[str, str], families: Mapping[str, float]) -> str:
    """The whole report of a run: the machine, times, costs, what is missing and why."""
    records: Sequence[Record] = document["cases"]
    names = columns_of(records)
    parts = [
        _machine(document),
        _table(["case", *(titles.get(n, n) for n in names), "best peer ÷ dfc", "of the limit", "targets"],
               [_times(record, names) for record in records]),
        _families(records, families),
        "Compiling and memory:\n",
        _table(["case", *(titles.get(n, n) for n in names), "dfc, processor s", "dfc compiling, MB"],
               [_costs(record, names) for record in records]),
        _missing(records, titles),
    ]  # fmt: skip
    return "\n".join(part for part in parts if part) + "\n"


def columns_of(records: Sequence[Record]) -> list[str]:
    """Systems that some case has, dfc first, in the order of the records."""
    names = dict.fromkeys(
        name for record in records for name, system in record["systems"].items() if "slices" in system
    )
    return sorted(names, key=lambda name: name != DFC)


def _machine(document: Mapping[str, Any]) -> str:
    machine, options = document["machine"], document["options"]
    isa = options["isa"] or machine["instruction_set"]
    restricted = " (restricted)" if options["isa"] else ""
    load = f", busy processes beside: {options['busy']}" if options["busy"] else ""
    small = " Sizes are small: these are no figures." if options["small"] else ""
    return (
        f"{machine['processor']} ({machine['family']}), {machine['threads']} threads, instruction set {isa}{restricted}"
        f"{load}; {options['turns']} pairs of slices of {options['seconds']} s. A time is the median of slices, a ratio"
        f" the median of the ratios of pairs (above 1: dfc is faster).{small}\n"
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _times(record: Record, names: Sequence[str]) -> list[str]:
    best, share = best_peer(record), share_of_limit(record)
    cells = [_time(record["systems"].get(name), best is not None and best[0] == name, name) for name in names]
    ratio_text = f"{best[1]:.2f}" if best else NONE
    return [
        record["case"],
        *cells,
        ratio_text,
        _share(record, share),
        "; ".join(v.text for v in verdicts(record)) or NONE,
    ]


def _time(system: Record | None, is_best: bool, name: str) -> str:
    """The median; with the ratio of a peer; a peer that computes something else is struck out."""
    if system is None or "slices" not in system:
        return NONE
    text = duration(system["median"])
    if name == DFC:
        return text
    value = ratio(system)
    text += f" ({value:.2f})" if value is not None else ""
    if not system.get("agrees", True):
        return f"~~{text}~~"
    return f"**{text}**" if is_best else text


def _share(record: Record, share: float | None) -> str:
    rate = limit_rate(record)
    if share is None or rate is None:
        return NONE
    unit = "GF/s" if record["limit"]["kind"] == "fma" else "GB/s"
    return f"{share:.0%} of {rate / 1e9:.0f} {unit}"


def _costs(record: Record, names: Sequence[str]) -> list[str]:
    own = record["systems"].get(DFC, {})
    cells = [_cost(record["systems"].get(name)) for name in names]
    return [
        record["case"],
        *cells,
        _number(own.get("compile_processor_seconds"), 1),
        _number(own.get("compile_megabytes"), 0),
    ]


def _cost(system: Record | None) -> str:
    if system is None or "slices" not in system:
        return NONE
    return f"{_number(system.get('compile_seconds'), 2)} s, {_number(system.get('megabytes'), 0)} MB"


def _number(value: float | None, digits: int) -> str:
    return NONE if value is None else f"{value:.{digits}f}"


def _families(records: Sequence[Record], families: Mapping[str, float]) -> str:
    lines = [
        f"{family}: geometric mean of the ratios {verdict.value:.2f}, target {verdict.target}; {verdict.text}\n"
        for family, verdict in family_verdicts(records, families)
    ]
    return "\n".join(lines)


def _missing(records: Sequence[Record], titles: Mapping[str, str]) -> str:
    """Whoever was to be measured and was not, or computed something else."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for record in records:
        for name, system in record["systems"].items():
            reason = system.get("reason") or (system.get("difference") and f"disagrees: {system['difference']}")
            if reason:
                reasons.setdefault((name, reason), []).append(record["case"])
            for note in system.get("notes") or ():
                reasons.setdefault((name, note), []).append(record["case"])
    lines = [f"- {titles.get(name, name)}, {', '.join(cases)}: {reason}" for (name, reason), cases in reasons.items()]
    return "Absent, or not as the rest:\n\n" + "\n".join(lines) + "\n" if lines else ""
