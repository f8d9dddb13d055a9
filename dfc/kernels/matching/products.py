"""Products that a library of matrix products can make as well, described as data.

Pure analysis of contractions. Guarantees that what is described is exactly what the kernel means, up to the order of
the sums: an epilogue that rounds in between, or a layout that is no matrix with a leading dimension, is not described
as the library's. The terms are those of cuBLAS: matrices by columns, result = op(first) op(second) for each number of
the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ONE, ZERO, Dim, product
from dfc.kernels.access import Access, linear_access
from dfc.kernels.form import ContractKernel
from dfc.kernels.matching.epilogues import Ending, Unfit, find_ending
from dfc.kernels.operand_maps import operand_map

FACTORS = {"f32": ("f32", "f16", "bf16"), "f64": ("f64",)}
"""Types of factors by the type of the sums."""

MOST_LEVELS = 2
"""Axes of a batch that do not lie evenly in each other: the library has one, calls follow each other for the second."""


@dataclass(frozen=True, slots=True)
class LibraryMatrix:
    """A matrix by columns: `leading` elements from one column to the next, for each level of the batch the `strides` to
    the next matrix, `offset` to the first. `transposed`: what lies there is the transpose of what is meant."""

    operand: int
    dtype: str
    transposed: bool
    leading: Dim
    strides: tuple[Dim, ...]
    offset: Dim


@dataclass(frozen=True, slots=True)
class Whole:
    """All that a kernel does as one call: result = scale * product + sign * added + bias. `bias` holds a number for
    each row, of the type of the result: its operand, and where it begins; `sign` is 0 without `added`."""

    result: LibraryMatrix
    scale: float = 1.0
    sign: int = 0
    added: LibraryMatrix | None = None
    bias: tuple[int, Dim] | None = None


@dataclass(frozen=True, slots=True)
class LibraryProduct:
    """Products of `rows` x `depth` by `depth` x `columns`, as many as the numbers of `batch` multiplied, summed in
    `accumulator`. `by_rows`: the kernel's n runs along the rows, else its m. `whole` says how the library makes all
    that the kernel does; `apart` says why it cannot, where it cannot."""

    rows: Dim
    columns: Dim
    depth: Dim
    batch: tuple[Dim, ...]
    accumulator: str
    first: LibraryMatrix
    second: LibraryMatrix
    by_rows: bool
    whole: Whole | None
    apart: str = ""


def library_product(kernel: ContractKernel) -> LibraryProduct | str:
    """The contraction as a product of a library, or why it is none."""
    try:
        return _Described(kernel).product()
    except Unfit as reason:
        return str(reason)


class _Described:
    """One contraction on its way."""

    def __init__(self, kernel: ContractKernel) -> None:
        self._kernel = kernel
        self._rank = rank = len(kernel.axes)
        self._extents = [axis.extent for axis in kernel.axes]
        self._m, self._n, self._k = rank - 3, rank - 2, rank - 1
        self._maps = [operand_map(kernel, one) for one in (kernel.a, kernel.b)]
        self._a, self._b = (one.access for one in self._maps)

    def product(self) -> LibraryProduct:
        self._check_factors()
        why = ""
        for by_rows in self._orientations():
            try:
                return self._whole(by_rows=by_rows)
            except Unfit as reason:
                why = why or str(reason)
        return self._plain(why)

    def _check_factors(self) -> None:
        kernel = self._kernel
        types = [kernel.operands[one.operand].dtype.name for one in (kernel.a, kernel.b)]
        if types[0] != types[1] or types[0] not in FACTORS.get(kernel.accumulator.name, ()):
            text = types[0] if types[0] == types[1] else " and ".join(types)
            raise Unfit(f"it multiplies {text}, summed in {kernel.accumulator.name}")
        if not all(one.is_strided for one in self._maps):
            raise Unfit("a factor lies in windows, not in a matrix")
        if self._a.coefficients[self._n] != ZERO or self._b.coefficients[self._m] != ZERO:
            raise Unfit("a factor lies in windows, not in a matrix")

    def _orientations(self) -> Iterator[bool]:
        """Whether n runs along the rows: along which axis neighbours of the results lie together."""
        stored = [
            linear_access(self._kernel.operands, self._rank, store.operand, store.index)
            for store in self._kernel.stores
        ]
        together = [any(one.coefficients[axis] == ONE for one in stored) for axis in (self._n, self._m)]
        if together[0] or not together[1]:
            yield True
        if together[1]:
            yield False

    def _plain(self, why: str) -> LibraryProduct:
        """The sums alone."""
        return self._library_product(next(self._orientations()), None, why)

    def _whole(self, *, by_rows: bool) -> LibraryProduct:
        row, column = (self._n, self._m) if by_rows else (self._m, self._n)
        return self._library_product(by_rows, find_ending(self._kernel, row, column), "")

    def _library_product(self, by_rows: bool, ending: Ending | None, why: str) -> LibraryProduct:
        row, column = (self._n, self._m) if by_rows else (self._m, self._n)
        first, second = (self._b, self._a) if by_rows else (self._a, self._b)
        others = [one for one in (ending.result, ending.added) if one is not None] if ending is not None else []
        levels = self._levels([first, second, *others])
        sides = [
            self._matrix(first, row, self._k, levels, "a factor"),
            self._matrix(second, self._k, column, levels, "a factor"),
        ]
        extents = self._extents
        sizes = (extents[row], extents[column], extents[self._k])
        counts = tuple(product(extents[axis] for axis in level) for level in levels)
        whole = None if ending is None else self._finished(ending, row, column, levels)
        return LibraryProduct(*sizes, counts, self._kernel.accumulator.name, sides[0], sides[1], by_rows, whole, why)

    def _finished(self, ending: Ending, row: int, column: int, levels: Sequence[tuple[int, ...]]) -> Whole:
        result = self._matrix(ending.result, row, column, levels, "the result")
        added = None
        if ending.added is not None:
            added = self._matrix(ending.added, row, column, levels, "what is added")
        if result.transposed or (added is not None and added.transposed):
            raise Unfit("its result is transposed to what is added")
        return Whole(result, ending.scale, ending.sign, added, ending.bias)

    def _levels(self, accesses: Sequence[Access]) -> list[tuple[int, ...]]:
        """The axes of the batch, those together that lie evenly in each other for all."""
        axes = [axis for axis in range(self._m) if self._extents[axis] != ONE]
        levels: list[tuple[int, ...]] = [(axis,) for axis in axes[:1]]
        for outer, inner in pairwise(axes):
            step = self._extents[inner]
            if all(one.coefficients[outer] == one.coefficients[inner] * step for one in accesses):
                levels[-1] = (*levels[-1], inner)
            else:
                levels.append((inner,))
        if len(levels) > MOST_LEVELS:
            raise Unfit(f"its batch has {len(levels)} axes that do not lie evenly in each other")
        return levels

    def _matrix(
        self, access: Access, row: int, column: int, levels: Sequence[tuple[int, ...]], what: str
    ) -> LibraryMatrix:
        """A matrix of `row` by `column`, by columns."""
        along, across = access.coefficients[row], access.coefficients[column]
        dtype = self._kernel.operands[access.operand].dtype.name
        strides = tuple(access.coefficients[level[-1]] for level in levels)
        if along == ONE and self._leads(across, row, column):
            return LibraryMatrix(access.operand, dtype, False, across, strides, access.offset)
        if across == ONE and self._leads(along, column, row):
            return LibraryMatrix(access.operand, dtype, True, along, strides, access.offset)
        raise Unfit(f"{what} is no matrix whose rows or columns lie together")

    def _leads(self, stride: Dim, inner: int, outer: int) -> bool:
        """Whether columns surely do not overlap: the stride is the extent of the inner axis, times something."""
        extent = self._extents[inner]
        if stride == ZERO:
            return False
        known = extent.constant, stride.constant
        if known[0] is not None and known[1] is not None:
            return known[1] >= known[0]
        return stride % extent == ZERO or self._extents[outer] == ONE
