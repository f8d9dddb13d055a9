"""What the page about files of records says to type works, and prints what it shows."""

from __future__ import annotations

import glob
import shlex
import shutil
from pathlib import Path

import pytest

from tests.support.command_line import command
from tests.support.corpus import ROOT
from tests.support.documents import code_blocks
from tests.support.snippets import endings

PAGE = ROOT / "docs" / "DATA.md"


def words_of(line: str) -> list[str]:
    """The words of a command, names with stars as the files there are, as a shell makes them."""
    words = shlex.split(line)
    return [name for word in words for name in (sorted(glob.glob(word)) if "*" in word else [word])]


def test_what_it_says_to_type_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "samples").mkdir()
    shutil.copytree(ROOT / "samples" / "data", tmp_path / "samples" / "data")
    (tmp_path / "flowers.csv").write_text("petal,sepal,name\n1.5,2,iris\n3,,rose\n0.5,1.25,aster\n")
    monkeypatch.chdir(tmp_path)
    dfc = command(monkeypatch, capsys)
    ran = 0
    for block in code_blocks(PAGE):
        if block.language == "sh":
            for line in block.text.splitlines():
                done = dfc(*words_of(line)[1:])
                assert (done.code, done.err) == (0, ""), f"{block}: {line}\n{done.err}"
                ran += 1
        elif block.language == "console":
            for part in block.text.removeprefix("$ ").split("\n$ "):
                line, _, shown = part.partition("\n")
                done = dfc(*words_of(line)[1:])
                assert (done.code, done.out.strip("\n")) == (0, shown.strip("\n")), f"{block}: {line}"
                ran += 1
        elif block.language != "dfg":  # programs are compiled with those of all documents
            assert block.language == "python"
            (tmp_path / "page.py").write_text(block.text)
            assert endings([(tmp_path, tmp_path / "page.py")]) == [""], str(block)
    assert ran == 6
    assert sorted(path.name for path in tmp_path.glob("shuffled*")) == [
        "shuffled-00000-of-00002.rec",
        "shuffled-00001-of-00002.rec",
    ]
