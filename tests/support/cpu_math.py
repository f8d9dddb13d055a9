"""Elementary functions compiled for arrays, reference values, and distances in units of the last place."""

import ctypes
import math

import numpy as np

from dfc.ir.dtypes import F32, F64
from dfc.kernels.functions import Function
from dfc.kernels.terms import function
from dfc.lower.legalise.elementary import ELEMENTARY, elementary
from dfc_target_cpu.elementwise.kernel_functions import KernelFunctions
from dfc_target_cpu.llvm.text import ModuleText, Parameter
from dfc_target_cpu.llvm.values import i64, vector_type
from dfc_target_cpu.machine import Machine
from tests.support.cpu_code import load

ELEMENTS = {"float": np.float32, "double": np.float64}

SINGLE_BOUNDS = {
    "exp": 1.5,
    "exp2": 1.5,
    "expm1": 2,
    "sigmoid": 2.5,
    "tanh": 2.5,
    "log": 1,
    "log2": 2,
    "log10": 2.5,
    "log1p": 1.5,
    "erf": 1.5,
    "sin": 1.5,
    "cos": 1.5,
    "rsqrt": 1.5,
    "sqrt": 0.501,
    "floor": 0,
    "ceil": 0,
    "round": 0,
    "trunc": 0,
    "abs": 0,
}
"""What each function promises in single precision, in units of the last place."""


def scalar_function(name: str, element: str) -> Function:
    """An elementary function, or one of a single primitive, of `float` or `double`."""
    dtype = {"float": F32, "double": F64}[element]
    if name in ELEMENTARY:
        return elementary(name, dtype)
    return function(f"{dtype}_{name}", lambda x: x.primitive(name), dtype)


class ArrayMath:
    """One function, one element type, one width: called on arrays whose size is a multiple of the width."""

    def __init__(self, machine: Machine, name: str, element: str, lanes: int) -> None:
        self.dtype, self.lanes = ELEMENTS[element], lanes
        operands = 2 if name == "pow" else 1
        module = ModuleText(machine.triple)
        formals = [Parameter("ptr", p) for p in ("out", "x", "y")[: operands + 1]]
        f = module.function("run", "void", [*formals, Parameter("i64", "n")], linkage="external")
        vector, functions = vector_type(lanes, element), KernelFunctions(module, machine)
        with f.counted_loop(i64(0), f.argument("n"), lanes) as loop:
            addresses = [f.gep(element, p, loop.index) for p in f.arguments[:-1]]
            values = [f.load(vector, address) for address in addresses[1:]]
            f.store(functions.apply(f, scalar_function(name, element), *values)[0], addresses[0])
        f.ret()
        module.add(f)
        self.run = load(module, machine).function("run", None, *[ctypes.c_void_p] * len(formals), ctypes.c_int64)

    def __call__(self, *operands: np.ndarray) -> np.ndarray:
        size = operands[0].size
        padded = [np.ones(-(-size // self.lanes) * self.lanes, self.dtype) for _ in operands]
        for target, source in zip(padded, operands, strict=True):
            target[:size] = source
        out = np.empty_like(padded[0])
        self.run(out.ctypes.data, *(p.ctypes.data for p in padded), out.size)
        return out[:size]


def ulp_distance(result: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """|result - exact| in units of the last place of `result`'s type at `exact` (given in higher precision).

    Values that agree exactly, NaN with NaN and infinity with overflow included, are at distance 0; NaN against a number
    or infinity against a number that does not round to it are infinitely far.
    """
    with np.errstate(all="ignore"):
        rounded = exact.astype(result.dtype)
        same = (rounded == result) | (np.isnan(rounded) & np.isnan(result))
        spacing = np.spacing(np.abs(np.where(np.isfinite(rounded), rounded, 1)))
        largest = np.finfo(result.dtype).max
        distance = np.abs(result.astype(exact.dtype) - exact) / spacing
        overflow = np.abs(result) == np.inf
        edge = (np.clip(np.abs(exact), 0, largest).astype(exact.dtype) - largest) / np.spacing(largest) + 1
        distance = np.where(overflow & np.isfinite(exact), np.abs(edge), distance)
    return np.where(same, 0, np.where(np.isnan(distance), np.inf, distance)).astype(np.float64)


def reference(name: str, *operands: np.ndarray) -> np.ndarray:
    """The function in the operands' (higher) precision."""
    with np.errstate(all="ignore"):
        if name == "sigmoid":
            (x,) = operands
            e = np.exp(-np.abs(x))
            return np.where(x < 0, e, 1) / (1 + e)
        if name == "erf":
            return np.array([math.erf(v) for v in operands[0].astype(np.float64)])
        if name == "rsqrt":
            return 1 / np.sqrt(operands[0])
        return getattr(np, {"pow": "power", "round": "rint", "abs": "abs"}.get(name, name))(*operands)
