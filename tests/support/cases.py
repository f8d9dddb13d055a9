"""A graph together with what to call it with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dfc.ir.dims import Symbol
from dfc.ir.graph import Graph, ResourceKind
from dfc.ir.types import TensorType
from dfc.ops.creation.philox import initial_state

N = Symbol("N")


@dataclass(frozen=True)
class Case:
    """A graph and what to call it with. `size` is the value of N."""

    graph: Graph
    seed: int
    size: int

    def feeds(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(self.seed)
        entry = self.graph.entries["e"]
        values = zip(entry.parameter_names, entry.block.parameters, strict=False)
        return {name: array_of(value.tensor, self.size, rng) for name, value in values}

    def state(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(self.seed + 1)
        return {
            name: initial_state(self.seed, name)
            if resource.kind is ResourceKind.RNG
            else array_of(resource.type, self.size, rng)
            for name, resource in self.graph.resources.items()
        }


def array_of(type_: TensorType, size: int, rng: np.random.Generator) -> np.ndarray:
    shape = tuple(d.evaluate({N: size}) for d in type_.shape)
    dtype = type_.machine
    if dtype.is_bool:
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.is_integer:
        return np.asarray(rng.integers(-4, 5, shape)).astype(dtype.numpy)
    return np.asarray(rng.normal(size=shape)).astype(dtype.numpy)
