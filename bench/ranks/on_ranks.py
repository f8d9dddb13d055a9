"""Figures of several ranks: starts the programs that measure them under mpiexec. Needs the extra `mpich`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

Figure = dict[str, float]
RANKS = (1, 2, 3)
DENSE_MEGABYTES = (100, 1000)


def transfers() -> Figure:
    """Steps that fetch state of other ranks, beside raw mpi4py in the same run: a number, in microseconds, with the
    bound of two raw round trips and 20; and as a part of raw bandwidth, 100 MB and, if there is memory, 1 GB. One rank
    has nobody to fetch from."""
    figure: Figure = {}
    if find_spec("mpi4py") is None:
        print("transfers: absent, mpi4py is not installed")
        return figure
    for ranks in RANKS:
        for megabytes in DENSE_MEGABYTES:
            if megabytes * 5_000_000 > _free_bytes():
                continue
            report = _run(ranks, "bench.ranks.transfers", str(megabytes))
            if megabytes == DENSE_MEGABYTES[0]:
                scalar = report["scalar"]
                figure[f"scalar_{ranks}_us"] = scalar["dfc_us"]
                figure[f"scalar_{ranks}_raw_us"] = scalar["raw_us"]
                figure[f"scalar_{ranks}_bound_us"] = round(2 * scalar["raw_us"] + 20, 1)
            if ranks > 1:
                figure[f"dense_{ranks}_{megabytes}mb_of_raw"] = report["dense"]["of_raw_bandwidth"]
    return figure


def _free_bytes() -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def _run(ranks: int, module: str, *arguments: str) -> dict[str, dict[str, float]]:
    """What rank 0 prints."""
    sibling = Path(sys.executable).parent / "mpiexec"
    launcher = str(sibling) if sibling.exists() else shutil.which("mpiexec") or "mpiexec"
    command = [launcher, "-n", str(ranks), sys.executable, "-m", "mpi4py", "-m", module, *arguments]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
