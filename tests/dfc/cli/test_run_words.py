"""What ranks are started with: the words of `dfc run -n`, for names that look like something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

from dfc.cli.commands import run_command
from dfc.cli.main import cli
from dfc.driver import api
from tests.support.command_line import Command, fork

PROGRAM = Path(__file__).parent / "line.dfg"
DEPLOYMENT = "job worker tasks 2\n"
STRANGE = ("-x.bundle", ":", "--help", "-n", "a b.bundle", "--", "é=:.bundle")


@pytest.fixture(scope="module")
def spread(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A bundle of `line.dfg` for two ranks."""
    deployment = tmp_path_factory.mktemp("spread") / "line.deploy"
    deployment.write_text(f'deploy 1 for "line.dfg"\n\n{DEPLOYMENT}')
    return api.compile(PROGRAM, deploy=deployment).to_bytes()


@pytest.mark.parametrize("name", STRANGE)
def test_ranks_get_the_words_that_were_typed(
    name: str, folder: Path, spread: bytes, dfc: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(name).write_bytes(spread)
    started: list[list[str]] = []
    monkeypatch.setattr(run_command, "supervise", lambda _launch, words, _plan, **_: started.append(list(words)) or 0)
    options = ["--feed", "x=:", "--out", ":", "--state", "-s", "--threads", "1", "--json"]
    assert dfc("run", "-n", "2", *options, "--", name, "predict").code == 0
    (words,) = started
    assert ":" not in words
    seen = _parsed(words)
    assert (Path(seen["file"]), seen["entry"]) == (Path(name), "predict")
    assert (seen["pairs"], seen["out"], seen["state"], seen["threads"]) == (("x=:",), ":", "-s", 1)
    assert seen["as_json"] and seen["ranks"] is None


def _parsed(words: list[str]) -> dict[str, Any]:
    command = cli.get_command(click.Context(cli), words[0])
    assert command is not None
    return command.make_context("run", words[1:]).params


def test_an_entry_that_no_launcher_passes_on_is_refused(folder: Path, spread: bytes, dfc: Command) -> None:
    Path("b").write_bytes(spread)
    assert dfc("run", "-n", "2", "b", ":").err == "error: there is no entry ':'\n"


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", ["-x.bundle", ":"])
def test_a_bundle_of_a_strange_name_runs_on_ranks(name: str, folder: Path, spread: bytes, dfc: Command) -> None:
    pytest.importorskip("mpi4py")
    Path(name).write_bytes(spread)
    assert dfc("run", "line.bundle", "predict", "--feed", "x=x.npy", "--out", "alone.npz").code == 0
    ended = fork("run", "-n", "2", "--feed", "x=x.npy", "--out", ":", "--", name, "predict", folder=folder)
    assert (ended.code, ended.err) == (0, "")
    with np.load("alone.npz") as one, np.load(":") as two:
        assert one.files == two.files and all(np.array_equal(one[each], two[each]) for each in one.files)
