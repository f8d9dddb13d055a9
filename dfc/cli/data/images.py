"""Examples of folders of images: `FOLDER/CLASS/FILE` gives the bytes of the file, as they are, with its class.

Features are `image` (bytes), `label` (the number of the class in the order of the bytes of their names), `class` (that
name) and `file` (`CLASS/FILE`). Files whose name begins with a dot are none.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from dfc.cli.data.examples import Examples, unusable

ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pnm")


def from_images(paths: Sequence[str]) -> Examples:
    """Of folders, one behind the other; classes are those of all of them."""
    classes = sorted({each for path in paths for each in _folders(path)}, key=os.fsencode)
    for path in paths:
        for label, name in enumerate(classes):
            folder = os.path.join(path, name)
            for file in _names(folder) if os.path.isdir(folder) else ():
                with open(os.path.join(folder, file), "rb") as image:
                    yield {
                        "image": image.read(),
                        "label": np.array([label], np.int64),
                        "class": os.fsencode(name),
                        "file": os.fsencode(f"{name}/{file}"),
                    }


def classes_of(path: str) -> dict[str, list[str]]:
    """The images of each class of a folder."""
    return {name: _names(os.path.join(path, name)) for name in sorted(_folders(path), key=os.fsencode)}


def _folders(path: str) -> list[str]:
    """The names of the classes."""
    names = _names_in(path)
    for name in names:
        if not os.path.isdir(os.path.join(path, name)):
            raise unusable(os.path.join(path, name), "it lies beside the classes: images are in FOLDER/CLASS/FILE")
    if not names:
        raise unusable(path, "it holds no classes: images are in FOLDER/CLASS/FILE")
    return names


def _names(folder: str) -> list[str]:
    """The images of a class."""
    names = _names_in(folder)
    for name in names:
        path = os.path.join(folder, name)
        if not os.path.isfile(path) or os.path.splitext(name)[1].lower() not in ENDINGS:
            raise unusable(path, f"it is no image: a file that ends in {', '.join(ENDINGS)}")
    return names


def _names_in(folder: str) -> list[str]:
    return sorted((name for name in os.listdir(folder) if not name.startswith(".")), key=os.fsencode)
