"""All samples: their tests pass, those beyond this version say so at the right lines, and the demonstration learns."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dfc.diagnostics.diagnostic import NOT_SUPPORTED_YET, Diagnostic
from dfc.driver import api
from dfc.ir.options import CompileOptions
from dfc.syntax.reader.reading import read_source
from tests.support.command_line import process
from tests.support.sample_tests import LEARNING, SAMPLES, TESTS, passing_bundle

PROGRAMS = sorted(SAMPLES.rglob("*.dfg"))
COMPILED = list(TESTS)
TOO_LARGE = ["05_sharded_embedding"]  # ten million words: compiled here, loaded on many machines
ELSEWHERE = {"figures", "zoo", "cifar", "seq2seq"}
"""Folders and programs with tests of their own."""
BEYOND = [
    path
    for path in PROGRAMS
    if path.stem not in {*COMPILED, *TOO_LARGE, *ELSEWHERE} and path.parent.name not in ELSEWHERE
]
FEATURES = {
    r"queues are": r"^queue ",
    r"runners are": r"^runner ",
    r"quantised types are": r"quant\(",
    r"`([\w.]+)` is": r"\b{0}\(",
}
"""What is not supported, as messages name it, and what the marked line must then hold."""


def by_name(path: Path) -> str:
    return path.stem


def test_no_sample_is_forgotten() -> None:
    assert len(PROGRAMS) >= 11
    assert set(COMPILED) <= {path.stem for path in PROGRAMS}
    texts = [Path(__file__).with_name(name).read_text() for name in ("test_learning.py", "test_sequences.py")]
    loaded = set(re.findall(r'loaded\("(\w+)\.dfg"\)', "".join(texts)))
    assert loaded == LEARNING <= set(COMPILED)


@pytest.mark.parametrize("path", [p for p in PROGRAMS if p.stem in TESTS.keys() - LEARNING], ids=by_name)
def test_a_sample_compiles_without_a_remark_and_passes_its_tests(path: Path) -> None:
    assert passing_bundle(path)


@pytest.mark.parametrize("path", [p for p in PROGRAMS if p.stem in TOO_LARGE], ids=by_name)
def test_a_sample_for_many_machines_compiles_without_a_remark(path: Path) -> None:
    assert api.check(read_source(path), {}) == []
    assert api.compile_source(read_source(path), CompileOptions()).to_bytes()


@pytest.mark.parametrize("path", BEYOND, ids=by_name)
def test_a_sample_beyond_this_version_is_refused_at_the_right_lines(path: Path) -> None:
    found = api.check(read_source(path), {})
    assert {each.code for each in found} == {NOT_SUPPORTED_YET}
    for diagnostic in found:
        assert names_its_line(diagnostic), str(diagnostic)
    ended = process("check", path.name, folder=path.parent)
    assert ended.code == 3
    assert ended.err.count("error[E1001]") == len(found)


def names_its_line(diagnostic: Diagnostic) -> bool:
    """What is said to be missing stands in the marked line."""
    span = diagnostic.span
    for said, written in FEATURES.items():
        match = re.match(said + " not supported yet$", diagnostic.title)
        if match:
            names = [re.escape(name) for name in match.groups()]
            return re.search(written.format(*names), span.file.line_text(span.line)) is not None
    return False


def test_the_demonstration_learns_the_digits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = importlib.util.spec_from_file_location("demo", SAMPLES / "demo.py")
    assert spec is not None
    assert spec.loader is not None
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)
    monkeypatch.setattr(demo, "OUT", tmp_path)
    demo.main()
    told = capsys.readouterr().out
    share = re.search(r"held-out accuracy: ([\d.]+)% on 360 images", told)
    assert share is not None
    assert float(share[1]) >= 96
    assert re.search(r"-> digit \d with a chance of [\d.]+% \(it is a \d\)", told)
    model = demo.dfc.load(tmp_path / "digits.bundle")
    model.restore(tmp_path / "trained")
    check_picture(tmp_path / "confusion.png", confusion_of(model))


def confusion_of(model: object) -> np.ndarray:
    with np.load(SAMPLES / "data" / "digits.npz") as data:
        guesses = model.predict(images=data["test_images"]).digit  # type: ignore[attr-defined]
        counts = np.zeros((10, 10), np.int64)
        np.add.at(counts, (data["test_labels"], guesses), 1)
    return counts


def check_picture(path: Path, counts: np.ndarray) -> None:
    """Cells with mistakes are red, cells of right answers blue, all others white."""
    with Image.open(path) as opened:
        picture = opened.convert("RGB")
    side = 44
    for row, column in np.ndindex(10, 10):
        red, _, blue = picture.getpixel((60 + column * side + 3, 60 + row * side + 3))
        if counts[row, column] == 0:
            assert (red, blue) == (255, 255)
        else:
            assert (blue > red) if row == column else (red > blue)
