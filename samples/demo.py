"""The demonstration behind `make demo`: compile, train, evaluate and call the digits model.

Needs the extra `demo` (Pillow) for the picture. Writes below `build/demo`.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

import dfc

HERE = Path(__file__).resolve().parent
OUT = HERE.parent / "build" / "demo"
BATCH, EPOCHS, RATE = 32, 30, 0.8
CELL, MARGIN = 44, 60


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    path = compile_model()
    model = dfc.load(path)
    data = np.load(HERE / "data" / "digits.npz")
    train(model, data["train_images"], data["train_labels"])
    result = model.evaluate(images=data["test_images"], labels=data["test_labels"])
    print(f"held-out accuracy: {result.accuracy:.2%} on {len(data['test_labels'])} images it has never seen")
    guesses = model.predict(images=data["test_images"]).digit
    picture = draw_confusion(confusion(data["test_labels"], guesses))
    picture.save(OUT / "confusion.png")
    model.save(OUT / "trained")
    print(f"confusion matrix:  {shown(OUT / 'confusion.png')}")
    print(f"trained state:     {shown(OUT / 'trained')}")
    show_python_use(data["test_images"], data["test_labels"])


def compile_model() -> Path:
    """Compiles the sample and says what it took."""
    start = time.perf_counter()
    path = OUT / "digits.bundle"
    dfc.compile(HERE / "digits.dfg").save(path)
    seconds = time.perf_counter() - start
    print(f"compiled:          {shown(path)}, {path.stat().st_size / 1024:.0f} KB in {seconds:.2f} s")
    return path


def train(model: dfc.Module, images: NDArray[np.float32], labels: NDArray[np.int32]) -> None:
    """Goes through the training images in batches, the last one shorter."""
    start = time.perf_counter()
    for epoch in range(EPOCHS):
        for first in range(0, len(images), BATCH):
            batch = slice(first, first + BATCH)
            step = model.train(images=images[batch], labels=labels[batch], rate=RATE)
        if (epoch + 1) % 10 == 0:
            print(f"epoch {epoch + 1:2}:          loss {step.loss:.4f}")
    count = int(model.state["steps"])
    micro = (time.perf_counter() - start) / count * 1e6
    print(f"trained:           {count} steps of {BATCH} images, {micro:.0f} us each")


def confusion(labels: NDArray[np.int32], guesses: NDArray[np.int32]) -> NDArray[np.int64]:
    """How often each digit (row) was taken for each digit (column)."""
    counts = np.zeros((10, 10), np.int64)
    np.add.at(counts, (labels, guesses), 1)
    return counts


def draw_confusion(counts: NDArray[np.int64]) -> Image.Image:
    """The confusion matrix as a picture: right answers blue, mistakes red, both darker the more there are."""
    side = MARGIN + 10 * CELL + 20
    picture = Image.new("RGB", (side, side), "white")
    canvas = ImageDraw.Draw(picture)
    canvas.text((MARGIN + 5 * CELL, 14), "answer of the model", fill="black", anchor="mm")
    canvas.text((6, MARGIN - 14), "true digit", fill="black", anchor="lm")
    for row, column in np.ndindex(10, 10):
        draw_cell(canvas, row, column, int(counts[row, column]), int(counts[row].sum()))
    for digit in range(10):
        middle = MARGIN + digit * CELL + CELL // 2
        canvas.text((middle, MARGIN - 14), str(digit), fill="black", anchor="mm")
        canvas.text((MARGIN - 14, middle), str(digit), fill="black", anchor="mm")
    return picture


def draw_cell(canvas: ImageDraw.ImageDraw, row: int, column: int, count: int, total: int) -> None:
    """One cell: its colour says how large a share of the row it is."""
    left, top = MARGIN + column * CELL, MARGIN + row * CELL
    share = count / max(total, 1)
    strength = int(255 * (1 - (share if row == column else min(1.0, 5 * share))))
    colour = (strength, strength, 255) if row == column else (255, strength, strength)
    canvas.rectangle((left, top, left + CELL, top + CELL), fill=colour, outline=(200, 200, 200))
    if count:
        ink = "white" if strength < 128 else "black"
        canvas.text((left + CELL // 2, top + CELL // 2), str(count), fill=ink, anchor="mm")


def show_python_use(images: NDArray[np.float32], labels: NDArray[np.int32]) -> None:
    """Prints how to use the model from Python, and does what it prints."""
    print("\nFrom Python:\n")
    print("    import dfc")
    print(f'    model = dfc.load("{shown(OUT / "digits.bundle")}")')
    print(f'    model.restore("{shown(OUT / "trained")}")')
    print("    digit, chance = model.predict(images=images[:1])")
    model = dfc.load(OUT / "digits.bundle")
    model.restore(OUT / "trained")
    digit, chance = model.predict(images=images[:1])
    print(f"\n    -> digit {digit[0]} with a chance of {chance[0]:.1%} (it is a {labels[0]})")


def shown(path: Path) -> str:
    """A path as a user would type it."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


if __name__ == "__main__":
    main()
