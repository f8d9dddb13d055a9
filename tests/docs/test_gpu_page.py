"""What the page about GPUs shows: its commands compile, its Python runs, on a simulated device."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from dfc.diagnostics.source import SourceFile
from dfc.driver.api import compile_source
from dfc.ir.options import CompileOptions, TargetOptions
from dfc_target_cuda.target import ARCHITECTURES, DEFAULT, SIMULATOR
from tests.support.command_line import command, environment
from tests.support.corpus import ROOT
from tests.support.documents import CodeBlock, code_blocks
from tests.support.simulated_runtime import simulated_devices

PAGE = ROOT / "docs" / "GPU.md"


def only(language: str) -> CodeBlock:
    (found,) = (block for block in code_blocks(PAGE) if block.language == language)
    return found


def test_its_commands_compile_and_show_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rows.dfg").write_text(only("dfg").text)
    monkeypatch.chdir(tmp_path)
    printed = ""
    for line in only("sh").text.splitlines():
        name, *words = shlex.split(line)
        assert name == "dfc"
        done = command(monkeypatch, capsys)(*words)
        assert (done.code, done.err) == (0, ""), line
        printed += done.out
    for told in ("code\n  sm_90 ", "needs compute_80", "accesses of 16 bytes", "def k0(", ".visible .entry k0("):
        assert told in printed


def test_its_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    source = SourceFile("rows.dfg", only("dfg").text)
    options = CompileOptions("cuda", target_options=TargetOptions((SIMULATOR,)))
    monkeypatch.chdir(tmp_path)
    compile_source(source, options).save("rows.bundle")
    with simulated_devices():
        exec(compile(only("python").text.replace("(32, 256)", "(2, 256)"), "GPU.md", "exec"), {})
    assert capsys.readouterr().out.startswith("(2, 256) float32 0.00")


def test_it_lists_the_architectures() -> None:
    text = " ".join(PAGE.read_text().split())
    assert f"{', '.join(ARCHITECTURES)}; without it {' and '.join(DEFAULT)}." in text


def test_benchmarks_say_that_there_is_no_device() -> None:
    """In a process that has not looked for one yet."""
    hidden = {**environment(), "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": os.pathsep.join([str(ROOT)])}
    script = "import bench.gpu.cases as cases, bench.gpu.products as products; cases.main(); products.main()"
    done = subprocess.run(["python", "-c", script], cwd=ROOT, env=hidden, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and re.fullmatch(r"(no device: \[E092.*\n){2}", done.stdout)
