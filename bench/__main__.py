"""Runs the cases and prints the table: `python -m bench [--seconds S] [--rounds N] [--json FILE] [CASE ...]`."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys

from bench import figures

CASES = ("null", "mlp_b1", "mlp_b32", "mlp_train", "loop", "eltwise", "softmax", "layernorm", "matmul", "heat")
SYSTEMS = ("dfc", "jax", "torch", "onnx", "numpy")


class Contestant:
    """A worker process for one system and case."""

    def __init__(self, system: str, case: str) -> None:
        self.system = system
        self.times: list[float] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.worker", system, case],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.present = self._answer() == "ready"

    def run(self, seconds: float) -> None:
        """Measures for one slice of time."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        answer = self._answer()
        self.present = answer.startswith("[")
        self.times += json.loads(answer) if self.present else []

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            word = line.strip()
            if word == "ready" or word.startswith(("absent", "[")):
                return word
        return "absent: the process ended"


def run_case(case: str, seconds: float, repeats: int) -> dict[str, tuple[float, float]]:
    """(best, median) microseconds of each system that has the case; systems take turns."""
    contestants = [c for c in (Contestant(system, case) for system in SYSTEMS) if c.present]
    for _ in range(repeats):
        for contestant in contestants:
            if contestant.present:
                contestant.run(seconds)
    for contestant in contestants:
        contestant.close()
    return {c.system: (min(c.times), statistics.median(c.times)) for c in contestants if c.times}


def show(case: str, rates: dict[str, tuple[float, float]]) -> None:
    """One row: best (median) of each system, and how many times faster dfc is than the best peer."""
    peers = [best for system, (best, _) in rates.items() if system != "dfc"]
    row = f"{case:<10}" + "".join(
        f"{rates[s][0]:>12.1f} ({rates[s][1]:.1f})".rjust(26) if s in rates else "-".rjust(26) for s in SYSTEMS
    )
    ratio = f"{min(peers) / rates['dfc'][0]:>8.2f}x" if peers and "dfc" in rates else "       -"
    print(row + ratio, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument(
        "cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)} and {', '.join(figures.FIGURES)}"
    )
    parser.add_argument("--seconds", type=float, default=0.6, help="length of one slice of measuring")
    parser.add_argument("--rounds", type=int, default=5, help="slices for each system")
    parser.add_argument("--json", help="also write the table to this file")
    options = parser.parse_args()
    cases = options.cases or [*CASES, *figures.FIGURES]
    table: dict[str, object] = {}
    chosen = [c for c in cases if c in CASES]
    if chosen:
        print("microseconds per call, best (median); ratio = best peer / dfc")
        print(f"{'case':<10}" + "".join(s.rjust(26) for s in SYSTEMS) + "    ratio")
    for case in chosen:
        rates = run_case(case, options.seconds, options.rounds)
        table[case] = rates
        show(case, rates)
    for name in (c for c in cases if c in figures.FIGURES):
        table[name] = figures.FIGURES[name]()
        print(f"{name:<28} {table[name]}", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(table, file, indent=2)


if __name__ == "__main__":
    main()
