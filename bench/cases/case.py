"""What a case is: sizes, data that every system is given, targets, and how much work a call is.

Assumes nothing but NumPy: workers of every environment import this. Guarantees that the data depend on the case alone,
and each array on its own name besides, so that every process makes the same ones in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]
F32 = NDArray[np.float32]
Sizes = Mapping[str, int]
SEED = 20_261


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be reached. `ratio`: time of the best peer over that of dfc; `share`: of the measured limit;
    `compile_seconds`: on one idle core."""

    ratio: float | None = None
    share: float | None = None
    compile_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Data:
    """What a call is fed, in the order of the entry's parameters, and what the model's state is before the first call,
    by the names that dfc's program gives it."""

    feeds: Mapping[str, Array]
    state: Mapping[str, Array] = field(default_factory=dict[str, Array])

    @property
    def zeros(self) -> list[str]:
        """State that is zero before the first call: after a step it is the step itself, to full precision. Shifts of
        norms are left out: going back through many norms and positive parts amplifies rounding, in the gradients of
        first layers by a hundred thousand, so that they prove nothing."""
        zeros = (name for name, value in self.state.items() if value.ndim == 1 and not value.any())
        return [name for name in zeros if not name.endswith(".shift")]


@dataclass(frozen=True, slots=True)
class Work:
    """What a call does at least: floating-point operations, or bytes read and written (each array once)."""

    flops: float = 0
    bytes: float = 0


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the table.

    `kind` names the function of a system that prepares it. `program`, seen from `bench/programs`, and `entry` are
    dfc's, `settings` what the program is compiled with. `small` are sizes for tests and trials. `tolerance` bounds the
    difference of any two systems' results, relative to the largest element of each array.
    """

    name: str
    kind: str
    program: str
    entry: str
    sizes: Sizes
    small: Sizes
    data: Callable[[Sizes], Data]
    work: Callable[[Sizes], Work] = lambda sizes: Work()
    limit: Literal["fma", "copy", None] = None
    target: Target = Target()
    tolerance: float = 1e-4
    settings: Callable[[Sizes], Mapping[str, float]] = lambda sizes: {}
    group: str = ""

    def at(self, is_small: bool) -> Sizes:
        """The sizes of a run."""
        return {**self.sizes, **self.small} if is_small else self.sizes


def normal(name: str, *shape: int, scale: float = 1.0) -> F32:
    """Normally distributed numbers that depend on the name alone."""
    generator = np.random.default_rng([SEED, crc32(name.encode())])
    values = generator.standard_normal(shape, dtype=np.float32)
    return values if scale == 1.0 else values * np.float32(scale)


def integers(name: str, below: int, *shape: int) -> NDArray[np.int32]:
    """Whole numbers from 0 up to below a bound."""
    return np.random.default_rng([SEED, crc32(name.encode())]).integers(0, below, shape).astype(np.int32)


def zeros(*shape: int) -> F32:
    return np.zeros(shape, np.float32)


def ones(*shape: int) -> F32:
    return np.ones(shape, np.float32)
