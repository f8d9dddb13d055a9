"""What messages of programs that run say to type is typed here, and it works: their remedies are no edits of a file."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import dfc
from dfc.cli.main import main
from dfc.diagnostics.source import SourceFile
from dfc.driver import api
from dfc.ir.options import CompileOptions
from dfc.syntax.reader import nesting
from dfc_runtime.devices import no_bindings
from dfc_runtime.distributed.loading import load_on
from dfc_runtime.distributed.transport.comm import Comm
from dfc_runtime.distributed.transport.in_process import Network
from dfc_runtime.errors import DfcError, FeedError, LimitError, RankCountError, UnsupportedError
from tests.support.ranks import outcomes_on

ROOT = Path(__file__).resolve().parents[4]
DOUBLE = "dfg 1\n\nreadonly entry double[B](x: f32[B, 2]) -> (y: f32[B, 2]) { return 2 * x }\n"


def quoted(text: str, behind: str) -> str:
    """What stands in backquotes behind some words."""
    found = re.search(rf"{re.escape(behind)} `([^`]*)`", text)
    assert found is not None, text
    return found[1]


def command(*arguments: str) -> int:
    """How a command ends."""
    with pytest.raises(SystemExit) as ending:
        main(list(arguments))
    assert isinstance(ending.value.code, int)
    return ending.value.code


def refused(text: str) -> dfc.CompileError:
    with pytest.raises(dfc.CompileError) as failure:
        dfc.compile(text=text)
    return failure.value


def test_e0140_a_part_with_a_name() -> None:
    deep = "(" * 150 + "{}" + ")" * 150
    refused("dfg 1\n\nconst N = " + deep.format(deep.format(1)) + "\n")
    dfc.compile(text=f"dfg 1\n\nconst PART = {deep.format(1)}\nconst N = {deep.format('PART')}\n")


def test_e0147_a_list_that_is_reduced_and_parts_with_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a limit of fewer, which are compiled in less time."""
    monkeypatch.setattr(nesting, "CHAIN_LIMIT", 2000)
    many = ["1"] * 2002
    assert "put the operands into a list and reduce it" in str(refused("dfg 1\n\nconst N = " + " + ".join(many) + "\n"))
    dfc.compile(text=f"dfg 1\n\nconst N = sum([{', '.join(many)}])\n")
    dfc.compile(text=f"dfg 1\n\nconst A = {' + '.join(many[:1200])}\nconst N = A + {' + '.join(many[1200:])}\n")


def test_e0211_a_setting_that_the_program_asks_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "model.dfg"
    file.write_text('dfg 1\n\nconst WIDTH: int = setting("WIDTH", 128)\n', encoding="utf-8")
    assert command("check", str(file), "--set", "WIDHT=256") == 2
    names = re.findall(r"help: the program asks for (.*)", capsys.readouterr().err)[0]
    for name in names.split(", "):
        assert command("check", str(file), "--set", f"{name}=256") == 0


def test_e0815_work_on_a_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, deploy = tmp_path / "model.dfg", tmp_path / "model.deploy"
    program.write_text(DOUBLE, encoding="utf-8")
    lines = 'deploy 1 for "model.dfg"\n\njob worker tasks 1 with gpu = 1\n'
    deploy.write_text(lines, encoding="utf-8")
    compiling = ["compile", str(program), "--deploy", str(deploy), "-o", str(tmp_path / "model.bundle")]
    assert command(*compiling, "--arch", "sm_90") == 2
    text = capsys.readouterr().err
    assert "leave `--arch` out" in text
    assert command(*compiling) == 0
    deploy.write_text(f"{lines}{quoted(text, 'put work on a GPU:')}\n", encoding="utf-8")
    assert api.check(SourceFile(str(deploy), deploy.read_text(encoding="utf-8")), {}) == []


def test_e0901_an_array_that_is_converted() -> None:
    model = dfc.loads(dfc.compile(text=DOUBLE).to_bytes())
    x = np.ones((3, 2), np.float64)
    with pytest.raises(FeedError, match=r"arrays are never converted by themselves: x.astype\(np.float32\)"):
        model.double(x=x)
    np.testing.assert_array_equal(model.double(x=x.astype(np.float32)), [2 * x])


def test_e0905_another_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = tmp_path / "table.bundle"
    dfc.compile(text="dfg 1\n\nvar table: f32[1_000, 1_000] = 0\n").save(str(bundle))
    with pytest.raises(LimitError, match=r"DFC_MEMORY_LIMIT=\.\.\. or memory_limit=\.\.\. states another limit"):
        dfc.load(str(bundle), memory_limit=1_000_000)
    dfc.load(str(bundle), memory_limit=5_000_000)
    monkeypatch.setenv("DFC_MEMORY_LIMIT", "1M")
    with pytest.raises(LimitError):
        dfc.load(str(bundle))
    monkeypatch.setenv("DFC_MEMORY_LIMIT", "8M")
    dfc.load(str(bundle))
    monkeypatch.setenv("DFC_MEMORY_LIMIT", "much")
    with pytest.raises(LimitError, match="write a number of bytes, or for example 8G"):
        dfc.load(str(bundle))
    monkeypatch.setenv("DFC_MEMORY_LIMIT", "8G")
    dfc.load(str(bundle))


def test_e0912_a_deployment_file() -> None:
    with pytest.raises(RankCountError, match="compile it with a deployment file: --deploy FILE"):
        load_on(dfc.compile(text=DOUBLE).to_bytes(), Network(2).comm(0))
    deploy = SourceFile("model.deploy", 'deploy 1 for "model.dfg"\n\njob worker tasks 2\n')
    bundle = api.compile_source(SourceFile("model.dfg", DOUBLE), CompileOptions(), deploy).to_bytes()
    x = np.ones((3, 2), np.float32)

    def work(comm: Comm) -> object:
        module = load_on(bundle, comm, seconds=30, threads=1)
        try:
            return module.serve() if comm.rank else module.double(x=x)
        finally:
            module.close()

    first, second = outcomes_on(Network(2), work)
    assert not isinstance(second, BaseException)
    np.testing.assert_array_equal(first, [2 * x])


def test_e1002_the_installed_targets_are_targets() -> None:
    with pytest.raises(UnsupportedError) as failure:
        dfc.compile(text=DOUBLE, target="abacus")
    names = str(failure.value).rpartition(": ")[2].split(", ")
    assert "cpu" in names
    for name in names:
        try:
            dfc.compile(text=DOUBLE, target=name)
        except DfcError as problem:
            assert problem.code == "E1004", "only NVIDIA's compiler may be missing"


@pytest.mark.parametrize(("container", "target"), [(' with container = "counters"', "cpu"), ("", "cuda")])
def test_e1003_the_processor_or_no_container(container: str, target: str) -> None:
    shared = 'dfg 1\n\nvar steps: i64 = 0 with container = "counters"\n'
    with pytest.raises(dfc.CompileError, match="compile with --target cpu, or leave out `container`"):
        dfc.compile(text=shared, target="cuda")
    dfc.compile(text=f"dfg 1\n\nvar steps: i64 = 0{container}\n", target=target)


@pytest.mark.parametrize("text", [str(no_bindings()), "pip install 'dfc[cuda]'"])
def test_what_is_to_be_installed_is_an_extra_of_the_package(text: str) -> None:
    (name,) = re.findall(r"pip install 'dfc\[([\w-]+)\]'", text)
    assert re.search(rf"^{name} = \[", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
