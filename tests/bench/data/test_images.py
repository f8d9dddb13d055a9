"""The benchmark of images decodes all files that were written, to what Pillow makes of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.data import images


def test_the_pipeline_gives_each_image_as_the_peers_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "FOLDER", tmp_path)
    images.write(tmp_path / "files", images.BATCH)
    ((pixels, labels),) = images.with_dfc(tmp_path / "files")
    got = {(int(label), image.tobytes()) for image, label in zip(pixels, labels, strict=True)}
    paths = (tmp_path / "files").glob("*.jpg")
    assert got == {(int(p.stem.split("-")[1]), images.pillow_pixels(p.read_bytes()).tobytes()) for p in paths}
    assert len(got) == images.BATCH and np.asarray(pixels).dtype == np.uint8
