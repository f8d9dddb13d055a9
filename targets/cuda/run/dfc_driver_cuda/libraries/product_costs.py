"""What a product costs by its own kernel and by a library, to say which is better: a model, not a clock.

A kernel of the program makes a product and all that follows in one pass. A library makes the product alone: the rest
is then a kernel of its own, which reads the sums that the library wrote. So the library has to save more time than

    2 * rows * columns * batch * bytes of a sum / COPY        the sums are written and read once more
    LAUNCH                                                    for each launch more

where a product takes the larger of 2 * rows * columns * depth * batch / rate and the bytes of its matrices / COPY.

The rates are those of one H200, as far as its data sheet and the reach of such kernels tell: nothing here was measured
by this project, and others differ less in what is decided than in how long it takes. The same numbers everywhere make
the same choice for the same shapes, on each device and while compiling. Needs nothing but the standard library.
"""

from __future__ import annotations

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.formats.element_types import SIZES

COPY = 4.0e12
"""Bytes a second, read and written together."""

LAUNCH = 2.5e-6
"""Seconds that one more node of a graph takes."""

SHARE = 16
"""The part of a device's memory, one by this number, that sums may take which are made apart from what follows."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Operations a second, of a kernel of the program and of the library; a product and a sum are two."""

    kernel: float
    library: float


RATES = {
    "f16": Rate(200e12, 650e12),
    "bf16": Rate(200e12, 650e12),
    "tf32": Rate(120e12, 380e12),
    "f32": Rate(25e12, 50e12),
    "f64": Rate(20e12, 55e12),
}
"""By the type of the factors; tf32: f32 that may be rounded to 11 bits."""


@dataclass(frozen=True, slots=True)
class Work:
    """`batch` products of `rows` x `depth` by `depth` x `columns`; `factor` and `result` are the types of factors and
    of what a library writes, `is_rounding`: factors of f32 may be rounded to 11 bits."""

    rows: int
    columns: int
    depth: int
    batch: int
    factor: str
    result: str
    is_rounding: bool = False

    @property
    def sums_bytes(self) -> int:
        return self.rows * self.columns * self.batch * SIZES[self.result]


def saved(work: Work, launches: int, *, apart: bool) -> float:
    """Seconds that the library saves with so many launches more; `apart`: what follows is a kernel of its own."""
    rate = RATES["tf32" if work.is_rounding and work.factor == "f32" else work.factor]
    results = work.rows * work.columns * work.batch
    read = (work.rows + work.columns) * work.depth * work.batch * SIZES[work.factor]
    moved = (read + work.sums_bytes) / COPY
    operations = 2 * results * work.depth
    by_kernel, by_library = (max(operations / one, moved) for one in (rate.kernel, rate.library))
    again = 2 * work.sums_bytes / COPY if apart else 0.0
    return by_kernel - by_library - again - launches * LAUNCH


def pays(work: Work, launches: int, *, apart: bool) -> bool:
    """Whether the library is the better one."""
    return saved(work, launches, apart=apart) > 0
