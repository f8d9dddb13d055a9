"""Programs on real ranks: starts Python files under mpiexec and gives what they say."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).resolve().parents[2]
MPIEXEC = Path(sys.executable).parent / "mpiexec"


@dataclass(frozen=True)
class Ended:
    """How a run ended, and what each rank said."""

    code: int
    out: list[str]
    err: list[str]


def run_ranks(count: int, text: str, *, timeout: float = 60, check: bool = True) -> Ended:
    """Runs a program on so many ranks. It may import what tests may. Each run has a temporary folder of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = folder / "program.py"
        program.write_text(dedent(text))
        paths = os.pathsep.join(str(ROOT / each) for each in ("", "runtime", "targets"))
        environment = {**os.environ, "TMPDIR": name, "PYTHONPATH": paths, "DFC_THREADS": "1"}
        files = ["-outfile-pattern", f"{folder}/out-%r", "-errfile-pattern", f"{folder}/err-%r"]
        command = [str(MPIEXEC), *files, "-n", str(count), sys.executable, "-m", "mpi4py", str(program)]
        done = subprocess.run(command, timeout=timeout, env=environment, check=False, cwd=ROOT)
        out, err = ([_read(folder / f"{kind}-{rank}") for rank in range(count)] for kind in ("out", "err"))
    ended = Ended(done.returncode, out, err)
    assert not check or ended.code == 0, f"exit {ended.code}\n" + "\n".join(out + err)
    return ended


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""
