"""Products of a program that the library makes: which of its launches, with which of its algorithms, on which memory.

Assumes a plan that was read, and one caller at a time with the device current. Guarantees that whatever the library
cannot do, or must not, is left to the kernel of the program, and that `notes` says of every product who makes it, and
why. Addresses of the caller may change from call to call: what is chosen for them holds for each multiple of 16.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from dfc_targets.cuda.cublaslt import CublasLt, Library, MatrixShape, ProductError, ProductPlan, ProductShape, alignment
from dfc_targets.cuda.ordering import Access
from dfc_targets.cuda.places import Slot, number, virtual
from dfc_targets.cuda.plan_format import BufferPlan, KernelPlan
from dfc_targets.cuda.plan_products import MatrixPlan
from dfc_targets.cuda.plan_products import ProductPlan as Described

BYTES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}
SLOT_ALIGNMENT = 16
"""What addresses of the caller are multiples of."""

LARGEST = 2**31 - 1
MOST_NOTES = 1024

Record = Callable[[int], None]
"""Queues work on the stream of this handle."""


class Refused(Exception):
    """The library, or the driver, does not take a product after all: the kernel of the program is to make it."""


@dataclass(frozen=True, slots=True)
class ProductCall:
    """What the library is to do. `places` and `offsets` (bytes) of first, second, result and bias."""

    plan: ProductPlan
    places: tuple[int | Slot, ...]
    offsets: tuple[int, ...]


@dataclass(slots=True)
class ProductNode:
    """A product in a graph, with its workspace."""

    call: ProductCall
    library: ProductLibrary
    workspace: int
    accesses: list[Access]
    after: list[int] = field(default_factory=list[int])

    def record(self, addresses: Mapping[int, int]) -> Record:
        """What queues it, for these addresses of the caller."""
        starts = [addresses[one.number] if isinstance(one, Slot) else one for one in self.call.places]
        ends = [start + offset for start, offset in zip(starts, self.call.offsets, strict=True)]
        return partial(self.library.queue, self.call.plan, ends, self.workspace)

    def refuse(self, reason: str) -> Refused:
        """The driver does not take it."""
        return self.library.refuse(self.call.plan.shape, reason)


@dataclass(frozen=True, slots=True)
class Operand:
    """A buffer of a launch: what it is, where, and how many bytes it has now."""

    buffer: BufferPlan
    place: int | Slot
    size: int

    def overlaps(self, other: Operand) -> bool:
        mine, theirs = (virtual(one.place) if isinstance(one.place, Slot) else one.place for one in (self, other))
        return mine < theirs + other.size and theirs < mine + self.size


class ProductLibrary:
    """The library, for one program on one device."""

    def __init__(self, library: Library) -> None:
        self._library = CublasLt(library)
        self._name = f"cuBLASLt {self._library.version()}"
        self._refused: dict[ProductShape, str] = {}
        self.notes: dict[str, str] = {}
        """Who makes each product, by kernel and sizes; the first `MOST_NOTES` of them."""

    def choose(self, kernel: KernelPlan, operands: Sequence[Operand], sizes: Mapping[str, int]) -> ProductCall | None:
        """How the library makes what the kernel does; None: the kernel makes it."""
        if kernel.product is None or not number(kernel.points, sizes):
            return None
        where = ", ".join((kernel.name, *(f"{name}={size}" for name, size in sizes.items())))
        try:
            made = self._planned(kernel.product, operands, sizes)
        except (ProductError, ValueError) as problem:
            self._note(where, f"the kernel of the program, because {problem}")
            return None
        self._note(where, self._name)
        return made

    def leave(self, kernel: KernelPlan, reason: str) -> None:
        """Notes that the kernel makes a product, wherever it is launched like that."""
        if kernel.product is not None:
            self._note(f"{kernel.name}, {reason}", f"the kernel of the program, because it is {reason}")

    def queue(self, plan: ProductPlan, addresses: Sequence[int], workspace: int, stream: int) -> None:
        """Queues a product on a stream; `Refused` if the library does not take it."""
        first, second, result, bias = addresses
        try:
            self._library.run(plan, first, second, result, bias, workspace, stream)
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

    def _planned(self, product: Described, operands: Sequence[Operand], sizes: Mapping[str, int]) -> ProductCall:
        rows, columns, depth, batch = (
            number(one, sizes) for one in (product.rows, product.columns, product.depth, product.batch)
        )
        if not depth:
            raise ValueError("its sums are empty")
        if max(rows, columns, depth, batch) > LARGEST:
            raise ValueError("it is too large for the library")
        matrices = (product.first, product.second, product.result)
        extents = ((rows, depth), (depth, columns), (rows, columns))
        first, second, result = (
            _matrix(one, operands[one.operand], extent, batch, sizes)
            for one, extent in zip(matrices, extents, strict=True)
        )
        used = [operands[one.operand] for one in matrices]
        offsets = [number(one.offset, sizes) * BYTES[one.type] for one in matrices]
        if product.bias is not None:
            used.append(operands[product.bias.operand])
            offsets.append(number(product.bias.offset, sizes) * BYTES[product.result.type])
            _check_bias(used[3], offsets[3], rows, product.result.type)
        if any(used[2].overlaps(one) for place, one in enumerate(used) if place != 2):
            raise ValueError("its result lies where its operands do")
        epilogue = "none" if product.bias is None else "bias"
        shape = ProductShape(rows, columns, depth, batch, product.accumulator, first, second, result, epilogue)
        if shape in self._refused:
            raise ValueError(self._refused[shape])
        nowhere = () if product.bias is not None else (0,)
        places = (*(one.place for one in used), *nowhere)
        return ProductCall(self._library.plan(shape), places, (*offsets, *nowhere))


def _matrix(
    matrix: MatrixPlan, operand: Operand, extent: tuple[int, int], batch: int, sizes: Mapping[str, int]
) -> MatrixShape:
    """`ValueError` if it leaves its memory, or its columns overlap."""
    inner, outer = reversed(extent) if matrix.transposed else extent
    leading, stride, offset = (number(one, sizes) for one in (matrix.leading, matrix.stride, matrix.offset))
    if leading < inner and outer > 1:
        raise ValueError(f"columns of {inner} lie {leading} apart")
    item = BYTES[matrix.type]
    last = offset + (batch - 1) * stride + (outer - 1) * leading + inner
    if operand.buffer.type != matrix.type or last * item > operand.size:
        raise ValueError("a matrix does not fit its memory")
    return MatrixShape(matrix.type, matrix.transposed, leading, stride, _aligned(operand.place, offset * item))


def _check_bias(operand: Operand, offset: int, rows: int, dtype: str) -> None:
    if operand.buffer.type != dtype or offset + rows * BYTES[dtype] > operand.size:
        raise ValueError("what is added does not fit its memory")
    if _aligned(operand.place, offset) < SLOT_ALIGNMENT:
        raise ValueError(f"what is added lies at no multiple of {SLOT_ALIGNMENT} bytes")


def _aligned(place: int | Slot, offset: int) -> int:
    """What the address is surely a multiple of."""
    return min(SLOT_ALIGNMENT, alignment(offset)) if isinstance(place, Slot) else alignment(place + offset)
