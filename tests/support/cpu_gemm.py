"""A matrix product built for tests and benchmarks, called from NumPy."""

import ctypes

import numpy as np

from dfc_target_cpu.llvm.text import ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import i64
from dfc_target_cpu.machine import Machine
from dfc_target_cpu.product.gemm.general import GEMM_PARAMETERS
from dfc_target_cpu.product.gemm.library import declare_gemm, gemm_library, gemm_workspace_bytes
from dfc_target_cpu.product.gemm.shape import ANY_WIDTH
from tests.support.cpu_code import Code, aligned

DTYPES = {"float": np.float32, "double": np.float64}
_SIZES = (ctypes.c_int64, ctypes.c_int64)
_ARGUMENTS = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, *_SIZES, ctypes.c_void_p, *_SIZES, ctypes.c_void_p)
_ARGUMENTS += (ctypes.c_int64,) * 4 + (ctypes.c_bool, *_SIZES, ctypes.c_void_p, ctypes.c_int64)


def count_epilogue(module: ModuleText, element: str) -> None:
    """Exported `note(frame, row0, row1, column0, column1)`: adds 1 to each covered element of the frame's matrix.

    The frame is (pointer to a matrix of doubles, its row stride).
    """
    formals = (Parameter("ptr", "frame"), *(Parameter("i64", x) for x in ("r0", "r1", "c0", "c1")))
    f = module.function(f"note_{element}", "void", formals, linkage="external")
    frame, r0, r1, c0, c1 = f.arguments
    matrix, stride = f.load("ptr", frame), f.load("i64", f.gep("i64", frame, i64(1)))
    with f.counted_loop(r0, r1) as row, f.counted_loop(c0, c1) as column:
        address = f.gep("double", matrix, f.add(f.mul(row.index, stride), column.index))
        f.store(f.fadd(f.load("double", address), Value("double", "1.0")), address)
    f.ret()
    module.add(f)


class GemmCode:
    """The compiled product of one machine and element type, for at most so many columns, and few rows or none such."""

    def __init__(self, machine: Machine, element: str, widest: int = ANY_WIDTH, *, has_few_rows: bool = True) -> None:
        self.element, self.dtype = element, DTYPES[element]
        module = ModuleText(machine.triple)
        entry = module.function("product", "void", GEMM_PARAMETERS, linkage="external")
        entry.call(declare_gemm(module, element), "void", entry.arguments)
        entry.ret()
        module.add(entry)
        count_epilogue(module, element)
        library = gemm_library(machine, (element,), widest, has_few_rows=has_few_rows)
        code = Code([module.text()], machine, [library])
        self.call = code.function("product", None, *_ARGUMENTS)
        self.note = code.address(f"note_{element}")
        self.workspace_bytes = gemm_workspace_bytes(machine, element)
        self.workspace = aligned((self.workspace_bytes,), "u1")

    def part(self, a, b, c, accumulate=False, part=0, parts=1, seen=None, whole_m=None) -> None:
        """`c[:] = a @ b` (or +=), the share of one part; `seen`: a matrix that counts what the epilogue was given."""
        (m, k), n, size = a.shape, b.shape[1], c.itemsize
        strides = [s // size for x in (a, b) for s in x.strides]
        frame = None if seen is None else np.array([seen.ctypes.data, seen.shape[1]], np.int64)
        self.call(
            None if frame is None else frame.ctypes.data,
            None if frame is None else self.note,
            a.ctypes.data,
            *strides[:2],
            b.ctypes.data,
            *strides[2:],
            c.ctypes.data,
            c.strides[0] // size,
            *(m, n, k, accumulate, part, parts),
            self.workspace.ctypes.data,
            m if whole_m is None else whole_m,
        )
