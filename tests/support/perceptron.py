"""A two-layer perceptron written out in NumPy, in any precision: the sums and gradients of a training step by hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]


@dataclass
class Perceptron:
    """Weights and biases of both layers; all arithmetic is in their element type."""

    w1: Floats
    b1: Floats
    w2: Floats
    b2: Floats

    @classmethod
    def of(cls, tensors: tuple[Floats, Floats, Floats, Floats], kind: type[np.floating]) -> Perceptron:
        """A copy of these weights and biases in the element type `kind`."""
        return cls(*(np.array(each, kind) for each in tensors))

    def scores(self, images: Floats) -> tuple[Floats, Floats]:
        """The hidden layer, and one score for each class."""
        hidden = np.maximum(images.astype(self.w1.dtype) @ self.w1 + self.b1, 0)
        return hidden, hidden @ self.w2 + self.b2

    def chances(self, images: Floats) -> Floats:
        return softmax(self.scores(images)[1])

    def train(self, images: Floats, labels: NDArray[np.int32], rate: float) -> tuple[float, float]:
        """One step of gradient descent; gives the loss and the share of hits before it."""
        kind = self.w1.dtype.type
        hidden, logits = self.scores(images)
        rows = np.arange(len(labels))
        chances = softmax(logits)
        top = logits.max(axis=1)
        losses = np.log(np.exp(logits - top[:, None]).sum(axis=1)) + top - logits[rows, labels]
        gradient = chances.copy()
        gradient[rows, labels] -= kind(1)
        gradient /= kind(len(labels))
        inner = (gradient @ self.w2.T) * (hidden > 0)
        step = kind(rate)
        self.w2 -= step * (hidden.T @ gradient)
        self.b2 -= step * gradient.sum(axis=0)
        self.w1 -= step * (images.astype(kind).T @ inner)
        self.b1 -= step * inner.sum(axis=0)
        return float(losses.mean()), float((logits.argmax(axis=1) == labels).mean())

    def tensors(self) -> tuple[Floats, Floats, Floats, Floats]:
        return self.w1, self.b1, self.w2, self.b2


def softmax(logits: Floats) -> Floats:
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


def assert_within_rounding(actual: Floats, exact: Floats, rounded: Floats) -> None:
    """As far from the result in double precision as one in single precision may be: 8 times the distance of another one
    that was computed in single precision, and 4 units in the last place of the largest element."""
    distance = np.abs(np.asarray(exact, np.float64) - np.asarray(rounded, np.float64)).max(initial=0)
    spacing = np.spacing(np.abs(np.asarray(exact)).max(initial=0).astype(np.float32))
    difference = np.abs(np.asarray(actual, np.float64) - np.asarray(exact, np.float64)).max(initial=0)
    assert difference <= 8 * distance + 4 * float(spacing), (difference, distance)
