"""The walk of a product through the compiler: every function it names is there, every block is what is printed."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.support.command_line import Command, command

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "MATMUL.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\|[^|]*\| `([\w/]+\.py)` \| `(\w+)` \|", PAGE, re.M)
BEHIND = re.findall(r"^Behind `(\w+)`:\n\n```text\n(.*?)```", PAGE, re.M | re.S)
PROGRAM = re.search(r"```dfg\n(.*?)```", PAGE, re.S)


@pytest.fixture
def dfc(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return command(monkeypatch, capsys)


def test_the_walk_has_steps_and_blocks() -> None:
    assert len(ROWS) > 20
    assert [stage for stage, _ in BEHIND] == ["elaborate", "fuse", "buffers"]


@pytest.mark.parametrize(("file", "function"), ROWS, ids=lambda text: str(text).rpartition("/")[2])
def test_a_function_of_the_walk_is_where_it_is_said_to_be(file: str, function: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert function in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize(("stage", "block"), BEHIND, ids=[stage for stage, _ in BEHIND])
def test_a_block_of_the_walk_is_what_is_printed(stage: str, block: str, tmp_path: Path, dfc: Command) -> None:
    assert PROGRAM is not None
    (tmp_path / "product.dfg").write_text(PROGRAM[1], encoding="utf-8")
    assert dfc("show", tmp_path / "product.dfg", "--after", stage).out.rstrip() == block.rstrip()
