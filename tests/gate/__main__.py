"""What takes too long for every change: `python -m tests.gate [--seed N] [PART ...]`, or `make gate`.

Each module beside this one is a part: `python -m tests.gate.PART [COUNT] [--seed N]` attacks dfc in one way, prints
its seed and a line that sums up, and ends with 1 if anything was found. Parts run one after the other, each in a
process of its own, so that a crash ends one part only; the seed is new each time unless it is given. Sweeps that live
beside what they sweep are named in `ELSEWHERE`.
"""

from __future__ import annotations

import argparse
import secrets
import subprocess
import sys
import time
from pathlib import Path

ELSEWHERE = {
    "exhaustive_math": ("tests.targets.cpu.exhaustive_math",),
    "kills_of_jobs": ("tests.mpi.kills", "40"),
    "second_type_check": ("tests.gate.second_type_check",),
}
"""Parts that take no seed: all inputs there are, or moments that the machine chooses."""


def parts() -> dict[str, tuple[str, ...]]:
    """What to run for each part: a module, and its arguments."""
    here = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith(("_", "test_")))
    return {name: (f"tests.gate.{name}",) for name in here} | ELSEWHERE


def main(arguments: list[str]) -> int:
    """0 if no part found anything, else 1. A part that is not known is a mistake of usage: 2."""
    known = parts()
    parser = argparse.ArgumentParser(prog="python -m tests.gate")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"all by default: {', '.join(known)}")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args(arguments)
    unknown = [name for name in options.parts if name not in known]
    if unknown:
        parser.error(f"there is no part {unknown[0]}; the parts are {', '.join(known)}")
    seed = secrets.randbits(32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    failed = [name for name in options.parts or known if not run(name, known[name], seed)]
    print(f"{'nothing was found' if not failed else 'something was found by ' + ', '.join(failed)} (seed {seed})")
    return 1 if failed else 0


def run(name: str, command: tuple[str, ...], seed: int) -> bool:
    """Whether the part ended well; what it prints goes straight to the terminal."""
    seeded = [] if name in ELSEWHERE else ["--seed", str(seed)]
    print(f"== {name}", flush=True)
    start = time.monotonic()
    code = subprocess.run([sys.executable, "-m", *command, *seeded], check=False).returncode
    print(f"== {name}: exit code {code} after {time.monotonic() - start:.0f} s", flush=True)
    return code == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
