"""Products that a library of matrix products can make as well, described as data.

Pure analysis of contractions. Guarantees that what is described is exactly what the kernel means, up to the order of
the sums: an epilogue that rounds in between, or a layout that is no matrix with a leading dimension, is not described.
The terms are those of cuBLAS: matrices by columns, result = op(first) op(second) for each number of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dfc.ir.dims import ONE, ZERO, Dim, product
from dfc.kernels.access import Access, linear_access
from dfc.kernels.body import Accumulated, Apply, Instruction, Load, Number
from dfc.kernels.form import ContractKernel, Store

_FACTORS = {"f32": ("f32", "f16", "bf16"), "f64": ("f64",)}
"""Types of factors by the type of the sums."""


@dataclass(frozen=True, slots=True)
class LibraryMatrix:
    """A matrix by columns: `leading` elements from one column to the next, `stride` to the next of the batch, `offset`
    to the first. `transposed`: what lies there is the transpose of what is meant."""

    operand: int
    dtype: str
    transposed: bool
    leading: Dim
    stride: Dim
    offset: Dim

    def data(self, size: Callable[[Dim], object]) -> dict[str, object]:
        """Without Python types; `size` says what becomes of a formula."""
        return {
            "operand": self.operand,
            "type": self.dtype,
            "transposed": self.transposed,
            "leading": size(self.leading),
            "stride": size(self.stride),
            "offset": size(self.offset),
        }


@dataclass(frozen=True, slots=True)
class LibraryProduct:
    """`batch` products of `rows` x `depth` by `depth` x `columns`, summed in `accumulator`. `epilogue` is none, bias,
    relu or relu_bias; `bias` holds a number for each row, of the type of the result. (Of a NaN the library's relu
    says nothing; the language keeps it.)"""

    rows: Dim
    columns: Dim
    depth: Dim
    batch: Dim
    accumulator: str
    first: LibraryMatrix
    second: LibraryMatrix
    result: LibraryMatrix
    epilogue: str = "none"
    bias: tuple[int, Dim] | None = None

    def data(self, size: Callable[[Dim], object]) -> dict[str, object]:
        """Without Python types; `size` says what becomes of a formula."""
        made: dict[str, object] = {
            "rows": size(self.rows),
            "columns": size(self.columns),
            "depth": size(self.depth),
            "batch": size(self.batch),
            "accumulator": self.accumulator,
            "first": self.first.data(size),
            "second": self.second.data(size),
            "result": self.result.data(size),
            "epilogue": self.epilogue,
        }
        if self.bias is not None:
            made["bias"] = {"operand": self.bias[0], "offset": size(self.bias[1])}
        return made


def library_product(kernel: ContractKernel) -> LibraryProduct | None:
    """The contraction as a product of a library, if it is one."""
    rank = len(kernel.axes)
    if len(kernel.stores) != 1 or kernel.stores[0].combine:
        return None
    a, b = (linear_access(kernel.operands, rank, one.operand, one.index) for one in (kernel.a, kernel.b))
    store = kernel.stores[0]
    c = linear_access(kernel.operands, rank, store.operand, store.index)
    types = [kernel.operands[one.operand].dtype.name for one in (a, b)]
    if types[0] != types[1] or types[0] not in _FACTORS.get(kernel.accumulator.name, ()):
        return None
    if a.lookups or b.lookups or c.lookups:
        return None
    m, n = rank - 3, rank - 2
    for row, column, first, second in ((n, m, b, a), (m, n, a, b)):
        if c.coefficients[row] == ONE:
            return _described(kernel, store, (row, column), (first, second, c))
    return None


def _described(
    kernel: ContractKernel, store: Store, axes: tuple[int, int], accesses: tuple[Access, Access, Access]
) -> LibraryProduct | None:
    """With rows along the axis of the result that lies together in memory."""
    row, column = axes
    first, second, c = accesses
    depth = len(kernel.axes) - 1
    extents = [axis.extent for axis in kernel.axes]
    if first.coefficients[column] != ZERO or second.coefficients[row] != ZERO:
        return None
    batch = _batch(accesses, extents[: depth - 2])
    finish = _epilogue(kernel, store, row)
    if batch is None or finish is None or not _result_type_fits(kernel, first, c):
        return None
    count, strides = batch
    matrices = [
        _matrix(kernel, first, row, depth, strides[0]),
        _matrix(kernel, second, depth, column, strides[1]),
        _matrix(kernel, c, row, column, strides[2]),
    ]
    left, right, result = matrices
    if left is None or right is None or result is None or result.transposed:
        return None
    name, bias = finish
    sizes = (extents[row], extents[column], extents[depth], count)
    return LibraryProduct(*sizes, kernel.accumulator.name, left, right, result, name, bias)


def _result_type_fits(kernel: ContractKernel, factor: Access, c: Access) -> bool:
    """The library writes sums as they are, or rounded to the type of the factors."""
    made = kernel.operands[c.operand].dtype
    return made in (kernel.accumulator, kernel.operands[factor.operand].dtype)


def _batch(accesses: Sequence[Access], extents: Sequence[Dim]) -> tuple[Dim, list[Dim]] | None:
    """All batch axes as one: their number, and the stride of each operand."""
    axes = [axis for axis, extent in enumerate(extents) if extent != ONE]
    if not axes:
        return ONE, [ZERO for _ in accesses]
    for one in accesses:
        for outer, inner in pairwise(axes):
            if one.coefficients[outer] != one.coefficients[inner] * extents[inner]:
                return None
    return product(extents[axis] for axis in axes), [one.coefficients[axes[-1]] for one in accesses]


def _matrix(kernel: ContractKernel, access: Access, row: int, column: int, stride: Dim) -> LibraryMatrix | None:
    """A matrix of `row` by `column`, by columns; None if neither axis lies together in memory."""
    along, across = access.coefficients[row], access.coefficients[column]
    dtype = kernel.operands[access.operand].dtype.name
    if along == ONE and _leads(across, kernel, row, column):
        return LibraryMatrix(access.operand, dtype, False, across, stride, access.offset)
    if across == ONE and _leads(along, kernel, column, row):
        return LibraryMatrix(access.operand, dtype, True, along, stride, access.offset)
    return None


def _leads(stride: Dim, kernel: ContractKernel, inner: int, outer: int) -> bool:
    """Whether columns surely do not overlap: the stride is the extent of the inner axis, times something."""
    extent = kernel.axes[inner].extent
    if stride == ZERO:
        return False
    known = extent.constant, stride.constant
    if known[0] is not None and known[1] is not None:
        return known[1] >= known[0]
    return stride % extent == ZERO or kernel.axes[outer].extent == ONE


def _epilogue(kernel: ContractKernel, store: Store, row: int) -> tuple[str, tuple[int, Dim] | None] | None:
    """What the library is to do with finished sums; None if it cannot."""
    body = kernel.epilogue
    value = body[store.value]
    if _is(value, "cast") and body[value.arguments[0]].dtype == kernel.accumulator:
        value = body[value.arguments[0]]
    relu, bias = False, None
    if _is(value, "maximum"):
        others = [one for one in map(body.__getitem__, value.arguments) if not _is_zero(one)]
        if len(others) != 1:
            return None
        value, relu = others[0], True
    if _is(value, "add"):
        parts = [body[number] for number in value.arguments]
        sums = [one for one in parts if isinstance(one.operation, Accumulated)]
        if len(sums) != 1:
            return None
        other = parts[0] if parts[1] is sums[0] else parts[1]
        bias, value = _bias(kernel, store, other, row), sums[0]
        if bias is None:
            return None
    if not isinstance(value.operation, Accumulated):
        return None
    return {(False, False): "none", (False, True): "bias", (True, False): "relu", (True, True): "relu_bias"}[
        relu, bias is not None
    ], bias


def _bias(kernel: ContractKernel, store: Store, value: Instruction, row: int) -> tuple[int, Dim] | None:
    """A vector along the rows, of the type of the result."""
    if _is(value, "cast") and value.dtype == kernel.accumulator:
        value = kernel.epilogue[value.arguments[0]]
    if not isinstance(value.operation, Load) or value.dtype != kernel.operands[store.operand].dtype:
        return None
    load = value.operation
    access = linear_access(kernel.operands, len(kernel.axes), load.operand, load.index, load)
    others = [one for axis, one in enumerate(access.coefficients) if axis != row]
    if access.lookups or access.bounds or access.coefficients[row] != ONE or any(one != ZERO for one in others):
        return None
    return access.operand, access.offset


def _is(one: Instruction, function: str) -> bool:
    return isinstance(one.operation, Apply) and one.operation.function == function


def _is_zero(one: Instruction) -> bool:
    return isinstance(one.operation, Number) and not any(one.operation.bits)
