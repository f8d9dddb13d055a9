"""Guesses attributes of ops for random graphs: for each kind of attributes something that often fits the operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from dfc.ir.attributes import Attributes, NoAttributes
from dfc.ir.dims import ONE, Dim, dim
from dfc.ir.dtypes import I32, DType
from dfc.ir.graph import Value
from dfc.ir.types import TensorType
from dfc.ops import attributes as a


class Guesser:
    """`sizes` are the sizes of the graph, the symbolic one first; `none` allows slices of no elements."""

    def __init__(
        self,
        random: Random,
        sizes: Sequence[Dim],
        dtype: Callable[[], DType],
        type_: Callable[[], TensorType],
        none: bool,
    ) -> None:
        self.random = random
        self.sizes = sizes
        self.dtype = dtype
        self.type = type_
        self.none = none

    def attributes(self, cls: type[Attributes], operands: Sequence[Value]) -> Attributes | None:
        """A guess that often fits; None if there can be none."""
        random = self.random
        shape = operands[0].tensor.shape if operands else ()
        rank = len(shape)
        axis = random.randrange(rank) if rank else 0
        axes = tuple(sorted(random.sample(range(rank), random.randint(0, rank))))
        makers: dict[type[Attributes], Callable[[], Attributes | None]] = {
            NoAttributes: NoAttributes,
            a.AxisAttributes: lambda: a.AxisAttributes(axis) if self._filled(shape, axis) else None,
            a.AxesAttributes: lambda: a.AxesAttributes(axes),
            a.ReduceAttributes: lambda: a.ReduceAttributes(axes, random.random() < 0.4),
            a.ArgAttributes: lambda: a.ArgAttributes(axis, I32) if self._filled(shape, axis) else None,
            a.PermutationAttributes: lambda: a.PermutationAttributes(tuple(random.sample(range(rank), rank))),
            a.CastAttributes: lambda: a.CastAttributes(self.dtype()),
            a.ShapeAttributes: lambda: a.ShapeAttributes(self._new_shape(shape)),
            a.SliceAttributes: lambda: self._slice(shape),
            a.PadAttributes: lambda: self._padding(rank),
            a.DimAttributes: lambda: a.DimAttributes(self.sizes[0] * random.randint(1, 3) + random.randint(0, 2)),
            a.TypeAttributes: lambda: a.TypeAttributes(self.type()),
        }
        maker = makers.get(cls)
        return None if maker is None else maker()

    def _filled(self, shape: Sequence[Dim], axis: int) -> bool:
        """Whether an axis has elements for sure (there is no largest of none)."""
        return bool(shape) and (shape[axis].constant or 0) > 0

    def _new_shape(self, shape: Sequence[Dim]) -> tuple[Dim, ...]:
        choice = self.random.randrange(5)
        if choice == 0:
            total = ONE
            for d in shape:
                total = total * d
            return (total,)
        if choice == 1:
            axis = self.random.randint(0, len(shape))
            return (*shape[:axis], ONE, *shape[axis:])
        if choice == 2 and len(shape) >= 2:
            return (*shape[:-2], shape[-2] * shape[-1])
        if choice == 3:
            return (self.random.choice(self.sizes), *shape)
        return tuple(self.random.choice(self.sizes) if d == ONE else d for d in shape)

    def _slice(self, shape: Sequence[Dim]) -> Attributes:
        starts: list[Dim] = []
        sizes: list[Dim] = []
        steps: list[int] = []
        for d in shape:
            size = d.constant
            if size is None or self.random.random() < 0.4:
                starts.append(dim(0))
                sizes.append(d)
                steps.append(1)
                continue
            none = self.random.random() < 0.1 and self.none
            count = self.random.randint(0 if none else min(1, size), size)
            step = self.random.choice([1, 1, 2, -1]) if count else 1
            count = max(1, (count + abs(step) - 1) // abs(step)) if count else 0
            reach = (count - 1) * abs(step) if count else 0
            first = self.random.randint(0, max(0, size - 1 - reach)) if count else 0
            starts.append(dim(first + reach if step < 0 else first))
            sizes.append(dim(count))
            steps.append(step)
        return a.SliceAttributes(tuple(starts), tuple(sizes), tuple(steps))

    def _padding(self, rank: int) -> Attributes:
        low, high = (tuple(dim(self.random.randint(0, 2)) for _ in range(rank)) for _ in range(2))
        return a.PadAttributes(low, high, tuple(self.random.choice([0, 0, 1]) for _ in range(rank)))
