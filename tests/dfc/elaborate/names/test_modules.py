"""Several files: imports, circles, private names, state of modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from dfc.diagnostics.source import SourceFile
from dfc.elaborate.build import build, check
from dfc.ir.graph import Graph
from tests.support.building import codes, graph_of


def program(folder: Path, **texts: str) -> SourceFile:
    for name, text in texts.items():
        (folder / f"{name}.dfg").write_text(text)
    return SourceFile(str(folder / "main.dfg"), texts["main"])


def built(folder: Path, **texts: str) -> Graph:
    return build(program(folder, **texts))


def found(folder: Path, **texts: str) -> list[str]:
    return [diagnostic.code for diagnostic in check(program(folder, **texts))]


HELPERS = "const TWO = 2\nfn _hidden(x: f32) -> f32 = x\nfn double(x: f32) -> f32 = TWO * _hidden(x)\n"


@pytest.mark.parametrize(
    ("line", "use"),
    [
        ("from .helpers import double", "double(x)"),
        ("from .helpers import double as twice, TWO", "twice(x) * TWO"),
        ("from helpers import double", "double(x)"),
        ("import helpers", "helpers.double(x)"),
        ("import helpers as h", "h.double(x) * h.TWO"),
        ("import std.nn as nn", "x"),
        ("import std.nn", "x"),
    ],
)
def test_imports(tmp_path: Path, line: str, use: str) -> None:
    graph = built(tmp_path, helpers=HELPERS, main=f"{line}\nentry f(x: f32) -> f32 {{ return {use} }}\n")
    assert list(graph.entries) == ["f"]


def test_a_block_through_its_module() -> None:
    graph = graph_of("import std.nn\nvar net = std.nn.Dense[2, 3]()\n")
    assert list(graph.resources) == ["net.w", "net.b"]


@pytest.mark.parametrize(
    ("line", "use", "code"),
    [
        ("from .helpers import duoble", "x", "E0203"),
        ("from .helpers import _hidden", "x", "E0203"),
        ("import helpers", "helpers._hidden(x)", "E0203"),
        ("import helpers", "helpers.missing(x)", "E0203"),
        ("from .nowhere import x", "1", "E0203"),
        ("import std.nm", "1", "E0203"),
    ],
)
def test_wrong_imports_are_refused(tmp_path: Path, line: str, use: str, code: str) -> None:
    text = f"{line}\nentry f(y: f32) -> f32 {{ let x = y\n return {use} }}\n".replace("{ let x = y\n", "{\nlet x = y\n")
    codes = [c for c in found(tmp_path, helpers=HELPERS, main=text) if c not in ("E0205",)]
    assert codes == [code]


def test_the_name_of_an_import_is_not_used_again(tmp_path: Path) -> None:
    main = "import helpers\nentry f(y: f32) -> f32 {\n  let helpers = y\n  return helpers\n}\n"
    (message,) = check(program(tmp_path, helpers=HELPERS, main=main))
    assert "`helpers` is the name of an import already" in str(message)


def test_a_circle_of_imports_is_shown(tmp_path: Path) -> None:
    source = program(
        tmp_path, a="from .b import x\nconst y = 1\n", b="from .a import y\nconst x = 1\n", main="from .a import y\n"
    )
    texts = [str(diagnostic) for diagnostic in check(source)]
    assert any("E0206" in text and "a -> b -> a" in text for text in texts)


def test_the_state_of_a_module_exists_once_under_its_name(tmp_path: Path) -> None:
    helper = "var count: i64 = 0\nproc bump() { count += 1 }\n"
    graph = built(
        tmp_path,
        counter=helper,
        other="from .counter import bump\nproc twice() {\n  bump()\n  bump()\n}\n",
        main="from .counter import bump\nfrom .other import twice\nentry f() {\n  bump()\n  twice()\n}\n",
    )
    assert list(graph.resources) == ["counter.count"]


def test_mistakes_of_a_module_are_shown_in_its_file(tmp_path: Path) -> None:
    source = program(tmp_path, helpers="fn f(x: f32) -> f32 = y\n", main="from .helpers import f\n")
    (diagnostic,) = check(source)
    assert diagnostic.code == "E0201" and diagnostic.span.name.endswith("helpers.dfg")


def test_a_file_beside_the_program_is_loaded(tmp_path: Path) -> None:
    import numpy as np

    np.save(tmp_path / "x.npy", np.arange(3, dtype=np.float32))
    graph = built(tmp_path, main='const X = load("x.npy")\nentry f() -> f32[3] { return X }\n')
    assert str(graph.entries["f"].block.outputs[0].type) == "f32[3]"


@pytest.mark.parametrize("name", ["../x.npy", "/etc/passwd.npy", "x.txt", "missing.npy"])
def test_other_files_are_not(name: str) -> None:
    assert codes(f'const X = load("{name}")\n') == ["E0318"]


def test_a_damaged_file_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00garbage")
    assert found(tmp_path, main='const X = load("x.npy")\n') == ["E0318"]


def test_a_pickle_is_not_opened(tmp_path: Path) -> None:
    import numpy as np

    np.save(tmp_path / "x.npy", np.array([{}], dtype=object), allow_pickle=True)
    assert found(tmp_path, main='const X = load("x.npy")\n') == ["E0318"]


@pytest.mark.parametrize(
    "settings", [{"SEED": "x"}, {"SEED": True}, {"SEED": 1.5}, {"R": float("inf")}, {"R": float("nan")}]
)
def test_a_setting_that_no_program_can_use_is_refused(settings: dict[str, str | bool | float]) -> None:
    source = SourceFile("program.dfg", 'const R: float = setting("R", 0.5)\n')
    assert [d.code for d in check(source, settings)] == ["E0315"]


def test_an_unknown_setting_is_refused() -> None:
    source = SourceFile("program.dfg", 'const N: int = setting("N", 3)\n')
    assert [d.code for d in check(source, {"M": 2})] == ["E0211"]
    assert [d.code for d in check(source, {"N": True})] == ["E0315"]


@pytest.mark.parametrize(("written", "meant"), [("helpersz", "helpers"), ("parts.layerz", "parts.layers")])
def test_a_misspelt_module_is_looked_for_beside_the_program(tmp_path: Path, written: str, meant: str) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "layers.dfg").write_text(HELPERS)
    (told,) = check(program(tmp_path, helpers=HELPERS, main=f"import {written}\n"))
    assert told.code == "E0203"
    assert [label.text for label in told.labels] == [f"did you mean `{meant}`?"]
