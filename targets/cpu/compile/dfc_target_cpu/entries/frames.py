"""Functions that find their operands and sizes in a frame, and what all kernels of a module share.

The frame of a launch holds 8-byte words: the address of each operand, then the value of each size `d0`, `d1`, ...
"""

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Symbol
from dfc.kernels.form import Kernel
from dfc_target_cpu.elementwise.accesses import EmissionSite
from dfc_target_cpu.elementwise.functions import Functions
from dfc_target_cpu.entries.dims import DimCode, finish_prologue
from dfc_target_cpu.llvm.text import ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import i64
from dfc_target_cpu.machine import Machine

FRAME = (Parameter("ptr", "context"), Parameter("ptr", "frame"))
PART = (Parameter("i64", "part"), Parameter("i64", "parts"))


@dataclass(frozen=True, slots=True)
class Lowering:
    """What all kernels of a module share."""

    module: ModuleText
    machine: Machine
    functions: Functions
    spill_bytes: int  # of scratch memory before the workspaces of the parts
    shared_start: int = 0  # what all parts of a kernel share lies there, behind scalars

    @staticmethod
    def of(module: ModuleText, machine: Machine, spill_bytes: int, shared_bytes: int = 0) -> "Lowering":
        """For `spill_bytes` of scalars and `shared_bytes` that all parts of a kernel share."""
        functions = Functions(module, machine)
        return Lowering(module, machine, functions, spill_bytes + shared_bytes, spill_bytes)

    def part(self) -> "Lowering":
        """The same for a module of its own."""
        module = ModuleText(self.machine.triple, self.module)
        functions = Functions(module, self.machine)
        return Lowering(module, self.machine, functions, self.spill_bytes, self.shared_start)


class FrameFunction:
    """A function that finds its operands and sizes in a frame."""

    def __init__(
        self,
        lowering: Lowering,
        kernel: Kernel,
        hint: str,
        extra: tuple[Parameter, ...] = (),
        linkage: str = "internal",
        head: tuple[Parameter, ...] = FRAME,
    ) -> None:
        self.lowering, self.kernel = lowering, kernel
        attributes = "nounwind noinline" if linkage == "internal" else "nounwind"
        self.f = lowering.module.function(hint, "void", (*head, *extra), linkage=linkage, attributes=attributes)
        self.context, self.frame = self.find_frame()
        self.dims = DimCode(self.f, self._size)
        self._start = self.f.label("start")

    def find_frame(self) -> tuple[Value, Value]:
        """Context and frame of the launch."""
        return self.f.arguments[0], self.f.arguments[1]

    def _size(self, symbol: Symbol) -> Value:
        return self.f.load("i64", self.slot(len(self.kernel.operands) + int(symbol.name[1:])))

    def slot(self, number: int) -> Value:
        return self.f.gep("i64", self.frame, i64(number))

    def site(self) -> EmissionSite:
        """Begins the code proper. A fault leaves the function."""
        f = self.f
        with self.dims.prologue():
            pointers = [f.load("ptr", self.slot(number)) for number in range(len(self.kernel.operands))]
        failed = f.label("failed")
        f.begin(failed)
        f.ret()
        f.begin(self._start)
        low = self.lowering
        return EmissionSite(
            low.module, low.machine, low.functions, f, self.dims, self.context, self.kernel.operands, pointers, failed
        )

    def begin(self) -> None:
        """Begins the code of a function that has no operands to read."""
        self.f.begin(self._start)

    def finish(self) -> str:
        """Ends the function and takes it into the module; its name."""
        self.f.ret()
        finish_prologue(self.f, self._start)
        return self.lowering.module.add(self.f)
