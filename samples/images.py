"""Draws JPEG files of circles, squares and triangles: `python samples/images.py FOLDER` makes FOLDER/KIND/NUMBER.jpg.

Needs the extra `images` (Pillow). The last circle is cut short: pipelines meet such files.
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

IMAGES, WIDTH, HEIGHT = 80, 120, 90
folder, dice = Path(sys.argv[1]), np.random.default_rng(7)

for kind, corners in (("circle", 60), ("square", 4), ("triangle", 3)):
    (folder / kind).mkdir(parents=True, exist_ok=True)
    for number in range(IMAGES):
        # Dark around, bright inside; of a size and at a place that differ a little.
        dark, bright = (tuple(dice.integers(low, low + 80, 3).tolist()) for low in (10, 170))
        image = Image.new("RGB", (WIDTH, HEIGHT), dark)
        x, y = dice.integers(-8, 9, 2).tolist()
        shape = (WIDTH // 2 + x, HEIGHT // 2 + y, int(dice.integers(22, 36)))
        ImageDraw.Draw(image).regular_polygon(shape, corners, fill=bright)
        image.save(folder / kind / f"{number}.jpg", quality=90)

last = folder / "circle" / f"{IMAGES - 1}.jpg"
last.write_bytes(last.read_bytes()[:600])
