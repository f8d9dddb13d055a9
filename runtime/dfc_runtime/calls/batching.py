"""Feeds cut into batches along one symbolic dim of an entry, and the results put together again.

Assumes the axes of each parameter and result are given as names of dims (None for an axis that is no plain dim).
Guarantees that every element is used exactly once an epoch, in order; the last batch may be shorter, or is left out if
that is wanted. Slices are views.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.errors import FeedError

Array = NDArray[np.generic]
Axes = Sequence[str | None]
LAST = ("run", "drop", "pad")
"""What becomes of a last batch that is shorter than the others."""


@dataclass(frozen=True, slots=True)
class Batching:
    """How the feeds of one entry are cut: along which axis of which parameter, and how many elements there are. `drops`
    says that a last batch which is shorter than the others is left out."""

    dim: str
    axes: Mapping[str, int]
    total: int
    drops: bool = False

    def split(self, feeds: Mapping[str, object], size: int) -> Iterator[dict[str, object]]:
        """The feeds of each call; a feed without the dim is passed as it is."""
        for first in range(0, self.batches(size) * size, size):
            yield {
                name: _slice(value, self.axes[name], first, size) if name in self.axes else value
                for name, value in feeds.items()
            }

    def size_of(self, batch: Mapping[str, object]) -> int:
        """How many elements one of the calls has."""
        name, axis = next(iter(self.axes.items()))
        return cast(Array, batch[name]).shape[axis]

    def batches(self, size: int) -> int:
        """How many calls an epoch has."""
        return self.total // size if self.drops else -(-self.total // size)

    def short(self, size: int) -> int:
        """How many elements the last batch has if it is shorter than the others, and is not left out; else 0."""
        return 0 if self.drops else self.total % size


def plan_batches(
    entry: str, parameters: Mapping[str, Axes], feeds: Mapping[str, object], *, drops: bool = False
) -> Batching:
    """Chooses the dim: the first one that stands on the first axis of a parameter, else on any axis.

    Raises `FeedError` if there is none, or if the feeds disagree on its size.
    """
    dim = _batch_dim(parameters)
    if dim is None:
        raise FeedError(
            f"`{entry}` has no feed with a symbolic size, so there is nothing to cut into batches", code="E0901"
        )
    axes = {name: axes.index(dim) for name, axes in parameters.items() if dim in axes and name in feeds}
    sizes = {name: _extent(entry, name, feeds[name], axis) for name, axis in axes.items()}
    if not sizes:
        raise FeedError(
            f"no feed of `{entry}` has the size `{dim}`, so there is nothing to cut into batches", code="E0901"
        )
    if len(set(sizes.values())) > 1:
        listing = ", ".join(f"{size} in {name}" for name, size in sizes.items())
        raise FeedError(f"the feeds of `{entry}` disagree on `{dim}`: {listing}", code="E0901")
    return Batching(dim, axes, next(iter(sizes.values())), drops)


def _batch_dim(parameters: Mapping[str, Axes]) -> str | None:
    for axes in parameters.values():
        if axes and axes[0] is not None:
            return axes[0]
    return next((dim for axes in parameters.values() for dim in axes if dim is not None), None)


def _extent(entry: str, name: str, value: object, axis: int) -> int:
    array = cast(Array, value)
    if not isinstance(value, np.ndarray) or array.ndim <= axis:
        raise FeedError(f"the feed `{name}` of `{entry}` is no array with an axis {axis}", code="E0901")
    return array.shape[axis]


def _slice(value: object, axis: int, first: int, size: int) -> object:
    return cast(Array, value)[(slice(None),) * axis + (slice(first, first + size),)]


class Gathered:
    """Results of many calls: those with the dim are concatenated along it, the others stacked."""

    def __init__(self, dim: str | None, results: Mapping[str, Axes]) -> None:
        self._axes = {
            name: list(axes).index(dim) if dim is not None and dim in axes else None for name, axes in results.items()
        }
        self._parts: dict[str, list[Array]] = {name: [] for name in results}

    def add(self, results: Mapping[str, object]) -> None:
        for name, value in results.items():
            self._parts[name].append(np.asarray(value))

    def arrays(self) -> dict[str, Array]:
        """One array a result."""
        return {name: _join(parts, self._axes[name]) for name, parts in self._parts.items() if parts}


class Epoch:
    """What is known of all batches of an epoch so far, put together from single numbers.

    `over` names the way of each result (mean, sum, max, min); means are weighted by the sizes of the batches."""

    def __init__(self, over: Mapping[str, str]) -> None:
        self.over = over
        self.examples = 0
        self._totals: dict[str, float] = {}

    def add(self, results: Mapping[str, object], size: int) -> None:
        """One batch of so many examples."""
        for name, how in self.over.items():
            value = cast(float, np.asarray(results[name]).item())  # or a whole number, which stays one
            part = float(value) * size if how == "mean" else value
            before = self._totals.get(name)
            self._totals[name] = part if before is None else _together(how, before, part)
        self.examples += size

    def values(self) -> dict[str, float]:
        """The results over all of them."""
        return {
            name: total / self.examples if self.over[name] == "mean" else total
            for name, total in self._totals.items()
            if self.examples
        }


def _together(how: str, a: float, b: float) -> float:
    """NaN of either stays."""
    if how in ("max", "min"):
        return (np.maximum if how == "max" else np.minimum)(a, b).item()
    return a + b


def _join(parts: list[Array], axis: int | None) -> Array:
    return np.stack(parts) if axis is None else np.concatenate(parts, axis=axis)
