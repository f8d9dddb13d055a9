"""What the tests of the commands share: the command line in this process, a program, its bundle, and feeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dfc.driver import api
from tests.support.command_line import Command, command

PROGRAM = Path(__file__).parent / "line.dfg"


@pytest.fixture
def dfc(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command line in this process."""
    return command(monkeypatch, capsys)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bundle of `line.dfg`."""
    return api.compile(PROGRAM).to_bytes()


@pytest.fixture
def folder(tmp_path: Path, compiled: bytes, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: with `line.dfg`, `line.bundle` and the feeds `data.npz` (10 points: x, y) and `x.npy`."""
    (tmp_path / "line.dfg").write_bytes(PROGRAM.read_bytes())
    (tmp_path / "line.bundle").write_bytes(compiled)
    rng = np.random.default_rng(3)
    x = rng.random((10, 3), np.float32)
    np.savez(tmp_path / "data.npz", x=x, y=x @ np.float32([1, 2, 3]))
    np.save(tmp_path / "x.npy", x)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DFC_TRACEBACK", raising=False)
    return tmp_path
