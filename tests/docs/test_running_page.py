"""What the page about running without the compiler says to type works, in an environment that holds no compiler."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dfc.driver import api
from tests.support.corpus import ROOT
from tests.support.documents import CodeBlock, code_blocks
from tests.support.empty_environment import Environment

PAGE = ROOT / "docs" / "RUNNING.md"


def only(language: str) -> CodeBlock:
    (found,) = (block for block in code_blocks(PAGE) if block.language == language)
    return found


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the page names."""
    for name in ("runtime", "targets", "samples/data"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, tmp_path / "checkout" / name, ignore=ignored)
    shutil.copy(ROOT / "LICENSE", tmp_path / "checkout")
    api.compile(ROOT / "samples" / "digits.dfg").save(tmp_path / "checkout" / "digits.bundle")
    return tmp_path / "checkout"


@pytest.mark.timeout(600)  # two builds by pip
def test_what_it_says_to_type_works(checkout: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "empty")
    environment.link("numpy", "ml-dtypes", "hatchling")
    environment.shell(only("sh").text, folder=checkout)
    (checkout / "use.py").write_text(only("python").text)
    shown = environment.run("python", "-I", "use.py", folder=checkout)
    assert shown.startswith("entry train[B](images: f32[B, 64]")
    assert (checkout / "checkpoints").is_dir()
    missing = "from importlib.util import find_spec; print([n for n in ('dfc', 'llvmlite', 'click') if find_spec(n)])"
    assert environment.run("python", "-Ic", missing, folder=checkout) == "[]\n"
    build, install = only("console").text.splitlines()
    environment.shell(f"{build} --no-deps", folder=checkout)  # libraries would be taken from an index
    elsewhere = Environment(tmp_path / "elsewhere")
    elsewhere.link("numpy", "ml-dtypes")
    elsewhere.shell(install, folder=checkout)
    assert elsewhere.run("python", "-I", "use.py", folder=checkout) == shown
