"""The benchmark of files reads the records that were written, whatever their format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.data import records


def test_each_format_holds_the_same_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "FOLDER", tmp_path)
    records.write(tmp_path / "files", 512)
    written = sorted(
        (int(image.sum()), int(label))
        for _, images, labels in records.parts_of(512)
        for image, label in zip(images.astype(np.int64), labels, strict=True)
    )
    for kind in ("records", "arrays", "tables"):
        batches = list(records.with_dfc(kind, tmp_path / "files"))
        assert [images.shape for images, _ in batches] == [(128, 784)] * 4
        rows = [pair for images, labels in batches for pair in zip(images, labels, strict=True)]
        assert sorted((round(float(image.sum(dtype=np.float64) * 255)), int(label)) for image, label in rows) == written
