"""Programs on real ranks: runs Python files on them and gives what they say."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from dfc_runtime.distributed.launch.supervisor import permissions
from tests.support import rank_launcher
from tests.support.forked import move_to

ROOT = Path(__file__).resolve().parents[2]
MPIEXEC = Path(sys.executable).parent / "mpiexec"
PATHS = os.pathsep.join(str(ROOT / each) for each in ("tests/support/bare_start", "", "runtime", "targets"))
"""For `PYTHONPATH` of a process that is to find the packages of this tree, and starts without those of GPUs."""


@dataclass(frozen=True)
class Ended:
    """How a run ended, and what each rank said."""

    code: int
    out: list[str]
    err: list[str]


def run_ranks(count: int, text: str, *, timeout: float = 200, check: bool = True, with_launcher: bool = False) -> Ended:
    """Runs a program on so many ranks. It may import what tests may. Each run has a temporary folder of its own. Ranks
    are forks of this process, unless what `mpiexec` itself does is tested as well (`with_launcher`)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = folder / "program.py"
        program.write_text(dedent(text))
        environment = {**os.environ, **permissions(), "TMPDIR": name, "DFC_THREADS": "1"}
        run = _launched if with_launcher or not rank_launcher.can_launch() else _forked
        code, log = run(count, program, environment, timeout)
        out, err = ([_read(folder / f"{kind}-{rank}") for rank in range(count)] for kind in ("out", "err"))
    ended = Ended(code, out, err)
    assert not check or ended.code == 0, f"exit {ended.code}\n{log}" + "\n".join(out + err)
    return ended


def _forked(count: int, program: Path, environment: Mapping[str, str], timeout: float) -> tuple[int, str]:
    def rank(variables: Mapping[str, str]) -> None:
        paths = (program.with_name(f"{kind}-{variables['PMI_RANK']}") for kind in ("out", "err"))
        out, err = (os.open(path, os.O_WRONLY | os.O_CREAT) for path in paths)
        move_to(ROOT, {**environment, **variables}, (out, err))
        sys.argv = ["mpi4py", str(program)]
        runpy.run_module("mpi4py", run_name="__main__", alter_sys=True)

    return rank_launcher.launch(count, rank, timeout), ""


_APART = """import os as _os
from mpi4py import MPI as _MPI
for _number, _kind in ((1, "out"), (2, "err")):
    _os.dup2(_os.open(f"{folder}/{{_kind}}-{{_MPI.COMM_WORLD.rank}}", _os.O_WRONLY | _os.O_CREAT), _number)
"""
"""What each rank prints goes to a file of its own: launchers have no option for that in common."""


def _launched(count: int, program: Path, environment: Mapping[str, str], timeout: float) -> tuple[int, str]:
    program.write_text(_APART.format(folder=program.parent) + program.read_text())
    command = [str(MPIEXEC), "-n", str(count), sys.executable, "-m", "mpi4py", str(program)]
    environment = {**environment, "PYTHONPATH": PATHS}
    done = subprocess.run(command, timeout=timeout, env=environment, check=False, cwd=ROOT, capture_output=True)
    return done.returncode, done.stdout.decode() + done.stderr.decode()


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""
