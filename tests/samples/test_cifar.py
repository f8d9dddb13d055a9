"""The sample in five parts: it reads, changes, trains, saves and measures at once, and goes on where it was."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from dfc.driver import api
from dfc.ir.options import CompileOptions
from dfc.syntax.reader.reading import read_source
from tests.support.corpus import ROOT

STEPS = 2000 // 32 * 2 + 1  # two passes over the images that the sample makes up, without the rest of a batch


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With few channels and two passes."""
    source = read_source(ROOT / "samples" / "cifar.dfg")
    assert api.check(source, {}) == []
    path = tmp_path_factory.mktemp("cifar") / "cifar.bundle"
    path.write_bytes(api.compile_source(source, CompileOptions(settings={"WIDTH": 4, "PASSES": 2})).to_bytes())
    return path


def printed(bundle: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.setattr(sys, "argv", ["cifar.py", str(bundle), str(folder)])
    runpy.run_path(str(ROOT / "samples" / "cifar.py"), run_name="__main__")
    return capsys.readouterr().out


def test_it_saves_and_measures_while_it_trains_and_goes_on_where_it_was(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = printed(bundle, tmp_path, monkeypatch, capsys)
    steps = [int(each) for each in re.findall(r"^step (\d+): [\d.]+% of the test images$", first, re.M)]
    assert steps == [50, 100]
    assert re.search(rf"^{STEPS} steps, [\d.]+% of the test images, saved as step-2$", first, re.M)
    with np.load(tmp_path / "cifar.npz") as made:
        assert (made["images"].shape, made["images"].dtype) == ((2000, 32, 32, 3), np.uint8)
        assert set(made["labels"]) == set(range(10))
    # What was saved last is of step 100: the rest of the stream is left, and nothing of it comes twice.
    second = printed(bundle, tmp_path, monkeypatch, capsys)
    assert "goes on with step-2" in second
    assert f"{STEPS - 100} steps, " in second
