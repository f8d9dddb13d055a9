"""Convolutions of a program that the library makes: which of its launches, with which of its engines, on which memory.

Assumes and guarantees what `launches` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dfc_driver_cuda.libraries.cudnn import Cudnn
from dfc_driver_cuda.libraries.cudnn_graphs import ConvolutionShape, TensorShape
from dfc_driver_cuda.libraries.launches import CALLER_ALIGNMENT, LARGEST_EXTENT, NativeCall, NativeLaunches, aligned
from dfc_driver_cuda.libraries.native import Library
from dfc_runtime.calls.formulas import Formula
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.formats.element_types import SIZES
from dfc_runtime.graphs.library_calls import Find, Operand
from dfc_runtime.graphs.memory_layout import number
from dfc_runtime.plans.convolutions import OUTPUT_TENSOR, ConvolutionPlan
from dfc_runtime.plans.plan import KernelPlan
from dfc_runtime.plans.products import SUMS
from dfc_runtime.plans.steps import Launch

FEWEST_SPATIAL_AXES = 2
"""What lies along one axis is told as a plane of one row."""


@dataclass(frozen=True, slots=True)
class Zeros:
    """Around one axis of the image: zeros before and behind, how many elements of it are looked at, from which on."""

    low: int
    high: int
    size: int
    start: int = 0


class ConvolutionLibrary(NativeLaunches):
    """The library, for one program on one device."""

    otherwise = "the kernels of the program"

    def __init__(self, library: Library) -> None:
        super().__init__(Cudnn(library))

    def output(self, shape: ConvolutionShape) -> int:
        return OUTPUT_TENSOR[shape.kind]

    def choose(self, step: Launch, kernel: KernelPlan, find: Find, sizes: Mapping[str, int]) -> NativeCall | None:
        """How the library makes what a launch of this kernel does; None: the kernels do."""
        what, first = step.convolution, len(step.buffers)
        if what is None:
            return None
        operands = [None if buffer == SUMS else find(buffer) for buffer in what.operands]
        return self.decided(kernel.name, sizes, lambda: self._chosen(what, kernel, operands, sizes, first))

    def _chosen(
        self,
        what: ConvolutionPlan,
        kernel: KernelPlan,
        operands: Sequence[Operand | None],
        sizes: Mapping[str, int],
        first: int,
    ) -> NativeCall:
        """An operand for each tensor, none for sums; the first one has the number `first` among those of the launch."""
        sized = _Sized(what, operands, sizes)
        sized.check()
        finish = None
        output = OUTPUT_TENSOR[what.kind]
        if what.finish is not None:
            finish = what.finish, Operand(what.type, 0, sized.elements(output) * SIZES[what.type])
            self.check_sums(finish[1].size)
        elif kernel.guarded and sized.operand(output).visible:
            raise ValueError("it runs after what may fail, and is seen then")
        plan = self.planned(sized.shape())
        addresses = tuple(0 if one is None else one.address for one in operands)
        offsets = tuple(0 if one is None else offset for one, offset in zip(operands, sized.offsets, strict=True))
        present = [position for position, one in enumerate(operands) if one is not None]
        uses = tuple((first + number_, position == output) for number_, position in enumerate(present))
        return NativeCall(plan, self, addresses, (offsets,), uses, finish)


class _Sized:
    """A convolution whose sizes are known. `offsets` in bytes."""

    def __init__(self, what: ConvolutionPlan, operands: Sequence[Operand | None], sizes: Mapping[str, int]) -> None:
        self._what, self._operands, self._sizes = what, operands, sizes
        self._item = SIZES[what.type]
        self._extents = [[number(one, sizes) for one in tensor.extents] for tensor in what.tensors]
        self._strides = [[number(one, sizes) for one in tensor.strides] for tensor in what.tensors]
        self._starts = [number(tensor.offset, sizes) for tensor in what.tensors]
        image, filter_, result = self._extents[:3]
        if any(not extent for each in self._extents for extent in each):
            raise ValueError("it is empty")
        if max(max(each) for each in self._extents) > LARGEST_EXTENT:
            raise ValueError("it is too large for the library")
        if image[0] != result[0] or filter_[0] != result[1] or image[1] % filter_[1]:
            raise ValueError("its tensors do not fit each other")
        low = [_signed(one, sizes) for one in what.low]
        self._zeros = [
            zeros_around(what.kind, *each)
            for each in zip(image[2:], filter_[2:], what.steps, what.dilations, low, result[2:], strict=True)
        ]
        for axis, zeros in enumerate(self._zeros, 2):
            self._starts[0] += zeros.start * self._strides[0][axis]
            self._extents[0][axis] = zeros.size

    @property
    def offsets(self) -> list[int]:
        return [start * self._item for start in self._starts]

    def operand(self, position: int) -> Operand:
        one = self._operands[position]
        assert one is not None
        return one

    def elements(self, position: int) -> int:
        """The elements from the first to behind the last."""
        extents, strides = self._extents[position], self._strides[position]
        return self._starts[position] + sum((n - 1) * s for n, s in zip(extents, strides, strict=True)) + 1

    def check(self) -> None:
        """`ValueError` if a tensor leaves its memory, or what is made lies where it is made of."""
        output = OUTPUT_TENSOR[self._what.kind]
        for position, one in enumerate(self._operands):
            if any(stride < 1 for stride in self._strides[position]) or self._starts[position] < 0:
                raise ValueError("a tensor runs backwards")
            if one is None:
                continue
            if one.type != self._what.type or self.elements(position) * self._item > one.size:
                raise ValueError("a tensor does not fit its memory")
            target = self._operands[output]
            if position != output and target is not None and target.overlaps(one):
                raise ValueError("its result lies where its operands do")

    def shape(self) -> ConvolutionShape:
        what, more = self._what, FEWEST_SPATIAL_AXES - len(self._what.steps)
        ones, nothing = (1,) * more, (0,) * more
        tensors = [self._tensor(position) for position in range(len(what.tensors))]
        image, filter_, result, *added = tensors
        return ConvolutionShape(
            kind=what.kind,
            type=what.type,
            image=image,
            filter=filter_,
            result=result,
            steps=(*ones, *what.steps),
            dilations=(*ones, *what.dilations),
            low=(*nothing, *(each.low for each in self._zeros)),
            high=(*nothing, *(each.high for each in self._zeros)),
            bias=added[0] if added else None,
            added=added[1] if len(added) > 1 else None,
            is_rounding=what.is_rounding,
        )

    def _tensor(self, position: int) -> TensorShape:
        one, offset = self._operands[position], self.offsets[position]
        reliable = aligned(one.address, offset) if one is not None else CALLER_ALIGNMENT
        alignment = min(CALLER_ALIGNMENT, reliable)
        extents, strides = self._extents[position], self._strides[position]
        if len(extents) == 1:  # the bias
            ones = [1] * max(len(self._what.steps), FEWEST_SPATIAL_AXES)
            return TensorShape((1, *extents, *ones), (extents[0] * strides[0], *strides, *ones), alignment)
        for _ in range(FEWEST_SPATIAL_AXES - len(self._what.steps)):
            extents, strides = [*extents[:2], 1, *extents[2:]], [*strides[:2], 1, *strides[2:]]
        return TensorShape(tuple(extents), packed(extents, strides), alignment)


def _signed(formula: Formula, sizes: Mapping[str, int]) -> int:
    """Zeros, or fewer than none: elements that windows leave out."""
    try:
        return formula.evaluate(sizes)
    except (ArithmeticError, KeyError) as problem:
        raise ValueError(f"a size of the plan has no value: {problem}") from None


def packed(extents: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Strides for axes of one element as if they lay between the others: the library tells layouts by them."""
    packed = list(strides)
    for axis in (*reversed(range(2, len(extents))), 0):
        if extents[axis] != 1:
            continue
        inner = range(axis + 1, len(extents)) if axis else range(1, len(extents))
        channel_strides = [packed[one] for one in range(2, len(extents)) if extents[one] != 1 and axis]
        channels = [one for one in (0, 1) if axis and (not channel_strides or packed[one] < min(channel_strides))]
        packed[axis] = max((extents[one] * packed[one] for one in (*inner, *channels)), default=1)
    return tuple(packed)


def zeros_around(kind: str, size: int, window: int, step: int, dilation: int, low: int, count: int) -> Zeros:
    """What is around an axis, so that there are just so many windows. `ValueError` where the library has no such
    words."""
    start = 0
    if low < 0 and kind != "data":
        low, size, start = 0, size + low, -low
    reach = (count - 1) * step + (window - 1) * dilation + 1
    needed = reach - low - size
    if low < 0 or size < 1:
        raise ValueError("it cuts off its image")
    for high in (low, max(needed, 0)):
        if needed <= high < needed + step:
            return Zeros(low, high, size, start)
    if kind == "data" or reach <= low:
        raise ValueError("its windows leave out a part of its image")
    return Zeros(low, 0, reach - low, start)
