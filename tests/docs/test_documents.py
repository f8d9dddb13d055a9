"""What the documents show is true: programs pass the checker, messages are the real ones, commands and Python run."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from dfc.diagnostics.diagnostic import render
from dfc.diagnostics.source import SourceFile
from dfc.distribute.deployment.syntax.formatter import format_deployment
from dfc.distribute.deployment.syntax.statements import STATEMENTS
from dfc.driver import api
from dfc.ops import registry
from tests.support.command_line import Command, Outcome, command, environment
from tests.support.corpus import ROOT
from tests.support.documents import CodeBlock, code_blocks, links
from tests.support.empty_environment import RUN_SIDE
from tests.support.rank_launcher import forked_job
from tests.support.snippets import endings
from tests.support.sweeping import WHOLE

DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "samples/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "samples" / "data").glob("*.md")),
]
BLOCKS = [block for path in DOCUMENTS for block in code_blocks(path)]
PROGRAMS = [block for block in BLOCKS if block.language == "dfg"]
RUN = [block for path in ("README.md", "samples/README.md") for block in code_blocks(ROOT / path)]
LIMIT = 3600 if WHOLE else 600
"""Seconds for every command of a document, one after the other; the gate trains for as long as is written there."""
LANGUAGES = {"dfg", "deploy", "python", "sh", "console", "text", "toml"}


def expected_message(program: CodeBlock) -> str:
    """The message that the document shows right behind a program, if it shows one."""
    for block, following in pairwise(BLOCKS):
        if block is program and following.path == block.path and following.text.startswith("error["):
            return following.text.rstrip("\n")
    return ""


def names(block: object) -> str:
    return str(block)


def test_the_documents_are_there() -> None:
    assert len(DOCUMENTS) >= 7
    assert len(PROGRAMS) >= 10
    assert any(expected_message(program) for program in PROGRAMS)
    assert {block.language for block in BLOCKS} <= LANGUAGES


@pytest.mark.parametrize("program", PROGRAMS, ids=names)
def test_a_program_is_accepted_or_refused_as_shown(program: CodeBlock) -> None:
    shown = expected_message(program)
    place = re.search(r"--> ([^:\s]+):", shown)
    source = SourceFile(place[1] if place else "program.dfg", program.text)
    found = [render(each) for each in api.check(source, {}) if each.is_error]
    assert "\n\n".join(found) == shown


DEPLOYMENT_PAGE = ROOT / "docs" / "DEPLOYMENT.md"
DEPLOYMENTS = [block for block in BLOCKS if block.language == "deploy"]
JOBS = 'deploy 1 for "words.dfg"\n\njob ps tasks 4\njob worker tasks 8\n'


@pytest.mark.parametrize("block", DEPLOYMENTS, ids=names)
def test_a_deployment_is_accepted_or_refused_as_shown(block: CodeBlock, tmp_path: Path) -> None:
    """Against the program of the page, or a sample that it names; a block that is no whole file stands behind two
    jobs."""
    program = next(each for each in code_blocks(DEPLOYMENT_PAGE) if each.language == "dfg")
    (tmp_path / "words.dfg").write_text(program.text)
    for sample in ROOT.glob("samples/language/*.dfg"):
        if sample.name in block.text:
            shutil.copy(sample, tmp_path)
    whole = block.text.startswith("deploy ")
    source = SourceFile(str(tmp_path / "words.deploy"), block.text if whole else JOBS + block.text)
    found = "\n\n".join(map(render, api.check(source, {})))
    assert found.replace(f"{tmp_path}/", "") == expected_message(block)
    if whole:
        assert format_deployment(source) == source.text


def test_every_statement_of_deployment_files_is_shown() -> None:
    headings = [block.heading for block in DEPLOYMENTS]
    assert {"Jobs", *STATEMENTS} - {"job", "step"} <= set(headings)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the samples, as after a clone; the blocks of a document leave their files in it."""
    folder = tmp_path_factory.mktemp("clone")
    shutil.copytree(ROOT / "samples", folder / "samples")
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture
def dfc(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command line in this process."""
    return command(monkeypatch, capsys)


def steps_of(document: str) -> Iterator[CodeBlock]:
    return (block for block in RUN if block.path == ROOT / document and block.language in ("sh", "python", "console"))


@pytest.mark.timeout(LIMIT)
def test_what_the_readme_says_to_type_works_and_learns_digits(
    workplace: Path, dfc: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workplace)
    first, *rest = steps_of("README.md")
    share = re.search(r"accuracy ([\d.]+)$", run(first, workplace, dfc).strip())
    assert share is not None
    assert float(share[1]) > 0.96
    for block in rest:
        run(block, workplace, dfc)


@pytest.mark.timeout(LIMIT)
def test_what_the_page_of_the_samples_says_to_type_works(
    workplace: Path, dfc: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = list(steps_of("samples/README.md"))
    assert steps
    monkeypatch.chdir(workplace)
    for block in steps:
        if WHOLE or block.heading not in LONG:
            run(block if WHOLE else shorter(block), workplace, dfc)


def run(block: CodeBlock, folder: Path, dfc: Command) -> str:
    """What the commands of a block print. Where not all cases are wanted, this process does what it can do itself."""
    if block.language != "sh":
        return run_other(block, folder)
    return run_commands(block, folder) if WHOLE else run_here(block, folder, dfc)


LONG = {
    *("cifar.dfg", "convnet.dfg", "lstm.dfg", "seq2seq.dfg", "transformer.dfg", "word_vectors.dfg"),
    *("language/02_convnet_batchnorm.dfg", "zoo", "skipgram.dfg", "digits_server.deploy"),
    *("linear_regression.dfg", "language/04_transformer_encoder.dfg"),
}
"""Samples whose commands compile and train for long, run the tests that `tests/samples` runs, or do on ranks what those
of other samples do: they run as they are written in `make gate`. What they compute is tested in `tests/samples`."""


def shorter(block: CodeBlock) -> CodeBlock:
    """The same commands for a few steps: that they work is asked here, what is learned is tested elsewhere."""
    text = re.sub(r"--epochs \d+", "--epochs 1", block.text)
    return replace(block, text=re.sub(r"(--feed steps=|--steps )(?:140|300|1000|6000)\b", r"\g<1>10", text))


def run_here(block: CodeBlock, folder: Path, dfc: Command) -> str:
    """The same as `run_commands`, but that commands of dfc run in this process; those that start ranks in a fork, and
    so do their ranks: `tests/mpi` starts them as users do."""
    printed = ""
    for text in map(str.strip, COMMAND.findall(LOOP.sub(unrolled, block.text.replace("\\\n", " ")))):
        words = shlex.split(text)
        if words[0] == "dfc" and PLAIN.fullmatch(text):
            done = on_ranks(*words[1:], folder=folder) if "-n" in words else dfc(*words[1:])
            assert done.code == 0, f"{block}: {text}\n{done.out}{done.err}"
            printed += done.out
        else:
            printed += run_commands(replace(block, text=text), folder)
    return printed


def on_ranks(*words: str, folder: Path) -> Outcome:
    done = forked_job(*words, folder=folder, environment=environment(), timeout=300)
    return Outcome(done.returncode, done.stdout, done.stderr)


COMMAND = re.compile(r"^[^\n]+$", re.M)
LOOP = re.compile(r"^for (\w+) in ([\w ]+); do\n(.*?)^done$", re.M | re.S)


def unrolled(loop: re.Match[str]) -> str:
    """The lines of a loop for each word, without its variable."""
    return "".join(loop[3].replace(f"${loop[1]}", word) for word in loop[2].split())


PLAIN = re.compile(r"dfc( +([\w./:=,-]+|'[^']+'))+")
"""A command without variables, and without a star that is not quoted."""


def run_other(block: CodeBlock, folder: Path) -> str:
    """A block of Python in a process of its own, a console by its names; nothing of what they print is told."""
    if block.language == "python":
        file = folder / f"line_{block.line}.py"
        file.write_text(block.text)
        assert endings([(folder, file)]) == [""], str(block)
    else:
        check_targets(block, folder)
    return ""


def run_commands(block: CodeBlock, folder: Path) -> str:
    """What they print."""
    done = subprocess.run(
        ["sh", "-e", "-c", block.text],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr
    return done.stdout


def check_targets(block: CodeBlock, folder: Path) -> None:
    """A console shows targets of the Makefile, too long to run here; they must exist and have something to do."""
    for line in block.text.splitlines():
        words = line.split("#")[0].split()
        assert words[0] == "make", f"{block}: {line}"
        done = subprocess.run(["make", "-n", *words[1:]], cwd=folder, capture_output=True, text=True, check=True)
        assert done.stdout.strip()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_somewhere(path: Path) -> None:
    missing = [target for target in links(path) if not (path.parent / target).exists()]
    assert missing == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_message_code_that_is_named_has_a_page(path: Path) -> None:
    named = set(re.findall(r"\b[EW]\d{4}\b", path.read_text()))
    assert named <= {page.stem for page in (ROOT / "dfc" / "diagnostics" / "explanations").glob("*.md")}


def requirement(text: str) -> str:
    """The name in `name>=1,<2`."""
    found = re.match(r"[\w.-]+", text)
    assert found is not None
    return found[0]


def test_every_dependency_is_explained_and_no_other() -> None:
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = whole["project"]
    table = (ROOT / "docs" / "DEPENDENCIES.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]
    libraries = {row[0] for row in rows if len(row) == 3}
    needed = {
        requirement(text) for text in whole["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["requires"]
    }
    for part in RUN_SIDE.values():
        stated = tomllib.loads((part / "pyproject.toml").read_text())["project"]["dependencies"]
        needed |= {requirement(text) for text in stated} - set(RUN_SIDE)
    assert needed <= libraries
    assert libraries - needed <= {
        "library",
        "extra",
        "---",
        *(f"`{name}`" for name in project["optional-dependencies"]),
    }
    extras = {row[0].strip("`"): set(re.split(r",\s*", row[1])) for row in rows if row[0].startswith("`")}
    for name, texts in project["optional-dependencies"].items():
        assert extras[name] == {requirement(text) for text in texts}


def test_the_commands_of_the_readme_exist(dfc: Command) -> None:
    table = (ROOT / "README.md").read_text()
    named = set(re.findall(r"^\| `dfc (\w+)", table, re.M)) | set(re.findall(r"`dfc (verify|explain) ", table))
    known = set(re.findall(r"^  (\w+)  ", dfc("--help").out, re.M))
    assert named == known


def test_the_ops_the_language_page_names_exist() -> None:
    text = (ROOT / "docs" / "LANGUAGE.md").read_text()
    for name in ("select", "jacobian", "stop_gradient"):
        assert f"`{name}(" in text
        assert registry.find(name) is not None
