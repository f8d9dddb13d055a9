"""Trains `cifar.dfg`, and saves and measures it meanwhile: `python samples/cifar.py BUNDLE FOLDER`.

FOLDER gets `cifar.npz`, which is made up: coloured stripes in ten directions and widths, under noise, in the layout of
CIFAR-10 (`images`, bytes of 32 x 32 pixels in three colours, and `labels`); put the real one there, and that is read. A
second run with the same FOLDER goes on where the first one was saved.
"""

import sys
from pathlib import Path

import numpy as np

import dfc_runtime as dfc

TRAINING, TEST, SIDE, EVERY = 2_000, 200, 32, 50


def made_up(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images and their labels: the direction, the width and the colour of stripes say the class."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 10, count).astype(np.int32)
    y, x = np.mgrid[:SIDE, :SIDE]
    angle = labels * np.pi / 10 + random.normal(0, 0.06, count)
    along = np.cos(angle)[:, None, None] * x + np.sin(angle)[:, None, None] * y
    wave = np.sin(along * (0.5 + 0.05 * labels[:, None, None]) + random.uniform(0, 6, (count, 1, 1)))
    colour = 0.7 + 0.3 * np.cos(labels[:, None] + np.arange(3)) ** 2
    noise = random.normal(0, 60, (count, SIDE, SIDE, 3))
    images = 127 + 60 * wave[..., None] * colour[:, None, None, :] + noise
    return images.clip(0, 255).astype(np.uint8), labels


folder = Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
if not (folder / "cifar.npz").exists():
    images, labels = made_up(TRAINING, seed=1)
    np.savez(folder / "cifar.npz", images=images, labels=labels)
test_images, test_labels = made_up(TEST, seed=2)

model = dfc.load(sys.argv[1], data={"rows": str(folder / "cifar.npz")})
if (folder / "state").exists():
    print("goes on with", model.restore(folder / "state").name)
steps, measured, saving = 0, [], None
try:
    while True:
        step = model.train()
        steps += 1
        if steps % EVERY == 0:  # neither of the two holds the training up
            saving = model.save_async(folder / "state", best=step.loss)
            measured.append(model.evaluate.start(test_images, test_labels))
except dfc.EndOfData:
    pass
for number, each in enumerate(measured, 1):
    print(f"step {EVERY * number}: {each.result().accuracy:.1%} of the test images")
last = model.evaluate(test_images, test_labels)
saved = "nothing new to save" if saving is None else f"saved as {saving.result().name}"
print(f"{steps} steps, {last.accuracy:.1%} of the test images, {saved}")
model.close()
