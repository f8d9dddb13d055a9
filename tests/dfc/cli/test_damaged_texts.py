"""Damaged programs, deployment files, traces and profiles, a few of those of `tests.gate.texts`."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from dfc.cli.tracing import traces
from dfc.diagnostics.diagnostic import CompileError
from dfc.driver import profiles
from dfc_runtime.errors import FileError
from dfc_runtime.formats.source import read_text
from tests.gate import texts
from tests.support import gating
from tests.support.command_line import Command
from tests.support.sweeping import WHOLE


def test_damaged_texts_end_in_messages() -> None:
    seed = 7
    assert list(gating.findings(texts.cases(seed), 120 if WHOLE else 30, memory=texts.MEMORY)) == [], f"seed {seed}"


class Endless(io.RawIOBase):
    """Zeros without end; reading all of them is a failure."""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        assert size >= 0
        return bytes(size)


def test_an_input_without_end_is_too_large(dfc: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from dfc.cli import programs

    monkeypatch.setattr(programs.sys, "stdin", type("Input", (), {"buffer": Endless()}))
    with pytest.raises(CompileError) as caught:
        programs.source_of("-")
    assert (caught.value.code, caught.value.exit_code) == ("E0143", 2)


@pytest.mark.parametrize("words", [["check"], ["fmt"], ["show"]])
def test_a_device_is_too_large(words: list[str], tmp_path: Path, dfc: Command) -> None:
    (tmp_path / "x.dfg").symlink_to("/dev/zero")
    assert dfc(*words, tmp_path / "x.dfg").code == 2


@pytest.mark.parametrize("read", [traces.read, profiles.read, read_text])
def test_a_device_is_no_file_to_be_read(read: object) -> None:
    with pytest.raises(FileError, match="/dev/zero is not a regular file"):
        read(Path("/dev/zero"))  # type: ignore[operator]


@pytest.mark.parametrize("number", ["1" + "0" * 400, "1" + "0" * 5000])
def test_numbers_that_no_machine_holds_are_no_times(number: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(texts.TRACE).replace('"dur": 3', f'"dur": {number}'))
    with pytest.raises(FileError, match="no trace of dfc"):
        traces.read(path)
    path.write_text(json.dumps(texts.PROFILE).replace("1e-06", number))
    with pytest.raises(FileError, match="no profile"):
        profiles.read(path)
