"""Hand-made programs for the CPU target: build kernels, launch them in one entry, run them on NumPy arrays."""

from collections.abc import Mapping, Sequence

import numpy as np

from dfc.diagnostics.source import Span
from dfc.ir.dims import Dim, Symbol, dim
from dfc.ir.dtypes import DType, from_numpy
from dfc.ir.options import TargetOptions
from dfc.kernels.body import Affine, BodyBuilder, Index, Instruction, Load, Mask
from dfc.kernels.form import Axis, Kernel, LoopKernel, Operand, Stage, Store
from dfc.kernels.program import Buffer, BufferRole, EntryProgram, Fault, Launch, Program, Step
from dfc_driver_cpu.driver import CpuDriver
from dfc_target_cpu.target import CpuTarget

Array = np.ndarray


def axis_index(*axes: int) -> tuple[Index, ...]:
    """One kernel axis for each axis of the buffer; -1 for a broadcast axis (index 0)."""
    return tuple(Affine(((axis, 1),)) if axis >= 0 else Affine() for axis in axes)


class KernelMaker:
    """A loop kernel in the making. Sizes are symbols d0, d1, ... in the order of the axes."""

    def __init__(self, rank: int, fixed: Mapping[int, int] | None = None) -> None:
        known = fixed or {}
        self.sizes = [dim(known[i]) if i in known else dim(Symbol(f"d{i}")) for i in range(rank)]
        self.operands: list[Operand] = []
        self.body = BodyBuilder()

    def operand(self, dtype: DType, shape: Sequence[Dim | int], access: str) -> int:
        self.operands.append(Operand(dtype, tuple(dim(s) for s in shape), access))
        return len(self.operands) - 1

    def over(self, *axes: int) -> tuple[Dim, ...]:
        return tuple(self.sizes[axis] if axis >= 0 else dim(1) for axis in axes)

    def load(self, dtype: DType, *axes: int) -> int:
        """Load from a new operand indexed by these axes."""
        operand = self.operand(dtype, self.over(*axes), "read")
        return self.load_at(operand, axis_index(*axes))

    def load_at(self, operand: int, index: Sequence[Index], mask: Mask | None = None) -> int:
        return self.body.append(Load(operand, tuple(index), mask), (), self.operands[operand].dtype)

    def take_body(self) -> tuple[Instruction, ...]:
        body, self.body = tuple(self.body.instructions), BodyBuilder()
        return body

    def store(self, value: int, *axes: int) -> Store:
        operand = self.operand(self.body.dtype(value), self.over(*axes), "write")
        return Store(operand, axis_index(*axes), value)

    def axes(self) -> tuple[Axis, ...]:
        return tuple(Axis(f"a{i}", size) for i, size in enumerate(self.sizes))

    def map(self, *stores: Store) -> LoopKernel:
        stage = Stage((), self.take_body(), (), stores)
        return LoopKernel(tuple(self.operands), self.axes(), len(self.sizes), (stage,))

    def loops(self, outer: int, *stages: Stage, ordered: bool = False) -> LoopKernel:
        return LoopKernel(tuple(self.operands), self.axes(), outer, stages, ordered)


class Runner:
    """A lowered program with one entry per kernel; every operand is an argument, except what is only written."""

    def __init__(self, kernels: Sequence[Kernel], *, isa: str = "", threads: int = 1) -> None:
        self.kernels = list(kernels)
        self.program = Program("test", list(kernels), [_entry(k, i) for i, k in enumerate(kernels)])
        self.program.faults = [Fault("index", "test", Span.nowhere()) for _ in range(4)]
        self.lowered = CpuTarget().lower(self.program, TargetOptions((isa,) if isa else (), listing="llvm"))
        self.drivers = {threads: self._driver(threads)}

    @property
    def listing(self) -> str:
        """The LLVM text."""
        return "\n".join(self.lowered.listings)

    def _driver(self, threads: int) -> CpuDriver:
        image = self.lowered.images[0]
        return CpuDriver(
            image=image.code,
            symbols=image.symbols,
            notes=self.lowered.notes,
            constants=np.zeros(64, np.uint8),
            resources={},
            threads=threads,
        )

    def run(self, number: int, arrays: Sequence[Array], sizes: Sequence[int], *, threads: int = 1) -> int:
        """Runs a kernel on one array per operand (written in place)."""
        if threads not in self.drivers:
            self.drivers[threads] = self._driver(threads)
        values = [a.ctypes.data for a in arrays] + list(sizes) + [0]
        slots = np.array(values, dtype=np.int64)
        return self.drivers[threads].entry(number).call(slots.ctypes.data)


def _entry(kernel: Kernel, number: int) -> EntryProgram:
    """All operands are results (passed by address even if 0-d ones would be values: they get shape (1,))."""
    formulas = [a.extent for a in kernel.axes] + [size for o in kernel.operands for size in o.shape]
    symbols = {s for formula in formulas for s in formula.symbols()}
    buffers = [
        Buffer(o.dtype, o.shape or (dim(1),), BufferRole.RESULT, f"b{i}", index=i)
        for i, o in enumerate(kernel.operands)
    ]
    count = max((int(s.name[1:]) + 1 for s in symbols), default=0)
    dims = tuple(Symbol(f"d{i}") for i in range(count))
    launch = Launch(number, tuple(range(len(buffers))), tuple(dim(s) for s in dims))
    steps: tuple[Step, ...] = (launch,)
    return EntryProgram(f"e{number}", buffers, steps, (), tuple(range(len(buffers))), dims, dim(0), dim(0))


def known(array: Array) -> DType:
    dtype = from_numpy(array.dtype)
    assert dtype is not None
    return dtype
