"""The command: `python -m bench [CASE ...]`. Says what it does as it goes, then writes JSON, a table and a chart."""

from __future__ import annotations

import argparse
import fnmatch
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.cases import CASES, FAMILY_RATIO
from bench.comparison.contestant import Load
from bench.comparison.environments import ROOT
from bench.comparison.suite import Options, run_case
from bench.limits.processor import ISAS, description, native_isa
from bench.peers.registry import DFC, PEERS, UNRESTRICTED
from bench.report.arithmetic import best_peer, share_of_limit
from bench.report.chart import draw
from bench.report.table import duration, render

OUTPUT = ROOT / "build" / "bench"


def parser() -> argparse.ArgumentParser:
    """What can be asked for."""
    result = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    result.add_argument("names", nargs="*", metavar="CASE", help="as --cases; also the figures that are no ratio")
    result.add_argument("--cases", default="", help="names or patterns, divided by commas: 'matmul*,lstm'")
    result.add_argument("--peers", default=",".join(PEERS), help="of these, divided by commas; '' for dfc alone")
    result.add_argument("--rounds", dest="turns", type=int, default=7, help="pairs of slices for each peer")
    result.add_argument("--seconds", type=float, default=0.5, help="length of a slice")
    result.add_argument("--busy", type=int, default=0, metavar="N", help="N processes that keep a core busy beside")
    result.add_argument("--isa", choices=ISAS, help="restrict dfc, the limits and the peers to an instruction set")
    result.add_argument("--against", action="append", default=[], metavar="DIR", help="another checkout with a .venv")
    result.add_argument("--python", action="append", default=[], metavar="PEER=PATH", help="where a peer is installed")
    result.add_argument("--patience", type=float, default=300.0, help="seconds a system may take to prepare a case")
    result.add_argument("--small", action="store_true", help="small sizes: whether all works, not how fast")
    result.add_argument("--output", type=Path, default=OUTPUT, help="folder of bench.json, bench.md and bench.svg")
    result.add_argument("--render", type=Path, metavar="JSON", help="only write the reports of a run again")
    result.add_argument("--list", action="store_true", help="show cases and peers")
    return result


def main(words: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(words)
    if arguments.list:
        print("cases:", ", ".join(CASES), "\npeers:", ", ".join(PEERS))
        return 0
    if arguments.render:
        write(json.loads(arguments.render.read_text(encoding="utf-8")), arguments.output)
        return 0
    asked = [*arguments.names, *filter(None, arguments.cases.split(","))]
    figures = [name for name in asked if name in _figures()]
    cases = choose([name for name in asked if name not in figures]) if asked else list(CASES)
    if arguments.isa and not _is_runnable(arguments.isa):
        print(f"this processor has no {arguments.isa}", file=sys.stderr)
        return 2
    if cases:
        write(run(cases, arguments), arguments.output)
    for name in figures or ([] if asked else _figures()):
        print(f"{name:<20} {_figures()[name]()}", flush=True)
    return 0


def choose(patterns: Sequence[str]) -> list[str]:
    """The cases that the patterns match, in the order of the table. Ends the program at one that matches nothing."""
    for pattern in patterns:
        if not fnmatch.filter(CASES, pattern):
            raise SystemExit(f"there is no case {pattern!r}: {', '.join(CASES)}")
    return [name for name in CASES if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]


def run(cases: Sequence[str], arguments: argparse.Namespace) -> dict[str, Any]:
    """All records, with what they were made with."""
    checkouts = [Path(folder) for folder in arguments.against]
    options = Options(
        seconds=arguments.seconds,
        turns=arguments.turns,
        patience=arguments.patience,
        is_small=arguments.small,
        isa=arguments.isa,
        peers=peers_of(arguments.peers),
        own_python=sys.executable,
        pythons=dict(pair.split("=", 1) for pair in arguments.python),
        checkouts={checkout_title(folder): str(folder / ".venv/bin/python") for folder in checkouts},
    )
    load = Load(arguments.busy, sys.executable)
    records: list[dict[str, Any]] = []
    document: dict[str, Any] = {
        "machine": description(),
        "options": {
            **{name: getattr(arguments, name) for name in ("seconds", "turns", "isa", "busy", "small")},
            "peers": list(options.peers),
        },
        "cases": records,
    }
    try:
        for name in cases:
            records.append(run_case(name, options))
            _mark_unrestricted(records[-1], arguments.isa)
            print(summary(records[-1]), flush=True)
            save(document, arguments.output)
    finally:
        load.close()
    return document


def peers_of(text: str) -> list[str]:
    """Ends the program at a name that is no peer."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in PEERS:
            raise SystemExit(f"there is no peer {name!r}: {', '.join(PEERS)}")
    return names


def checkout_title(folder: Path) -> str:
    """The version of another checkout, with its commit: two of them may have the same version."""
    python = folder / ".venv" / "bin" / "python"
    code = "from importlib.metadata import version; print(version('dfc'))"
    version = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    commit = subprocess.run(["git", "-C", str(folder), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return f"dfc {version}" + (f" ({commit.stdout.strip()})" if commit.returncode == 0 else "")


def _is_runnable(isa: str) -> bool:
    own = native_isa()
    return own is not None and ISAS.index(isa) <= ISAS.index(own)


def _mark_unrestricted(record: dict[str, Any], isa: str | None) -> None:
    """Says so of systems that no switch restricts, where that makes a difference."""
    for name, reason in UNRESTRICTED.items():
        system = record["systems"].get(name)
        if system and "slices" in system and isa and isa != native_isa():
            system["notes"] = [*(system.get("notes") or ()), reason]


def summary(record: dict[str, Any]) -> str:
    """One line of a case."""
    own, best, share = record["systems"][DFC], best_peer(record), share_of_limit(record)
    if "slices" not in own:
        return f"{record['case']:<22} dfc: {own['reason']}"
    text = f"{record['case']:<22} dfc {duration(own['median']):>9}"
    text += f"  {best[1]:.2f} of {best[0]}" if best else "  no peer"
    text += f"  {share:.0%} of the limit" if share is not None else ""
    wrong = [name for name, system in record["systems"].items() if system.get("agrees") is False]
    gone = [name for name, system in record["systems"].items() if "reason" in system]
    text += f"  disagree: {', '.join(wrong)}" if wrong else ""
    return text + (f"  absent: {', '.join(gone)}" if gone else "")


def save(document: dict[str, Any], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bench.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def write(document: dict[str, Any], folder: Path) -> None:
    """The three files of a run."""
    save(document, folder)
    titles = {name: system.title for name, system in PEERS.items()}
    (folder / "bench.md").write_text(render(document, titles, FAMILY_RATIO), encoding="utf-8")
    (folder / "bench.svg").write_text(draw(document, titles), encoding="utf-8")
    print(f"written: {folder}/bench.json, bench.md, bench.svg")


def _figures() -> dict[str, Any]:
    """Imported where they are asked for: they need the compiler."""
    from bench.alone.figures import FIGURES

    return FIGURES


if __name__ == "__main__":
    sys.exit(main())
