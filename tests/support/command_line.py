"""The command line inside the process of a test: what it prints and how it ends."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from dfc.cli.failures import guarded
from dfc.cli.main import cli
from tests.support.forked import forked_command

ROOT = Path(__file__).resolve().parents[2]
TOOL = Path(sys.executable).parent / "dfc"


@dataclass(frozen=True)
class Outcome:
    """How a command ended. A traceback in what it printed fails the test that made it."""

    code: int
    out: str
    err: str

    def __post_init__(self) -> None:
        assert "Traceback" not in self.out + self.err

    @property
    def message(self) -> str:
        """What was printed on standard error, which must be one message of the command line or of the compiler."""
        assert self.code != 0
        assert self.err.startswith("error"), self.err
        return self.err


Command = Callable[..., Outcome]


def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`dfc("check", "x.dfg", stdin=b"...")`."""

    def run(*arguments: object, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        words = [str(each) for each in arguments]
        code = guarded(lambda: cli.main(words, prog_name="dfc", standalone_mode=False))
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


def environment(**changes: str) -> Mapping[str, str]:
    """The environment for a process of its own."""
    return {**os.environ, "PATH": f"{TOOL.parent}{os.pathsep}{os.environ['PATH']}", **changes}


def fork(*arguments: object, folder: Path, **changes: str) -> Outcome:
    """The command in a process of its own, which has imported all of it."""
    done = forked_command(*arguments, folder=folder, environment=environment(**changes), timeout=100)
    return Outcome(done.returncode, done.stdout, done.stderr)


def process(*arguments: object, folder: Path, **changes: str) -> Outcome:
    """The installed command in a process of its own."""
    done = subprocess.run(
        [str(TOOL), *map(str, arguments)],
        cwd=folder,
        env=environment(**changes),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)
