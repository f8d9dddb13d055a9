"""`dfc inspect`, `verify` and `params` of bundles for many ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from dfc.driver import api
from tests.support.command_line import Command
from tests.support.corpus import ROOT

SAMPLES = ROOT / "samples"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ranks") / "digits.bundle"
    api.compile(SAMPLES / "digits.dfg", deploy=SAMPLES / "digits_server.deploy").save(path)
    return path


def test_inspect_says_who_does_what(bundle: Path, dfc: Command) -> None:
    lines = dfc("inspect", bundle).out.splitlines()
    assert lines[1].startswith("  compiled by LLVM ")
    assert "ranks: ps 1 + worker 2 = 3 ranks" in lines
    assert "  worker runs in the tasks of worker" in lines
    assert "  hidden.w  ps task 0" in lines
    assert "  train: ps-0, worker; B in 8 blocks over worker (cut: images, labels)" in lines
    assert "  save: saves 5 pieces of state, from all ranks at once" in lines
    (line,) = [line for line in lines if "  train/grad:0  " in line]
    assert line.strip().startswith("worker: blocks are combined")
    assert any(line.strip().startswith("ps:0 -> worker  train/logits/read:0  (") for line in lines)
    assert not any("memory:" in line for line in lines)


def test_inspect_lists_what_was_compiled_ahead(tmp_path: Path, dfc: Command) -> None:
    deployment = tmp_path / "digits_server.deploy"
    text = (SAMPLES / "digits_server.deploy").read_text()
    deployment.write_text(text + 'step "train/loss", "train/logits" from "images", "train/labels"\n')
    path = tmp_path / "digits.bundle"
    api.compile(SAMPLES / "digits.dfg", deploy=deployment).save(path)
    lines = dfc("inspect", path).out.splitlines()
    place = lines.index("compiled ahead")
    assert lines[place + 1] == "  train/loss, train/logits from images, train/labels"
    assert any(line.split()[:1] == ["part/0"] for line in lines)


def test_verify_counts_the_ranks(bundle: Path, dfc: Command) -> None:
    assert dfc("verify", bundle).out == (f"{bundle}: whole; digits, 6 entries, code for ps 1 + worker 2 = 3 ranks\n")


def test_params_are_those_of_the_program(bundle: Path, dfc: Command) -> None:
    assert dfc("params", bundle).out == dfc("params", SAMPLES / "digits.dfg").out


def test_show_prints_what_a_role_runs(dfc: Command) -> None:
    words = ("show", SAMPLES / "digits.dfg", "--deploy", SAMPLES / "digits_server.deploy")
    shown = dfc(*words, "--role", "ps-0")
    assert shown.code == 0
    assert "param hidden_w" in shown.out
    assert "graph.send(" in shown.out
    assert "@" not in shown.out.split("entry train")[1].split("entry evaluate")[0], "the server multiplies no images"
    assert "graph.contribute(" in dfc(*words, "--role", "worker").out
    assert "there is no role boss; there are ps-0, worker" in dfc(*words, "--role", "boss").message
    assert "go together" in dfc(*words).message
    assert "give --deploy, too" in dfc("show", SAMPLES / "digits.dfg", "--role", "worker").message


def test_show_after_a_stage_prints_what_each_role_has_by_then(dfc: Command) -> None:
    words = ("show", SAMPLES / "digits.dfg", "--deploy", SAMPLES / "digits_server.deploy", "--after")
    assert "graph.contribute(" in dfc(*words, "replicate").out
    assert "# hidden.w: ps:0, " in dfc(*words, "place").out
    both = dfc(*words, "schedule").out
    assert both.index("# part ps-0\n") < both.index("# part worker\n")
    server = dfc(*words, "schedule", "--role", "ps-0").out
    assert server in both
    assert "# part" not in server
    assert "there is no role boss; there are ps-0, worker" in dfc(*words, "fuse", "--role", "boss").message
