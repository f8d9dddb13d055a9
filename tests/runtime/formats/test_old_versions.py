"""One bundle for each version of the format that was ever released: it runs, or is refused by its version."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dfc_runtime
from dfc_runtime.errors import BundleError
from dfc_runtime.formats.manifest import FORMAT
from dfc_runtime.formats.source import FileSource
from dfc_runtime.formats.tensors import read_header

BUNDLES = sorted((Path(__file__).parent / "released").glob("format-*.safetensors"))


def test_every_format_has_its_bundle() -> None:
    assert [path.stem for path in BUNDLES] == [f"format-{number}" for number in range(1, FORMAT + 1)]


@pytest.mark.parametrize("path", BUNDLES, ids=lambda path: path.stem)
def test_a_released_bundle_runs_or_is_refused_by_its_version(path: Path) -> None:
    source = FileSource(path)
    assert read_header(source).metadata["format"] == "dfc.bundle"
    source.close()
    try:
        model = dfc_runtime.load(path)
    except BundleError as refusal:
        assert any(words in refusal.message for words in ("its format is", "another version", "this processor lacks"))
        return
    assert model.add(1.5, 2) == 3.5
    x = np.arange(5, dtype="f4")
    total, scaled = model.collect(x)
    assert total == 10
    np.testing.assert_array_equal(scaled, 2 * x)
