"""Convolutions with channels last, transcribed from their definition: a loop over places and elements of windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Form:
    """How windows lie along each axis; `pads` are zeros before and behind."""

    steps: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    groups: int = 1

    def counts(self, image: Sequence[int], window: Sequence[int]) -> tuple[int, ...]:
        axes = zip(image, window, self.steps, self.dilations, self.pads, strict=True)
        return tuple((n + sum(pad) - (size - 1) * dilation - 1) // step + 1 for n, size, step, dilation, pad in axes)

    def touched(
        self, image: Sequence[int], window: Sequence[int]
    ) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
        """Position, element of the window, and the element of the image that lies there, if one does."""
        for position in np.ndindex(*self.counts(image, window)):
            for element in np.ndindex(*window):
                axes = zip(position, element, self.steps, self.dilations, self.pads, strict=True)
                at = tuple(p * step + e * dilation - pad[0] for p, e, step, dilation, pad in axes)
                if all(0 <= a < n for a, n in zip(at, image, strict=True)):
                    yield position, element, at

    def options(self) -> str:
        """The arguments of a `conv1d` or `conv2d`."""
        steps, dilations, pads = list(self.steps), list(self.dilations), [list(pad) for pad in self.pads]
        return f"stride = {steps}, dilation = {dilations}, pad = {pads}, groups = {self.groups}"


def forward(form: Form, x: Array, w: Array) -> Array:
    x, w = x.astype(np.float64), w.astype(np.float64)
    window, out = w.shape[:-2], w.shape[-1]
    y = np.zeros((x.shape[0], *form.counts(x.shape[1:-1], window), out))
    for position, element, at in form.touched(x.shape[1:-1], window):
        for c, k in groups(form, w):
            y[(slice(None), *position, k)] += x[(slice(None), *at, c)] @ w[(*element, slice(None), k)]
    return y


def by_data(form: Form, x: Array, w: Array, dy: Array) -> Array:
    w, dy, dx = w.astype(np.float64), dy.astype(np.float64), np.zeros(x.shape)
    for position, element, at in form.touched(x.shape[1:-1], w.shape[:-2]):
        for c, k in groups(form, w):
            dx[(slice(None), *at, c)] += dy[(slice(None), *position, k)] @ w[(*element, slice(None), k)].T
    return dx


def by_weights(form: Form, x: Array, w: Array, dy: Array) -> Array:
    x, dy, dw = x.astype(np.float64), dy.astype(np.float64), np.zeros(w.shape)
    for position, element, at in form.touched(x.shape[1:-1], w.shape[:-2]):
        for c, k in groups(form, w):
            dw[(*element, slice(None), k)] += x[(slice(None), *at, c)].T @ dy[(slice(None), *position, k)]
    return dw


def groups(form: Form, w: Array) -> Iterator[tuple[slice, slice]]:
    """Channels in and out of each group."""
    size_in, size_out = w.shape[-2], w.shape[-1] // form.groups
    for group in range(form.groups):
        yield slice(group * size_in, (group + 1) * size_in), slice(group * size_out, (group + 1) * size_out)
