"""The command line as a whole: help, unknown words, and how every kind of failure ends."""

from __future__ import annotations

import gettext
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from dfc.cli.failures import guarded
from dfc.cli.main import COMMANDS, main
from dfc_runtime.errors import BundleError, CheckpointError, FeedError, FileError, LimitError, UnsupportedError
from tests.support.command_line import TOOL, Command, environment, process
from tests.support.sweeping import few


def test_help_lists_every_command(dfc: Command) -> None:
    told = dfc("--help")
    assert told.code == 0
    for name, text in COMMANDS.items():
        assert f"  {name} " in told.out
        assert text.split()[0] in told.out


def test_a_warning_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # to be put back
    with pytest.raises(SystemExit):
        main(["--version"])
    warnings.showwarning(UserWarning("a checkpoint was not saved"), UserWarning, "module.py", 3)
    assert capsys.readouterr().err == "warning: a checkpoint was not saved\n"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_explains_itself(name: str, dfc: Command) -> None:
    told = dfc(name, "-h")
    assert (told.code, told.err) == (0, "")
    assert told.out.startswith(f"Usage: dfc {name}")


def test_no_words_at_all_give_the_help(dfc: Command) -> None:
    told = dfc()
    assert "Commands:" in told.out + told.err


def test_the_version_is_that_of_the_package(dfc: Command) -> None:
    assert dfc("--version").out == "dfc 0.2.0\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["chek", "x.dfg"], "there is no command 'chek'; did you mean 'check'?"),
        (["frobnicate"], "there is no command 'frobnicate'"),
        (["run"], "Missing argument"),
        (["run", "x.bundle"], "give an ENTRY to call, or values to compute: --fetch ENTRY/NAME"),
        (["run", "x.bundle", "train", "--bach", "3"], "No such option"),
        (["run", "x.bundle", "train", "--batch", "0"], "Invalid value for '--batch'"),
        (["run", "x.bundle", "train", "--epochs", "2", "--steps", "2"], "give --epochs or --steps, not both"),
        (["check"], "Missing argument"),
    ],
)
def test_words_that_make_no_command_are_told_in_one_message(words: list[str], told: str, dfc: Command) -> None:
    ended = dfc(*words)
    assert ended.code == 2
    assert told in ended.message
    assert len(ended.err.splitlines()) <= 2


@pytest.mark.parametrize(
    ("failure", "code", "told"),
    [
        (FeedError("x", code="E0901"), 2, "error[E0901]: x\n"),
        (UnsupportedError("x", code="E1001"), 3, "error[E1001]: x\n"),
        (BundleError("x", code="E0906"), 4, "error[E0906]: x\n"),
        (CheckpointError("x", code="E0908"), 5, "error[E0908]: x\n"),
        (FileError("x", code="E0909"), 6, "error[E0909]: x\n"),
        (LimitError("x", code="E0905"), 7, "error[E0905]: x\n"),
        (OSError(28, "No space left on device", "out.npz"), 6, "error: out.npz: No space left on device\n"),
        (MemoryError(), 7, "error: out of memory\n"),
        (KeyboardInterrupt(), 130, "error: stopped\n"),
        (click.UsageError("x"), 2, "error: x\n"),
        (
            ZeroDivisionError("x"),
            1,
            "error: a bug in dfc (ZeroDivisionError: x); please report it (DFC_TRACEBACK=1 shows",
        ),
    ],
)
def test_every_kind_of_failure_has_its_code_and_one_message(
    failure: BaseException, code: int, told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DFC_TRACEBACK", raising=False)
    assert guarded(_raising(failure)) == code
    captured = capsys.readouterr()
    assert captured.err.startswith(told)
    assert captured.out == ""


def _raising(failure: BaseException) -> Callable[[], object]:
    def action() -> object:
        raise failure

    return action


def test_a_traceback_is_shown_only_on_demand(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DFC_TRACEBACK", "1")
    assert guarded(_raising(ZeroDivisionError("x"))) == 1
    assert "Traceback" in capsys.readouterr().err


def test_the_installed_command_runs(tmp_path: Path) -> None:
    ended = process("check", "missing.dfg", folder=tmp_path)
    assert (ended.code, ended.err) == (2, "error: there is no file missing.dfg\n")


def test_a_reader_that_goes_away_is_no_failure(tmp_path: Path) -> None:
    line = f'{TOOL} ops | head -n 1; echo "${{PIPESTATUS[0]}}"'
    done = subprocess.run(
        ["bash", "-c", line], env=environment(), cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "0"


@pytest.mark.parametrize(
    ("line", "code", "unbuffered"),
    few(
        [
            ("dfc explain E0304 >&-", 0, ""),
            ("dfc ops >/dev/full", 6, ""),  # more than a buffer takes
            ("dfc explain E0304 >&-", 0, "1"),
            ("dfc explain E9999 2>&-", 2, ""),
            ("dfc check - <&-", 0, "1"),
            ("dfc explain E0304 >/dev/full", 6, ""),
            ("dfc explain E0304 >/dev/full", 6, "1"),
            ("dfc check - >&- 2>&- </dev/null", 0, ""),
            ("dfc explain E0304 >/dev/full 2>&1", 6, "1"),
            ("dfc explain E0304 >/dev/full 2>&1", 6, ""),
            ("dfc explain E9999 2>/dev/full", 2, ""),
            ("dfc explain E9999 2>/dev/full", 2, "1"),
        ],
        8,
    ),
)
def test_streams_that_are_closed_or_full_do_no_harm(line: str, code: int, unbuffered: str, tmp_path: Path) -> None:
    """With buffers and without: what is left in one is written once more when Python ends."""
    variables = environment(PYTHONUNBUFFERED=unbuffered)
    done = subprocess.run(["bash", "-c", line], env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert "a bug" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize(("ignored", "code"), [(False, 130), (True, 0)])
def test_an_interrupt_while_modules_are_imported_ends_it_quietly(tmp_path: Path, ignored: bool, code: int) -> None:
    """The module `gettext`, which the command line imports, stands for all of them."""
    (tmp_path / "gettext.py").write_text(
        f"import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nexec(open({gettext.__file__!r}).read())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", "import dfc.__main__; dfc.__main__.main()", "--version"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.SIG_DFL),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (code, "")
    assert bool(done.stdout) is ignored
