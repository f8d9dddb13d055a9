"""Products by cuBLASLt, where it is installed where a program runs: found, asked what it offers, and called.

Assumes device addresses and a stream of the device's primary context; one caller at a time. Guarantees the same
algorithm for the same shape, alignment and library, one that adds parts of a sum in a fixed order (no atomic
additions), within a bound of workspace. What the library cannot do is `LibraryError`: the caller then takes the kernel
of the program, and says so.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple

from dfc_driver_cuda.libraries.native import Library, LibraryError, Planner, candidates, open_first
from dfc_runtime.dataclasses import dataclass

WORKSPACE_BYTES = 32 << 20
"""Most workspace that an algorithm may ask for."""

TYPES = {"f32": 0, "f64": 1, "f16": 2, "bf16": 14}
COMPUTE_32F, COMPUTE_64F, COMPUTE_32F_FAST_TF32 = 68, 70, 77
LAYOUT_BATCH_COUNT, LAYOUT_BATCH_STRIDE = 5, 6
DESC_TRANSPOSE_FIRST, DESC_TRANSPOSE_SECOND, DESC_EPILOGUE, DESC_BIAS, DESC_BIAS_TYPE = 3, 4, 7, 8, 26
TRANSPOSED = 1
EPILOGUES = {"none": 1, "bias": 4}
"""Those that are used: of a NaN its relu says nothing, and the language keeps it; its gelu is another formula."""

PREFERENCE_WORKSPACE, PREFERENCE_REDUCTIONS = 1, 3
PREFERENCE_ALIGNMENTS = (5, 6, 7, 8)
IN_ORDER = 2
"""Parts of a sum lie in the workspace and are added in the type of the sum; sums in one part are always allowed."""

_ANY_BIAS = 256
_ALGORITHM_WORDS = 8
_NAMES = ("libcublasLt.so.13", "libcublasLt.so.12")
_PACKAGED = ("cu13/lib", "cu12/lib", "cublas/lib")

_Pointer, _Size, _Int = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_Handle = ctypes.POINTER(ctypes.c_void_p)
_DESCRIPTORS = ("MatrixLayout", "MatmulDesc", "MatmulPreference")


class Heuristic(ctypes.Structure):
    """`cublasLtMatmulHeuristicResult_t`."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * _ALGORITHM_WORDS),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


SIGNATURES: dict[str, list[Any]] = {
    "cublasLtCreate": [_Handle],
    "cublasLtMatrixLayoutCreate": [_Handle, _Int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int64],
    "cublasLtMatmulDescCreate": [_Handle, _Int, _Int],
    "cublasLtMatmulPreferenceCreate": [_Handle],
    **{f"cublasLt{kind}Destroy": [_Pointer] for kind in ("", *_DESCRIPTORS)},
    **{f"cublasLt{kind}SetAttribute": [_Pointer, _Int, _Pointer, _Size] for kind in _DESCRIPTORS},
    "cublasLtMatmulAlgoGetHeuristic": [*[_Pointer] * 7, _Int, ctypes.POINTER(Heuristic), ctypes.POINTER(_Int)],
    "cublasLtMatmul": [*[_Pointer] * 14, _Size, _Pointer],
}
"""The functions that are called; each gives a status, 0 for success."""


@dataclass(frozen=True, slots=True)
class MatrixShape:
    """A matrix by columns, in elements; `alignment` of its address in bytes."""

    dtype: str
    transposed: bool
    leading: int
    stride: int
    alignment: int


@dataclass(frozen=True, slots=True)
class ProductShape:
    """result = scale * product + sign * added + bias, of `batch` products: numbers of a `products.LibraryProduct`.
    Without `added` it is the result itself that is added to, if `sign` is not 0. `is_rounding`: factors of f32 may be
    rounded to 11 bits."""

    rows: int
    columns: int
    depth: int
    batch: int
    accumulator: str
    first: MatrixShape
    second: MatrixShape
    result: MatrixShape
    is_rounding: bool = False
    scale: float = 1.0
    sign: int = 0
    added: MatrixShape | None = None
    has_bias: bool = False


@dataclass(slots=True)
class ProductPlan:
    """A shape with the library's descriptors and its algorithm; `workspace` in bytes. `scales` are two numbers in the
    type of the sums, for product and what is added."""

    shape: ProductShape
    description: ctypes.c_void_p
    scales: Any
    handles: list[ctypes.c_void_p] = field(default_factory=list[ctypes.c_void_p])
    heuristic: Heuristic = field(default_factory=Heuristic)

    @property
    def workspace(self) -> int:
        return int(self.heuristic.workspace)

    @property
    def layouts(self) -> tuple[ctypes.c_void_p, ...]:
        """Of first, second, what is added, result: the last two are one where the result is added to."""
        return (*self.handles[:2], self.handles[2], self.handles[-1])


def find_library() -> Library | None:
    """The library of the package nvidia-cublas, else that of the system; None if there is none."""
    return open_first(candidates(_PACKAGED, _NAMES, "cublasLt"), SIGNATURES, {"cublasLtGetVersion": ctypes.c_size_t})


class Addresses(NamedTuple):
    """Where the matrices of a product lie; `added` and `bias` are 0 without one."""

    first: int
    second: int
    result: int
    added: int = 0
    bias: int = 0


class CublasLt(Planner[ProductShape, ProductPlan]):
    """One handle of the library."""

    name = "cuBLASLt"
    version_function, destroy_function = "cublasLtGetVersion", "cublasLtDestroy"

    def __init__(self, library: Library, *, workspace_bytes: int = WORKSPACE_BYTES) -> None:
        super().__init__(library, workspace_bytes)

    def open(self) -> ctypes.c_void_p:
        return self._create("cublasLtCreate")

    def run(self, plan: ProductPlan, addresses: Sequence[int], workspace: int, stream: int) -> None:
        """The addresses are `Addresses`."""
        first, second, result, added, bias = addresses
        if plan.shape.has_bias:
            self._set("MatmulDesc", plan.description, {DESC_BIAS: ctypes.c_void_p(bias)})
        a, b, c, d = plan.layouts
        scale = ctypes.addressof(plan.scales)
        factors = scale, first, a, second, b
        results = scale + ctypes.sizeof(plan.scales) // 2, added or result, c, result, d
        how = ctypes.addressof(plan.heuristic), workspace, plan.workspace, stream
        self.call("cublasLtMatmul", self._handle, plan.description, *factors, *results, *how)

    # --- one shape

    def new_plan(self, shape: ProductShape) -> ProductPlan:
        number = ctypes.c_double if shape.accumulator == "f64" else ctypes.c_float
        plan = ProductPlan(shape, self._description(shape), (number * 2)(shape.scale, shape.sign))
        try:
            for one, sizes in (
                (shape.first, (shape.rows, shape.depth)),
                (shape.second, (shape.depth, shape.columns)),
                (shape.added, (shape.rows, shape.columns)),
                (shape.result, (shape.rows, shape.columns)),
            ):
                if one is not None:
                    rows, columns = reversed(sizes) if one.transposed else sizes
                    plan.handles.append(self._layout(one, rows, columns, shape.batch))
            self._choose(plan)
        except LibraryError:
            self.drop(plan)
            raise
        return plan

    def _description(self, shape: ProductShape) -> ctypes.c_void_p:
        compute = COMPUTE_64F if shape.accumulator == "f64" else COMPUTE_32F
        if shape.is_rounding and shape.first.dtype == "f32":
            compute = COMPUTE_32F_FAST_TF32
        description = self._create("cublasLtMatmulDescCreate", compute, TYPES[shape.accumulator])
        numbers = {
            DESC_TRANSPOSE_FIRST: TRANSPOSED * shape.first.transposed,
            DESC_TRANSPOSE_SECOND: TRANSPOSED * shape.second.transposed,
            DESC_EPILOGUE: EPILOGUES["bias" if shape.has_bias else "none"],
            **({DESC_BIAS_TYPE: TYPES[shape.result.dtype]} if shape.has_bias else {}),
        }
        values: dict[int, Any] = {attribute: ctypes.c_int32(number) for attribute, number in numbers.items()}
        if shape.has_bias:  # whoever asks for an algorithm has to have one; where it lies is said when it is known
            values[DESC_BIAS] = ctypes.c_void_p(_ANY_BIAS)
        return self._set("MatmulDesc", description, values)

    def _layout(self, matrix: MatrixShape, rows: int, columns: int, batch: int) -> ctypes.c_void_p:
        leading = max(matrix.leading, rows, 1)
        layout = self._create("cublasLtMatrixLayoutCreate", TYPES[matrix.dtype], rows, columns, leading)
        batches = {LAYOUT_BATCH_COUNT: ctypes.c_int32(batch), LAYOUT_BATCH_STRIDE: ctypes.c_int64(matrix.stride)}
        return self._set("MatrixLayout", layout, batches if batch > 1 else {})

    def _choose(self, plan: ProductPlan) -> None:
        shape = plan.shape
        matrices = (shape.first, shape.second, shape.added or shape.result, shape.result)
        preferences = {
            PREFERENCE_WORKSPACE: ctypes.c_uint64(self._most),
            PREFERENCE_REDUCTIONS: ctypes.c_uint32(IN_ORDER),
            **{each: ctypes.c_uint32(one.alignment) for each, one in zip(PREFERENCE_ALIGNMENTS, matrices, strict=True)},
        }
        preference = self._create("cublasLtMatmulPreferenceCreate")
        try:
            self._set("MatmulPreference", preference, preferences)
            count = ctypes.c_int(0)
            arguments = (self._handle, plan.description, *plan.layouts, preference, 1)
            self.call("cublasLtMatmulAlgoGetHeuristic", *arguments, ctypes.byref(plan.heuristic), ctypes.byref(count))
        finally:
            self.call("cublasLtMatmulPreferenceDestroy", preference)
        if count.value < 1 or plan.heuristic.state != 0:
            raise LibraryError("cuBLASLt offers no algorithm for this shape")

    def drop(self, plan: ProductPlan) -> None:
        for layout in plan.handles:
            self.call("cublasLtMatrixLayoutDestroy", layout)
        self.call("cublasLtMatmulDescDestroy", plan.description)

    # --- calls

    def _create(self, function: str, *arguments: Any) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self.call(function, ctypes.byref(handle), *arguments)
        return handle

    def _set(self, kind: str, target: ctypes.c_void_p, attributes: Mapping[int, Any]) -> ctypes.c_void_p:
        """Sets attributes of a descriptor, each a value of C; the descriptor."""
        for attribute, value in attributes.items():
            where = ctypes.addressof(value), ctypes.sizeof(value)
            self.call(f"cublasLt{kind}SetAttribute", target, attribute, *where)
        return target

    def call(self, function: str, *arguments: Any) -> None:
        status = int(getattr(self._library, function)(*arguments))
        if status != 0:
            raise LibraryError(f"{function} of cuBLASLt ends with status {status}")
