"""The chain that is timed crops, flips and normalises: of images that need no crop, the whole image comes out."""

from __future__ import annotations

import numpy as np

from bench.data import augmentations
from dfc.driver import api
from dfc.ops.evaluate import evaluate


def test_whole_images_come_out_turned_or_not() -> None:
    images = augmentations.images()[:3, : augmentations.SIZE, : augmentations.SIZE]
    program = api.graph(api.read(augmentations.PROGRAM), {})
    made = np.asarray(evaluate(program, "crop", {"images": images, "first": np.array(5)}, {}).result)
    expected = (images / 255 - augmentations.MEAN) / augmentations.DEVIATION
    turned = [not np.allclose(one, image, atol=1e-5) for one, image in zip(made, expected, strict=True)]
    assert {True, False} == set(turned)
    for one, image, is_turned in zip(made, expected, turned, strict=True):
        np.testing.assert_allclose(one, image[:, ::-1] if is_turned else image, atol=1e-5)
