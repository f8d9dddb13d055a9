"""The matrices of cases of which `make test` runs a few, whole: all files that import `tests.support.sweeping` or
hypothesis. With them the tests of the target for processors, and of whole programs, that `make test` runs with
instructions chosen quickly (`quick_code`).

    python -m tests.gate.sweeps [--seed N] [FILE ...]

Those of numba's simulator are run in a process of their own. The cases are the same each time; the seed, which each
part of the gate takes, changes nothing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from tests.support.quick_code import is_quick, is_selected_quickly

ROOT = Path(__file__).resolve().parents[2]
IMPORTS = ("\nfrom tests.support.sweeping import", "\nfrom hypothesis import")
WHOLE_PROGRAMS = ("samples/", "bench/")
"""Tests of programs that people have, whose native code is to be what they get, too."""
TIMEOUT = 1800
"""Seconds for one test: what is no sweep keeps its own limit."""


def files() -> list[str]:
    """The files that have more cases than `make test` runs, or other code."""
    found = sorted(path for path in (ROOT / "tests").rglob("test_*.py") if path.parent.name != "simulated")
    return [str(path.relative_to(ROOT)) for path in found if _is_swept(path)]


def _is_swept(path: Path) -> bool:
    name = path.relative_to(ROOT / "tests").as_posix()
    text = path.read_text(encoding="utf-8")
    if is_selected_quickly(name) or (name.startswith(WHOLE_PROGRAMS) and is_quick(name)):
        return True
    return any(line in text for line in IMPORTS)


def main() -> int:
    """0 if all tests pass."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", default=files())
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    runner = [sys.executable, "-m", "pytest", "-q", f"--timeout={TIMEOUT}"]
    codes = [run([*runner, *given.files])]
    if given.files == files():
        codes.append(run([*runner, "tests/simulated"], NUMBA_ENABLE_CUDASIM="1"))
    return max(codes)


def run(command: list[str], **more: str) -> int:
    """The exit code of a run of all cases."""
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "DFC_SWEEP": "1", **more}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
