"""Programs on real ranks: starts Python files under mpiexec and gives what they say."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from dfc_runtime.distributed.launch.supervisor import permissions

ROOT = Path(__file__).resolve().parents[2]
MPIEXEC = Path(sys.executable).parent / "mpiexec"


_APART = """import os as _os
from mpi4py import MPI as _MPI
for _number, _kind in ((1, "out"), (2, "err")):
    _os.dup2(_os.open(f"{folder}/{{_kind}}-{{_MPI.COMM_WORLD.rank}}", _os.O_WRONLY | _os.O_CREAT), _number)
"""
"""What each rank prints goes to a file of its own: launchers have no option for that in common."""


@dataclass(frozen=True)
class Ended:
    """How a run ended, and what each rank said."""

    code: int
    out: list[str]
    err: list[str]


def run_ranks(count: int, text: str, *, timeout: float = 200, check: bool = True) -> Ended:
    """Runs a program on so many ranks. It may import what tests may. Each run has a temporary folder of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = folder / "program.py"
        program.write_text(_APART.format(folder=name) + dedent(text))
        paths = os.pathsep.join(str(ROOT / each) for each in ("", "runtime", "targets"))
        environment = {**os.environ, **permissions(), "TMPDIR": name, "PYTHONPATH": paths, "DFC_THREADS": "1"}
        command = [str(MPIEXEC), "-n", str(count), sys.executable, "-m", "mpi4py", str(program)]
        done = subprocess.run(command, timeout=timeout, env=environment, check=False, cwd=ROOT, capture_output=True)
        out, err = ([_read(folder / f"{kind}-{rank}") for rank in range(count)] for kind in ("out", "err"))
    ended = Ended(done.returncode, out, err)
    log = done.stdout.decode() + done.stderr.decode()
    assert not check or ended.code == 0, f"exit {ended.code}\n{log}" + "\n".join(out + err)
    return ended


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""
