"""Products of a program that the library makes: which of its launches, with which of its algorithms, on which memory.

Assumes a plan that was read, and one caller at a time with the device current. Guarantees that whatever the library
cannot do, or must not, or does at more cost than the kernel of the program (`product_costs`), is left to that one, and
that `notes` says of every product who makes it, and why. Addresses of the caller may change from call to call: what is
chosen for them holds for each multiple of 16.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from dfc_driver_cuda.libraries import product_costs
from dfc_driver_cuda.libraries.cublaslt import (
    Addresses,
    CublasLt,
    Library,
    MatrixShape,
    ProductError,
    ProductPlan,
    ProductShape,
    alignment,
)
from dfc_driver_cuda.libraries.product_costs import ITEM, SHARE, Work
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.graphs.library_calls import Find, Operand, Refused, kernel_sizes
from dfc_runtime.graphs.memory_layout import Slot, number
from dfc_runtime.plans.plan import KernelPlan
from dfc_runtime.plans.products import FinishPlan, MatrixPlan, WholePlan
from dfc_runtime.plans.products import ProductPlan as Described
from dfc_runtime.plans.steps import Launch

SLOT_ALIGNMENT = 16
"""What addresses of the caller are multiples of."""

LARGEST = 2**31 - 1
MOST_NOTES = 1024
MOST_CALLS = 64
"""Calls that follow each other for one product."""

PADDING = 256
ALL = "all"
"""What `DFC_CUBLASLT` says so that no cost is asked for."""

FIRST, SECOND, RESULT, ADDED, BIAS = range(5)
NOWHERE = 0


@dataclass(frozen=True, slots=True)
class ProductCall:
    """What the library is to do. `addresses` and the offsets in bytes, for each of its calls, are those of first,
    second, result, what is added, bias. Sums that a kernel takes on lie at the start of the
    workspace: they have no address."""

    plan: ProductPlan
    library: ProductLibrary
    addresses: tuple[int | Slot, ...]
    offsets: tuple[tuple[int, ...], ...]
    uses: tuple[tuple[int, bool], ...]
    finish: tuple[FinishPlan, Operand] | None = None

    @property
    def workspace(self) -> int:
        return self._sums_bytes + self.plan.workspace

    @property
    def _sums_bytes(self) -> int:
        return _padded(self.finish[1].size) if self.finish is not None else 0

    def queue(self, starts: Sequence[int], workspace: int, stream: int) -> None:
        first, second, result, added, bias = starts
        shape, own = self.plan.shape, self._sums_bytes
        begin = workspace if self.finish is not None else result
        for offsets in self.offsets:
            addresses = Addresses(
                first + offsets[FIRST],
                second + offsets[SECOND],
                begin + offsets[RESULT],
                added + offsets[ADDED] if shape.added is not None else NOWHERE,
                bias + offsets[BIAS] if shape.has_bias else NOWHERE,
            )
            self.library.run(self.plan, addresses, workspace + own, stream)

    def refuse(self, reason: str) -> Refused:
        return self.library.refuse(self.plan.shape, reason)


class ProductLibrary:
    """The library, for one program on one device."""

    def __init__(self, library: Library) -> None:
        self._library = CublasLt(library)
        self._name = f"cuBLASLt {self._library.version()}"
        self._refused: dict[ProductShape, str] = {}
        self.memory = 1 << 62
        """Bytes of the device: sums that a kernel takes on are scratch memory."""
        self._weighs = os.environ.get("DFC_CUBLASLT") != ALL
        self.notes: dict[str, str] = {}
        """Who makes each product, by kernel and sizes; the first `MOST_NOTES` of them."""

    def choose(self, step: Launch, kernel: KernelPlan, find: Find, sizes: Mapping[str, int]) -> ProductCall | None:
        """How the library makes what the kernel does; None: the kernel makes it."""
        if kernel.product is None:
            return None
        operands, sizes = [find(buffer) for buffer in step.buffers], kernel_sizes(step, sizes)
        if not number(kernel.points, sizes):
            return None
        where = ", ".join((kernel.name, *(f"{name}={size}" for name, size in sizes.items())))
        try:
            choice = self._chosen(kernel, kernel.product, _Sized(kernel.product, operands, sizes))
        except (ProductError, ValueError) as problem:
            self._note(where, f"the kernel of the program, because {problem}")
            return None
        self._note(where, self._name + (", and a kernel after it" if choice.finish is not None else ""))
        return choice

    def run(self, plan: ProductPlan, addresses: Addresses, workspace: int, stream: int) -> None:
        """Queues a product on a stream; `Refused` if the library does not take it."""
        try:
            self._library.run(plan, addresses, workspace, stream)
        except ProductError as problem:
            raise self.refuse(plan.shape, str(problem)) from None

    def refuse(self, shape: ProductShape, reason: str) -> Refused:
        """Never again with the library."""
        self._refused[shape] = reason
        return Refused(reason)

    def close(self) -> None:
        with suppress(ProductError):  # of a device that has failed, and has told so
            self._library.close()

    def _note(self, where: str, who: str) -> None:
        if where in self.notes or len(self.notes) < MOST_NOTES:
            self.notes[where] = who

    def _chosen(self, kernel: KernelPlan, product: Described, sized: _Sized) -> ProductCall:
        """All that the kernel does if the library can, else the sums with a kernel after it."""
        reason = ValueError("it runs after what may fail, and is seen then")
        if product.whole is not None and not (kernel.guarded and sized.operand(product.whole.result).visible):
            try:
                return self._whole(product.whole, sized)
            except (ProductError, ValueError) as problem:
                reason = problem
        if product.finish is None:
            raise reason
        return self._apart(product.finish, sized)

    def _whole(self, whole: WholePlan, sized: _Sized) -> ProductCall:
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
        return ProductCall(self._planned(shape), self, addresses, tuple(offsets), uses)

    def _apart(self, finish: FinishPlan, sized: _Sized) -> ProductCall:
        product, work = sized.product, sized.work(sized.product.sums)
        if work.sums_bytes > self.memory // SHARE:
            raise ValueError("its sums take too much memory to be made apart")
        self._weigh(work, len(sized.calls), apart=True)
        shape = sized.shape(sized.sums(), None, None)
        addresses = (sized.operand(product.first).address, sized.operand(product.second).address, *[NOWHERE] * 3)
        step = work.rows * work.columns * ITEM[work.result]
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
        return ProductCall(self._planned(shape), self, addresses, tuple(offsets), uses, (finish, sums))

    def _weigh(self, work: Work, launches: int, *, apart: bool) -> None:
        if self._weighs and (launches or apart) and not product_costs.pays(work, launches, apart=apart):
            raise ValueError("it takes less time for a product of this size")

    def _planned(self, shape: ProductShape) -> ProductPlan:
        if shape in self._refused:
            raise ValueError(self._refused[shape])
        return self._library.plan(shape)


class _Sized:
    """A product whose sizes are known. `calls` are the numbers of its matrices along the level of the batch that the
    library does not know, one for each call."""

    def __init__(self, product: Described, operands: Sequence[Operand], sizes: Mapping[str, int]) -> None:
        self.product, self.operands, self._sizes = product, operands, sizes
        self._rows, self._columns, self._depth = (
            number(one, sizes) for one in (product.rows, product.columns, product.depth)
        )
        self._counts = [number(one, sizes) for one in product.batch]
        if not self._depth:
            raise ValueError("its sums are empty")
        if max(self._rows, self._columns, self._depth, *self._counts, 0) > LARGEST:
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
        return (number(matrix.offset, self._sizes) + call * sum(strides)) * ITEM[matrix.type]

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
        """Sums in scratch memory, which begins at a multiple of `PADDING`: one after another, the last level inside."""
        one = self._rows * self._columns
        stride, step = (self._inside, 1) if self._level == 0 else (1, self._inside)
        apart = step * one * ITEM[self.product.sums] if len(self.calls) > 1 else 0
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
        item, operand = ITEM[matrix.type], self.operand(matrix)
        beyond = sum((count - 1) * stride for count, stride in zip(self._counts, strides, strict=True))
        last = number(matrix.offset, self._sizes) + beyond + (outer - 1) * leading + inner
        if operand.type != matrix.type or last * item > operand.size:
            raise ValueError("a matrix does not fit its memory")
        aligned = min(_aligned(operand.address, self.offset(matrix, call)) for call in self.calls)
        return MatrixShape(matrix.type, matrix.transposed, leading, strides[self._level] if strides else 0, aligned)

    def bias(self, whole: WholePlan) -> int:
        """Where it begins, in bytes."""
        assert whole.bias is not None
        dtype, operand = whole.result.type, self.operands[whole.bias.operand]
        offset = number(whole.bias.offset, self._sizes) * ITEM[dtype]
        if operand.type != dtype or offset + self._rows * ITEM[dtype] > operand.size:
            raise ValueError("what is added does not fit its memory")
        if _aligned(operand.address, offset) < SLOT_ALIGNMENT:
            raise ValueError(f"what is added lies at no multiple of {SLOT_ALIGNMENT} bytes")
        return offset


def _padded(size: int) -> int:
    return -(-size // PADDING) * PADDING


def _aligned(address: int | Slot, offset: int) -> int:
    """What the address is surely a multiple of."""
    return min(SLOT_ALIGNMENT, alignment(offset)) if isinstance(address, Slot) else alignment(address + offset)
