"""What kernel bodies compute and how elements lie in memory, on values of any number of lanes.

Assumes operands of the types a verified body has. Guarantees the meaning of `dfc.lower.legalise`: this file only says
which kernel function is wanted, and what of it a machine has its own check for.
"""

from collections.abc import Sequence

from dfc.ir.dtypes import DType
from dfc.lower.legalise.halves import HALVES, load_function, store_function
from dfc.lower.legalise.meaning import meaning
from dfc.lower.legalise.random import random_function
from dfc_target_cpu.elementwise.kernel_functions import KernelFunctions
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Value
from dfc_target_cpu.llvm.values import constant, like
from dfc_target_cpu.machine import Machine


class Functions:
    """Emits scalar functions into functions of one module."""

    def __init__(self, module: ModuleText, machine: Machine) -> None:
        self.kernel_functions = KernelFunctions(module, machine)

    def apply(
        self, f: FunctionText, name: str, arguments: Sequence[Value], types: Sequence[DType], result: DType
    ) -> Value:
        """`types` are the element types of the arguments."""
        return self.kernel_functions.apply(f, meaning(name, types, result), *arguments)[0]

    def random(self, f: FunctionText, distribution: str, arguments: Sequence[Value], dtype: DType) -> Value:
        """One element of a draw in each lane, in the register type: written out, so that what the lanes share is not
        computed in each iteration of a loop."""
        return self.kernel_functions.written_out(f, random_function(distribution, dtype), *arguments)[0]

    def widen(self, f: FunctionText, raw: Value, dtype: DType) -> Value:
        """Elements as loaded -> values to compute with."""
        if dtype.is_bool:
            return f.icmp("ne", raw, constant(raw.type, 0))
        return self.kernel_functions.apply(f, load_function(dtype), raw)[0] if dtype in HALVES else raw

    def narrow(self, f: FunctionText, value: Value, dtype: DType) -> Value:
        """Computed values -> elements to store."""
        if dtype.is_bool:
            return f.cast("zext", value, like(value.type, "i8"))
        return self.kernel_functions.apply(f, store_function(dtype), value)[0] if dtype in HALVES else value
