"""`samples/language/02_convnet_batchnorm.dfg` in NumPy, in any precision: forward, backward, momentum, statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

RATE, FRICTION = 0.05, 0.9
MOMENTUM, EPSILON = 0.99, 1e-3
PARAMETERS = (
    *(f"conv{k}.{name}" for k in (1, 2) for name in ("kernel", "b")),
    *(f"norm{k}.{name}" for k in (1, 2, 3) for name in ("scale", "shift")),
    *(f"dense{k}.{name}" for k in (1, 2) for name in ("w", "b")),
)
STATISTICS = tuple(f"norm{k}.{name}" for k in (1, 2, 3) for name in ("running_mean", "running_variance"))
Arrays = dict[str, np.ndarray]


def windows(x: np.ndarray, size: int) -> np.ndarray:
    """[batch, height, width, size, size, channel]: the surroundings of every pixel, zeros outside."""
    half = size // 2
    padded = np.pad(x, ((0, 0), (half, half), (half, half), (0, 0)))
    views = np.lib.stride_tricks.sliding_window_view(padded, (size, size), axis=(1, 2))
    return np.moveaxis(views, 3, -1)


@dataclass
class ConvNet:
    """The variables, and what the backward pass needs of the last forward pass."""

    values: Arrays
    moves: Arrays = field(default_factory=dict)
    kept: Arrays = field(default_factory=dict)

    @classmethod
    def of(cls, state: Mapping[str, np.ndarray], dtype: type) -> ConvNet:
        values = {name: np.array(state[f"net.{name}"], dtype) for name in (*PARAMETERS, *STATISTICS)}
        return cls(values, {name: np.zeros_like(values[name]) for name in PARAMETERS})

    # ------------------------------------------------------------- forward --

    def logits(self, images: np.ndarray, training: bool = False) -> np.ndarray:
        v = self.values
        x = images.astype(v["dense1.w"].dtype)
        for k in (1, 2):
            self.kept[f"into conv{k}"] = x
            x = np.einsum("bhwijc,ijco->bhwo", windows(x, 5), v[f"conv{k}.kernel"]) + v[f"conv{k}.b"]
            x = self.kept[f"norm{k}"] = self.normalised(x, k, training)
            x = self.pooled(np.maximum(x, 0), k)
        self.kept["into dense1"] = x = x.reshape(len(x), -1)
        x = self.kept["norm3"] = self.normalised(x @ v["dense1.w"] + v["dense1.b"], 3, training)
        self.kept["into dense2"] = x = np.maximum(x, 0)
        return x @ v["dense2.w"] + v["dense2.b"]

    def normalised(self, x: np.ndarray, k: int, training: bool) -> np.ndarray:
        v, axes = self.values, tuple(range(x.ndim - 1))
        used_mean, used_variance = v[f"norm{k}.running_mean"], v[f"norm{k}.running_variance"]
        if training:
            mean = x.mean(axes)
            variance = np.square(x - mean).mean(axes)
            v[f"norm{k}.running_mean"] = used_mean + (1 - MOMENTUM) * (mean - used_mean)
            v[f"norm{k}.running_variance"] = used_variance + (1 - MOMENTUM) * (variance - used_variance)
            used_mean, used_variance = mean, variance
        factor = self.kept[f"factor{k}"] = 1 / np.sqrt(used_variance + np.asarray(EPSILON, used_variance.dtype))
        unit = self.kept[f"unit{k}"] = (x - used_mean) * factor
        return unit * v[f"norm{k}.scale"] + v[f"norm{k}.shift"]

    def pooled(self, x: np.ndarray, k: int) -> np.ndarray:
        """The largest of each square of four; which one it was is kept."""
        batch, height, width, channels = x.shape
        squares = x.reshape(batch, height // 2, 2, width // 2, 2, channels).transpose(0, 1, 3, 5, 2, 4)
        squares = squares.reshape(batch, height // 2, width // 2, channels, 4)
        self.kept[f"largest{k}"] = squares.argmax(-1)
        return squares.max(-1)

    # ------------------------------------------------------------ training --

    def train(self, images: np.ndarray, labels: np.ndarray) -> float:
        """One step; the loss before it."""
        logits = self.logits(images, training=True)
        shifted = logits - logits.max(1, keepdims=True)
        chances = np.exp(shifted) / np.exp(shifted).sum(1, keepdims=True)
        rows = np.arange(len(labels))
        loss = float(np.mean(np.log(np.exp(shifted).sum(1)) - shifted[rows, labels]))
        for name, gradient in self.gradients((chances - np.eye(10, dtype=chances.dtype)[labels]) / len(labels)).items():
            self.moves[name] = FRICTION * self.moves[name] + gradient
            self.values[name] = self.values[name] - RATE * self.moves[name]
        return loss

    def gradients(self, d: np.ndarray) -> Arrays:
        v, kept, gradients = self.values, self.kept, Arrays()
        d = self.dense_gradients(2, d, gradients) * (kept["norm3"] > 0)
        d = self.dense_gradients(1, self.norm_gradients(3, d, gradients), gradients).reshape(len(d), 7, 7, 64)
        for k in (2, 1):
            d = self.unpooled(d, k) * (kept[f"norm{k}"] > 0)
            d = self.norm_gradients(k, d, gradients)
            around = windows(kept[f"into conv{k}"], 5)
            gradients[f"conv{k}.kernel"] = np.einsum("bhwijc,bhwo->ijco", around, d)
            gradients[f"conv{k}.b"] = d.sum((0, 1, 2))
            d = np.einsum("bhwijo,ijco->bhwc", windows(d, 5), v[f"conv{k}.kernel"][::-1, ::-1])
        return gradients

    def dense_gradients(self, k: int, d: np.ndarray, gradients: Arrays) -> np.ndarray:
        gradients[f"dense{k}.w"] = self.kept[f"into dense{k}"].T @ d
        gradients[f"dense{k}.b"] = d.sum(0)
        return d @ self.values[f"dense{k}.w"].T

    def norm_gradients(self, k: int, d: np.ndarray, gradients: Arrays) -> np.ndarray:
        """Through the statistics of the batch too."""
        axes, unit = tuple(range(d.ndim - 1)), self.kept[f"unit{k}"]
        gradients[f"norm{k}.scale"], gradients[f"norm{k}.shift"] = (d * unit).sum(axes), d.sum(axes)
        d = d * self.values[f"norm{k}.scale"]
        return (d - d.mean(axes) - unit * (d * unit).mean(axes)) * self.kept[f"factor{k}"]

    def unpooled(self, d: np.ndarray, k: int) -> np.ndarray:
        batch, height, width, channels = d.shape
        squares = np.zeros((*d.shape, 4), d.dtype)
        np.put_along_axis(squares, self.kept[f"largest{k}"][..., None], d[..., None], axis=-1)
        squares = squares.reshape(batch, height, width, channels, 2, 2).transpose(0, 1, 4, 2, 5, 3)
        return squares.reshape(batch, 2 * height, 2 * width, channels)
