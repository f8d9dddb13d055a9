"""Products of a program that the library makes: which of its launches, with which of its algorithms, on which memory.

Assumes what `launches` does. Guarantees besides that what costs more than the kernel of the program (`product_costs`)
is left to that one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from dfc_driver_cuda.libraries import product_costs
from dfc_driver_cuda.libraries.cublaslt import CublasLt, MatrixShape, ProductShape
from dfc_driver_cuda.libraries.launches import (
    CALLER_ALIGNMENT,
    LARGEST_EXTENT,
    NativeCall,
    NativeLaunches,
    aligned,
    alignment,
)
from dfc_driver_cuda.libraries.native import Library, LibraryError
from dfc_driver_cuda.libraries.product_costs import Work
from dfc_runtime.formats.element_types import SIZES
from dfc_runtime.graphs.library_calls import Find, Operand, kernel_sizes
from dfc_runtime.graphs.memory_layout import number
from dfc_runtime.plans.plan import KernelPlan
from dfc_runtime.plans.products import FinishPlan, MatrixPlan, ProductPlan, WholePlan
from dfc_runtime.plans.steps import Launch

MOST_CALLS = 64
"""Calls that follow each other for one product."""

ALL = "all"
"""What `DFC_CUBLASLT` says so that no cost is asked for."""

FIRST, SECOND, RESULT, ADDED, BIAS = range(5)
NOWHERE = 0


class ProductLibrary(NativeLaunches):
    """The library, for one program on one device."""

    otherwise = "the kernel of the program"

    def __init__(self, library: Library) -> None:
        super().__init__(CublasLt(library))
        self._weighs = os.environ.get("DFC_CUBLASLT") != ALL

    def output(self, shape: ProductShape) -> int:
        return RESULT

    def choose(self, step: Launch, kernel: KernelPlan, find: Find, sizes: Mapping[str, int]) -> NativeCall | None:
        """How the library makes what the kernel does; None: the kernel makes it."""
        product = kernel.product
        if product is None:
            return None
        operands, own_sizes = [find(buffer) for buffer in step.buffers], kernel_sizes(step, sizes)
        if not number(kernel.points, own_sizes):
            return None
        return self.decided(
            kernel.name, own_sizes, lambda: self._chosen(kernel, product, _Sized(product, operands, own_sizes))
        )

    def _chosen(self, kernel: KernelPlan, product: ProductPlan, sized: _Sized) -> NativeCall:
        """All that the kernel does if the library can, else the sums with a kernel after it."""
        reason = ValueError("it runs after what may fail, and is seen then")
        if product.whole is not None and not (kernel.guarded and sized.operand(product.whole.result).visible):
            try:
                return self._whole(product.whole, sized)
            except (LibraryError, ValueError) as problem:
                reason = problem
        if product.finish is None:
            raise reason
        return self._apart(product.finish, sized)

    def _whole(self, whole: WholePlan, sized: _Sized) -> NativeCall:
        matrices = [sized.product.first, sized.product.second, whole.result]
        result = sized.operand(whole.result)
        in_place = whole.added is not None and whole.added == whole.result
        added = None if in_place else whole.added
        used = {FIRST: matrices[0].operand, SECOND: matrices[1].operand}
        used |= {ADDED: added.operand} if added is not None else {}
        used |= {BIAS: whole.bias.operand} if whole.bias is not None else {}
        if any(result.overlaps(sized.operands[one]) for one in used.values()):
            raise ValueError("its result lies where its operands do")
        self._weigh(sized.work(whole.result.type), len(sized.calls) - 1, apart=False)
        bias = sized.bias(whole) if whole.bias is not None else NOWHERE
        shape = sized.shape(
            sized.matrix(whole.result),
            whole,
            sized.matrix(added) if added is not None else None,
        )
        everything = {**used, RESULT: whole.result.operand}
        addresses = tuple(
            sized.operands[everything[one]].address if one in everything else NOWHERE for one in range(BIAS + 1)
        )
        offsets = [
            (
                *(sized.offset(one, call) for one in matrices),
                sized.offset(added, call) if added is not None else 0,
                bias,
            )
            for call in sized.calls
        ]
        uses = tuple((operand, one == RESULT) for one, operand in everything.items())
        return NativeCall(self.planned(shape), self, addresses, tuple(offsets), uses)

    def _apart(self, finish: FinishPlan, sized: _Sized) -> NativeCall:
        product, work = sized.product, sized.work(sized.product.sums)
        self.check_sums(work.sums_bytes)
        self._weigh(work, len(sized.calls), apart=True)
        shape = sized.shape(sized.sums(), None, None)
        addresses = (sized.operand(product.first).address, sized.operand(product.second).address, *[NOWHERE] * 3)
        step = work.rows * work.columns * SIZES[work.result]
        offsets = [
            (
                sized.offset(product.first, call),
                sized.offset(product.second, call),
                sized.address_of_sums(call) * step,
                0,
                0,
            )
            for call in sized.calls
        ]
        uses = ((product.first.operand, False), (product.second.operand, False))
        sums = Operand(work.result, 0, work.sums_bytes)
        return NativeCall(self.planned(shape), self, addresses, tuple(offsets), uses, (finish, sums))

    def _weigh(self, work: Work, launches: int, *, apart: bool) -> None:
        if self._weighs and (launches or apart) and not product_costs.pays(work, launches, apart=apart):
            raise ValueError("it takes less time for a product of this size")


class _Sized:
    """A product whose sizes are known. `calls` are the numbers of its matrices along the level of the batch that the
    library does not know, one for each call."""

    def __init__(self, product: ProductPlan, operands: Sequence[Operand], sizes: Mapping[str, int]) -> None:
        self.product, self.operands, self._sizes = product, operands, sizes
        self._rows, self._columns, self._depth = (
            number(one, sizes) for one in (product.rows, product.columns, product.depth)
        )
        self._counts = [number(one, sizes) for one in product.batch]
        if not self._depth:
            raise ValueError("its sums are empty")
        if max(self._rows, self._columns, self._depth, *self._counts, 0) > LARGEST_EXTENT:
            raise ValueError("it is too large for the library")
        longest = max(range(len(self._counts)), key=self._counts.__getitem__, default=0)
        self._level = longest
        self._batch = self._counts[longest] if self._counts else 1
        rest = [count for level, count in enumerate(self._counts) if level != longest]
        self.calls = range(rest[0] if rest else 1)
        if len(self.calls) > MOST_CALLS:
            raise ValueError(f"its batch has two axes, of {self._batch} and {len(self.calls)} matrices")

    def work(self, results: str) -> Work:
        """With what is written in this type."""
        batch, factor = self._batch * len(self.calls), self.product.first.type
        return Work(self._rows, self._columns, self._depth, batch, factor, results, self.product.is_rounding)

    def operand(self, matrix: MatrixPlan) -> Operand:
        return self.operands[matrix.operand]

    def offset(self, matrix: MatrixPlan, call: int) -> int:
        """Bytes from the start of the operand to the first matrix of a call."""
        strides = [number(one, self._sizes) for level, one in enumerate(matrix.strides) if level != self._level]
        return (number(matrix.offset, self._sizes) + call * sum(strides)) * SIZES[matrix.type]

    def address_of_sums(self, call: int) -> int:
        """Which of the matrices of sums is the first of a call."""
        return call * (self._inside if self._level == 1 else 1)

    def shape(self, result: MatrixShape, whole: WholePlan | None, added: MatrixShape | None) -> ProductShape:
        product = self.product
        first, second = self.matrix(product.first, columns=True), self.matrix(product.second, rows=True)
        shape = (self._rows, self._columns, self._depth, self._batch, product.accumulator, first, second, result)
        if whole is None:
            return ProductShape(*shape, product.is_rounding)
        return ProductShape(*shape, product.is_rounding, whole.scale, whole.sign, added, whole.bias is not None)

    @property
    def _inside(self) -> int:
        """How many matrices of sums lie together for one number of the first level."""
        return self._counts[1] if len(self._counts) > 1 else 1

    def sums(self) -> MatrixShape:
        """Sums in scratch memory, which begins at a multiple of `LARGE`: one after another, the last level inside."""
        one = self._rows * self._columns
        stride, step = (self._inside, 1) if self._level == 0 else (1, self._inside)
        apart = step * one * SIZES[self.product.sums] if len(self.calls) > 1 else 0
        return MatrixShape(self.product.sums, False, self._rows, stride * one, alignment(apart))

    def matrix(self, matrix: MatrixPlan, *, rows: bool = False, columns: bool = False) -> MatrixShape:
        """`rows`, `columns`: the depth takes their place. `ValueError` if the matrix leaves its memory, or its columns
        overlap."""
        extent = (self._depth if rows else self._rows, self._depth if columns else self._columns)
        inner, outer = reversed(extent) if matrix.transposed else extent
        leading = number(matrix.leading, self._sizes)
        if leading < inner and outer > 1:
            raise ValueError(f"columns of {inner} lie {leading} apart")
        strides = [number(one, self._sizes) for one in matrix.strides]
        item, operand = SIZES[matrix.type], self.operand(matrix)
        beyond = sum((count - 1) * stride for count, stride in zip(self._counts, strides, strict=True))
        last = number(matrix.offset, self._sizes) + beyond + (outer - 1) * leading + inner
        if operand.type != matrix.type or last * item > operand.size:
            raise ValueError("a matrix does not fit its memory")
        reliable = min(aligned(operand.address, self.offset(matrix, call)) for call in self.calls)
        return MatrixShape(matrix.type, matrix.transposed, leading, strides[self._level] if strides else 0, reliable)

    def bias(self, whole: WholePlan) -> int:
        """Where it begins, in bytes."""
        assert whole.bias is not None
        dtype, operand = whole.result.type, self.operands[whole.bias.operand]
        offset = number(whole.bias.offset, self._sizes) * SIZES[dtype]
        if operand.type != dtype or offset + self._rows * SIZES[dtype] > operand.size:
            raise ValueError("what is added does not fit its memory")
        if aligned(operand.address, offset) < CALLER_ALIGNMENT:
            raise ValueError(f"what is added lies at no multiple of {CALLER_ALIGNMENT} bytes")
        return offset
