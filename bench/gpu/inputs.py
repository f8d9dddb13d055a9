"""The data of each case of the benchmark on GPUs, the same for every library (seeded)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
BATCH, PIXELS, HIDDEN, CLASSES = 100, 784, 100, 10
ROWS, COLUMNS = 4096, 1024
ELEMENTS = 16 * 1024 * 1024
PRODUCT = 1024


def normal(*shape: int, scale: float = 1.0, seed: int = 0) -> F32:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def digits() -> tuple[F32, NDArray[np.int32]]:
    """A batch of random images and labels."""
    return normal(BATCH, PIXELS), np.random.default_rng(1).integers(0, CLASSES, BATCH).astype(np.int32)


def weights() -> tuple[F32, F32, F32, F32]:
    """w1, b1, w2, b2 of the 784-100-10 perceptron."""
    return (
        normal(PIXELS, HIDDEN, scale=0.05, seed=2),
        np.zeros(HIDDEN, np.float32),
        normal(HIDDEN, CLASSES, scale=0.1, seed=3),
        np.zeros(CLASSES, np.float32),
    )
