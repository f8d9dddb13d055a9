"""Helps about deployment files are promises too: each that can be applied is, and what is left then is stated.

The golden cases of the deployment messages and the pages of explanations; what a help makes of a file stands in
`deployment_helps.cases` (reviewed, like all golden files), with every message that the file has then.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from dfc.diagnostics.diagnostic import Diagnostic
from dfc.diagnostics.fixes import Fix, applied
from dfc.diagnostics.source import SourceFile
from dfc.driver import api
from dfc.ir.options import CompileOptions
from tests.support.deploying import PROGRAM, diagnosed
from tests.support.documents import code_blocks
from tests.support.golden import read_cases
from tests.support.sweeping import few

HERE = Path(__file__).parent
PAGES = HERE.parents[1] / "dfc" / "diagnostics" / "explanations"
GOLDEN = HERE / "deployment_helps.cases"

LEFT = {
    "A semicolon between statements": {"E0106"},  # the next mistake, which was hidden
}


@dataclass(frozen=True)
class Deployed:
    """A deployment file, and its program; None for the word vectors of the golden cases."""

    text: str
    program: str | None = None


@cache
def deployments() -> dict[str, Deployed]:
    cases = read_cases(HERE / "distribute" / "deployment" / "mistakes.cases")
    found = {case.name: Deployed(case.source) for case in cases}
    found.update((name, Deployed(text)) for name, text in ADDED.items())
    for page in sorted(PAGES.glob("*.md")):
        blocks = {block.heading: block for block in code_blocks(page)}
        if blocks["Fails"].language == "deploy":
            found[page.stem] = Deployed(blocks["Fails"].text, blocks["The program"].text)
    found.update((name, Deployed(text, SUMMING)) for name, text in SUMMED.items())
    return found


HEAD = 'deploy 1 for "skipgram.dfg"\n\njob ps tasks 4 with cpu = 2\njob worker tasks 8\n'
ADDED = {
    "A setting twice, the same": 'deploy 1 for "skipgram.dfg"\n\njob ps tasks 4 with cpu = 1, cpu = 1\n',
    "A semicolon between statements": 'deploy 1 for "skipgram.dfg"\n\njob ps tasks 4; job worker tasks 8\n',
    "Blocks of nothing": HEAD + 'replicate train over worker with mode = "sync", split = "B", blocks = 0\n',
    "An amount of memory without a meaning": 'deploy 1 for "skipgram.dfg"\n\njob ps tasks 4 with memory = "much"\n',
    "A number in quotes": 'deploy 1 for "skipgram.dfg"\n\njob ps tasks 4 with cpu = "2", gpu = 1.0\n',
    "A whole number with a point": 'deploy 1 for "skipgram.dfg"\n\njob ps tasks 4.0\n',
    "A name in quotes that is none": HEAD + 'replicate "train/loss" over worker with mode = "sync", split = "B"\n',
    "A job as a kind of device": HEAD + 'place "table" on ps 1\n',
    "A job as a kind of device of another": HEAD + 'place "table" on worker ps 1\n',
    "A task without a job and a device that nobody has": HEAD + 'place "table" on "/task:3/device:gpu:0"\n',
    "A device beside settings": HEAD + 'place "table" on ps gpu 1\n',
    "A device that two lines want": HEAD + 'place "table" on any gpu\nplace "train/x" on ps any gpu\n'
    'colocate "train/x" with "table"\n',
    "A program in another language": 'deploy 1 for "skipgram.py"\n\njob ps tasks 4\n',
    "Too many tasks": 'deploy 1 for "skipgram.dfg"\n\njob ps tasks 99999999\n',
    "A split without a mode": HEAD + 'replicate train over worker with split = "B"\n',
    "An unknown setting in place of a format": HEAD + 'compress worker to ps with formt = "bf16"\n',
    "An entry as a leader": HEAD + 'colocate "table" with "train"\n',
    "An entry that is sharded": HEAD + 'shard "train" axis 0 over ps\n',
    "A setting that means nothing, last": HEAD
    + 'replicate neighbours over worker with mode = "independent", blocks = 8\n',
    "A setting that means nothing, first": HEAD
    + 'replicate neighbours over worker with split = "K", mode = "independent"\n',
    "A setting of a statement that has no with": HEAD + 'place "table" on ps cpu = 1\n',
}
SUMMING = """dfg 1

param w: f32[64] = 0.5
param table: f32[16, 8] = 0
param copy: f32[16, 8] = 0

entry train[B](x: f32[B, 64], rate: f32) -> (loss: f32) {
  let h = x @ w
  let loss = sum(square(h))
  w -= rate * grad(loss, w)
  return loss
}

entry keep() {
  copy := table
}
"""
BESIDE = 'deploy 1 for "model.dfg"\n\njob worker tasks 2\n'
SUMMED = {
    "A sum that is told to be a mean": BESIDE
    + 'replicate train over worker with mode = "sync", split = "B", combine = "mean"\n',
    "A sum that is a mean where nothing is told": BESIDE
    + 'replicate train over worker with mode = "sync", split = "B"\n',
    "A table that is copied": 'deploy 1 for "model.dfg"\n\njob ps tasks 2\nshard "table" axis 0 over ps\n',
    "A value of a block that is placed elsewhere": 'deploy 1 for "model.dfg"\n\njob ps tasks 1\njob worker tasks 2\n'
    'replicate train over worker with mode = "sync", split = "B", combine = "sum"\nplace "train/h" on ps\n',
}


def messages(deployed: Deployed, folder: Path) -> list[Diagnostic]:
    if deployed.program is None:
        return diagnosed(deployed.text)
    (folder / "model.dfg").write_text(deployed.program, encoding="utf-8")
    return api.check(SourceFile(str(folder / "model.deploy"), deployed.text), {})


def changed(before: str, after: str) -> list[str]:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def followed(deployed: Deployed, folder: Path) -> Iterator[tuple[Diagnostic, Fix, str, list[Diagnostic]]]:
    """Each fix, what it makes of the file, and what is said about that."""
    for message in messages(deployed, folder):
        for fix in message.fixes:
            text = applied(deployed.text, fix.edits)
            yield message, fix, text, messages(Deployed(text, deployed.program), folder)


NAMES = sorted(deployments())


def test_the_program_of_the_cases_is_the_sample() -> None:
    assert PROGRAM.is_file()
    assert len(NAMES) > 80


def test_every_help_makes_what_is_stated(bless: bool, tmp_path: Path) -> None:
    stories: list[str] = []
    for name in NAMES:
        lines: list[str] = []
        for message, fix, text, left in followed(deployments()[name], tmp_path):
            lines += [f"{message.code}: {fix.help}", *changed(deployments()[name].text, text)]
            lines += [f"still {each.code}: {each.title}" for each in left]
        if lines:
            stories.append("\n".join([f"[case {name}]", *lines, ""]))
    told = "\n".join(stories)
    if bless:
        GOLDEN.write_text(told, encoding="utf-8")
    assert told == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_a_deployment_that_followed_a_help_resolves(name: str, tmp_path: Path) -> None:
    deployed = deployments()[name]
    before = [(each.code, each.title) for each in messages(deployed, tmp_path)]
    for message, fix, _, left in followed(deployed, tmp_path):
        said = [(each.code, each.title) for each in left]
        assert said.count((message.code, message.title)) < before.count((message.code, message.title)), fix.help
        assert {code for code, title in said if (code, title) not in before} <= LEFT.get(name, set()), fix.help


@pytest.mark.parametrize("name", few([name for name in NAMES if deployments()[name].program is not None], 9))
def test_a_program_with_a_deployment_that_followed_a_help_compiles(name: str, tmp_path: Path) -> None:
    deployed = deployments()[name]
    for _, fix, text, left in followed(deployed, tmp_path):
        assert not left, fix.help
        program = SourceFile("model.dfg", deployed.program or "")
        bundle = api.compile_source(program, CompileOptions(), SourceFile("model.deploy", text))
        assert len(bundle.to_bytes()) > 0


def test_an_entry_that_only_reads_is_told_to_say_so(tmp_path: Path) -> None:
    program = "dfg 1\n\nparam w: f32[64] = 0.5\n\nentry f[B](x: f32[B, 64]) -> (h: f32[B]) { return x @ w }\n"
    text = BESIDE + 'replicate f over worker with mode = "independent"\n'
    (message,) = messages(Deployed(text, program), tmp_path)
    assert message.helps == ("it changes nothing: declare it as `readonly entry f`",)
    assert not messages(Deployed(text, program.replace("entry f", "readonly entry f")), tmp_path)


NONE = [
    "A fraction of a task",
    "A name in quotes that is none",
    "A job as a kind of device of another",
    "A program in another language",
    "Too many tasks",
    "A bad combination",
    "An amount of memory without a meaning",
    "An entry as a leader",
    "An entry that is sharded",
]


@pytest.mark.parametrize("name", NONE)
def test_where_no_fix_can_be_known_none_is_offered(name: str, tmp_path: Path) -> None:
    (message,) = messages(deployments()[name], tmp_path)
    assert message.helps == ()
