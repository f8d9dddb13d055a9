"""The kernel forms. A kernel is pure index arithmetic over operand slots; a launch binds the slots to buffers.

Equal kernels (same axes, operands, bodies) are equal Python values, so each is compiled once however often it is
launched. Dimensions inside a kernel are symbols of the kernel (`d0`, `d1`, ...), bound by the launch as well.

Forms
- `LoopKernel`: outer parallel axes, then stages executed one after the other at each outer point. A stage iterates its
  own inner axes; it either reduces or stores, or both. One stage without reductions is a `map`; otherwise it
  is a `reduce` whose later stages use the results (softmax: max, then sum with the exponentials stored, then a
  division).
  The points of a stage are independent of each other except through its reductions; a store may be read back by later
  stages at the same outer point. With `ordered` the axes of each stage run in ascending lexicographic order (scan,
  scatter).
- `ContractKernel`: out[b.., m, n] = sum over k of a * b, then an epilogue body at each finished point with stores. The
  factors are read through index maps: matrices with strides, or windows of an image, zeros around it included.
- `RoutineKernel`: a factorisation or the like (`routines`), for each matrix of a stack.
- `RowBlockKernel`: kernels of loops and products that go along the same rows, one after the other for a block of
  rows. What they hand to each other has memory for the rows of one block (attention: scores, softmax, weighted sum).

Meaning of a reduction: `orders.reduction` says which values are combined with which, in accumulators, blocks and parts
that the kernel alone decides; `orders.scan` says so of a fold that stores all its prefixes, and `orders.product`
of contractions. A target may walk in any order that gives the same bits; it chooses nothing else, but for what the
latter leaves to it.
"""

from __future__ import annotations

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim
from dfc.ir.dtypes import DType
from dfc.kernels.body import Affine, Index, Instruction


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand slot: a row-major buffer of this element type and shape (the shape in the kernel's symbols).

    `access` is read, write or update: read and written at the same point only, or written by one stage and read back by
    later stages at the same outer point. In an ordered kernel `update` also covers reading what an earlier point of the
    ordered axes stored (a scan loads its own result at the previous index, under a mask).
    """

    dtype: DType
    shape: tuple[Dim, ...]
    access: str


@dataclass(frozen=True, slots=True)
class Axis:
    name: str
    extent: Dim


@dataclass(frozen=True, slots=True)
class Store:
    """Writes the value of an instruction to an operand; with `combine` = "add" it adds to what is there.

    The index is one Affine or Computed per axis of the operand.
    """

    operand: int
    index: tuple[Index, ...]
    value: int
    combine: str = ""


@dataclass(frozen=True, slots=True)
class Reduction:
    """Reduces a value over the stage's inner axes: add mul max min and or, or argmax/argmin (the index is the position
    along the single inner axis; ties take the lowest; NaN wins as in NumPy; the result has type `dtype`)."""

    combine: str
    value: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class Stage:
    """One pass over `axes` (numbers of kernel axes) at each outer point."""

    axes: tuple[int, ...]
    body: tuple[Instruction, ...]
    reductions: tuple[Reduction, ...] = ()
    stores: tuple[Store, ...] = ()


@dataclass(frozen=True, slots=True)
class LoopKernel:
    """`axes[:outer]` are parallel and common to all stages. A stage with no inner axes runs once per outer point."""

    operands: tuple[Operand, ...]
    axes: tuple[Axis, ...]
    outer: int
    stages: tuple[Stage, ...]
    ordered: bool = False

    @property
    def form(self) -> str:
        if self.ordered:
            return "scatter" if any(s.combine for stage in self.stages for s in stage.stores) else "scan"
        return "reduce" if any(stage.reductions for stage in self.stages) else "map"


@dataclass(frozen=True, slots=True)
class Split:
    """A kernel axis as several sub-axes, outermost first: its index is their row-major number. The product of `extents`
    is the extent of the axis."""

    axis: int
    extents: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class MatrixOperand:
    """The index map of a factor of a contraction: operand slot and, per axis of its buffer, an affine index over the
    kernel's axes (batch axes, then m, n, k) and over the sub-axes of `splits`, which are numbered on from the kernel's
    axes, split by split.

    `inside` lists axes of the buffer with an interior step, as a `Mask` does: the factor is 0 where an index lies
    outside of the buffer or is no multiple of the step; else the element at index // step is read. The windows of a
    convolution are such a map: m is (batch, position..), k is (element of the window.., channel), and the index along
    an axis of the image is position * stride + element * dilation - padding."""

    operand: int
    index: tuple[Affine, ...]
    splits: tuple[Split, ...] = ()
    inside: tuple[tuple[int, int], ...] = ()

    @property
    def is_strided(self) -> bool:
        """Whether the factor is a matrix in memory, with one stride for each axis."""
        return not self.splits and not self.inside


@dataclass(frozen=True, slots=True)
class ContractKernel:
    """axes = batch axes, m, n, k (the last three, in this order). `epilogue` may use `Accumulated` and loads over the
    batch, m and n axes; its stores write the results. `accumulator` is the element type of the sum."""

    operands: tuple[Operand, ...]
    axes: tuple[Axis, ...]
    a: MatrixOperand
    b: MatrixOperand
    accumulator: DType
    epilogue: tuple[Instruction, ...]
    stores: tuple[Store, ...]

    @property
    def form(self) -> str:
        return "contract"

    @property
    def m(self) -> int:
        """The number of the axis of rows."""
        return len(self.axes) - 3

    @property
    def n(self) -> int:
        """That of columns."""
        return len(self.axes) - 2

    @property
    def k(self) -> int:
        """That which is summed over."""
        return len(self.axes) - 1


@dataclass(frozen=True, slots=True)
class RowStep:
    """A kernel of a `RowBlockKernel`: `operands` has for each of its operands the number among those of the whole, and
    behind them its panels; `rows` is its axis of rows. The axes before that are the batch axes of the whole; of a
    product whose depth runs over the rows they are those before its own three."""

    kernel: LoopKernel | ContractKernel
    operands: tuple[int, ...]
    rows: int

    @property
    def sums_over_rows(self) -> bool:
        """Whether it is a product that adds up all rows, so that blocks of them come one after the other."""
        return isinstance(self.kernel, ContractKernel) and self.rows == self.kernel.k


@dataclass(frozen=True, slots=True)
class RowBlockKernel:
    """`axes` are batch axes and the rows. At each batch point, for one block of rows after the other, every step does
    what its own kernel does with these rows alone.

    `panels` are operands that no launch binds: what a step writes in some rows, later steps read in the same rows, so
    that memory for one block is enough. Their shapes are those of all rows: the leading axes of each are `axes`.

    The meaning is that of the steps one after the other, each on all rows, with the same order of every sum: a product
    over the rows goes on with the chain of multiply-adds at the block before. How many rows a block has changes no bit.
    """

    operands: tuple[Operand, ...]
    axes: tuple[Axis, ...]
    steps: tuple[RowStep, ...]
    panels: tuple[Operand, ...]

    @property
    def form(self) -> str:
        return ROW_BLOCKS


@dataclass(frozen=True, slots=True)
class RoutineKernel:
    """`name` says which of the routines of `dfc.kernels.routines`. `axes` are the stack and the sizes of the routine;
    `operands` what it reads, what it writes, and scratch memory."""

    name: str
    operands: tuple[Operand, ...]
    axes: tuple[Axis, ...]

    @property
    def form(self) -> str:
        return ROUTINE


ROW_BLOCKS = "row blocks"
ROUTINE = "routine"
"""Forms that a target says it takes; for others, fusion makes no such kernels."""

Kernel = LoopKernel | ContractKernel | RowBlockKernel | RoutineKernel
