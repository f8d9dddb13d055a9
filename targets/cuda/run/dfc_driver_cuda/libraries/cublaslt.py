"""Products by cuBLASLt, where it is installed where a program runs: found, asked what it offers, and called.

Assumes device addresses and a stream of the device's primary context; one caller at a time. Guarantees the same
algorithm for the same shape, alignment and library, one that adds parts of a sum in a fixed order (no atomic
additions), within a bound of workspace. What the library cannot do is `ProductError`: the caller then takes the kernel
of the program, and says so.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Any, Protocol

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

_MOST_ALIGNMENT = 256
_ALGORITHM_WORDS = 8
_NAMES = ("libcublasLt.so.13", "libcublasLt.so.12")
_PACKAGED = ("cu13/lib", "cu12/lib", "cublas/lib")

_Pointer, _Size, _Int = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_Handle = ctypes.POINTER(ctypes.c_void_p)


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
    "cublasLtDestroy": [_Pointer],
    "cublasLtMatrixLayoutCreate": [_Handle, _Int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int64],
    "cublasLtMatrixLayoutDestroy": [_Pointer],
    "cublasLtMatrixLayoutSetAttribute": [_Pointer, _Int, _Pointer, _Size],
    "cublasLtMatmulDescCreate": [_Handle, _Int, _Int],
    "cublasLtMatmulDescDestroy": [_Pointer],
    "cublasLtMatmulDescSetAttribute": [_Pointer, _Int, _Pointer, _Size],
    "cublasLtMatmulPreferenceCreate": [_Handle],
    "cublasLtMatmulPreferenceDestroy": [_Pointer],
    "cublasLtMatmulPreferenceSetAttribute": [_Pointer, _Int, _Pointer, _Size],
    "cublasLtMatmulAlgoGetHeuristic": [
        *[_Pointer] * 7,
        _Int,
        ctypes.POINTER(Heuristic),
        ctypes.POINTER(_Int),
    ],
    "cublasLtMatmul": [*[_Pointer] * 14, _Size, _Pointer],
}
"""The functions that are called; each gives a status, 0 for success."""


class Library(Protocol):
    """The functions of `SIGNATURES` by name, and `cublasLtGetVersion`."""

    def __getattr__(self, name: str) -> Any: ...


class ProductError(RuntimeError):
    """The library refuses; the message says what."""


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


def alignment(address: int) -> int:
    """The largest power of two that divides an address, at most 256."""
    return min(_MOST_ALIGNMENT, address & -address) if address else _MOST_ALIGNMENT


def find_library() -> Library | None:
    """The library of the package nvidia-cublas, else that of the system; None if there is none."""
    for name in _candidates():
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        for function, arguments in SIGNATURES.items():
            getattr(library, function).argtypes = arguments
        library.cublasLtGetVersion.restype = ctypes.c_size_t
        return library
    return None


def _candidates() -> Iterator[str]:
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for part in _PACKAGED:
            yield from (str(path) for name in _NAMES if (path := Path(folder) / part / name).is_file())
    yield from _NAMES
    library = ctypes.util.find_library("cublasLt")
    if library is not None:
        yield library


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the matrices of a product lie; `added` and `bias` are 0 without one."""

    first: int
    second: int
    result: int
    added: int = 0
    bias: int = 0


class CublasLt:
    """One handle of the library."""

    def __init__(self, library: Library, *, workspace_bytes: int = WORKSPACE_BYTES) -> None:
        self._library, self._most = library, workspace_bytes
        self._plans: dict[ProductShape, ProductPlan | str] = {}
        self._handle = self._create("cublasLtCreate")

    def version(self) -> str:
        """What `dfc inspect` says of it: 13.1.0."""
        number = int(self._library.cublasLtGetVersion())
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"

    def plan(self, shape: ProductShape) -> ProductPlan:
        """What the library offers first for a shape; asked once. `ProductError` if it offers nothing."""
        known = self._plans.get(shape)
        if known is None:
            try:
                known = self._new_plan(shape)
            except ProductError as error:
                known = str(error)
            self._plans[shape] = known
        if isinstance(known, str):
            raise ProductError(known)
        return known

    def run(self, plan: ProductPlan, addresses: Addresses, workspace: int, stream: int) -> None:
        """Queues a product on a stream, which may be recording a graph. `workspace` has `plan.workspace` bytes or more,
        at a multiple of 256."""
        if plan.shape.has_bias:
            self._set("cublasLtMatmulDescSetAttribute", plan.description, DESC_BIAS, ctypes.c_void_p(addresses.bias))
        a, b, c, d = plan.layouts
        scale = ctypes.addressof(plan.scales)
        self._call(
            "cublasLtMatmul",
            self._handle,
            plan.description,
            scale,
            addresses.first,
            a,
            addresses.second,
            b,
            scale + ctypes.sizeof(plan.scales) // 2,
            addresses.added or addresses.result,
            c,
            addresses.result,
            d,
            ctypes.addressof(plan.heuristic),
            workspace,
            plan.workspace,
            stream,
        )

    def close(self) -> None:
        """Gives everything back; the object is of no use afterwards."""
        for plan in self._plans.values():
            if isinstance(plan, ProductPlan):
                self._drop(plan)
        self._plans.clear()
        self._call("cublasLtDestroy", self._handle)

    # --- one shape

    def _new_plan(self, shape: ProductShape) -> ProductPlan:
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
        except ProductError:
            self._drop(plan)
            raise
        return plan

    def _description(self, shape: ProductShape) -> ctypes.c_void_p:
        compute = COMPUTE_64F if shape.accumulator == "f64" else COMPUTE_32F
        if shape.is_rounding and shape.first.dtype == "f32":
            compute = COMPUTE_32F_FAST_TF32
        description = self._create("cublasLtMatmulDescCreate", compute, TYPES[shape.accumulator])
        values = [
            (DESC_TRANSPOSE_FIRST, TRANSPOSED * shape.first.transposed),
            (DESC_TRANSPOSE_SECOND, TRANSPOSED * shape.second.transposed),
            (DESC_EPILOGUE, EPILOGUES["bias" if shape.has_bias else "none"]),
        ]
        if shape.has_bias:
            values.append((DESC_BIAS_TYPE, TYPES[shape.result.dtype]))
        for attribute, value in values:
            self._set("cublasLtMatmulDescSetAttribute", description, attribute, ctypes.c_int32(value))
        if shape.has_bias:  # whoever asks for an algorithm has to have one; where it lies is said when it is known
            self._set("cublasLtMatmulDescSetAttribute", description, DESC_BIAS, ctypes.c_void_p(_MOST_ALIGNMENT))
        return description

    def _layout(self, matrix: MatrixShape, rows: int, columns: int, batch: int) -> ctypes.c_void_p:
        leading = max(matrix.leading, rows, 1)
        layout = self._create("cublasLtMatrixLayoutCreate", TYPES[matrix.dtype], rows, columns, leading)
        if batch > 1:
            name = "cublasLtMatrixLayoutSetAttribute"
            self._set(name, layout, LAYOUT_BATCH_COUNT, ctypes.c_int32(batch))
            self._set(name, layout, LAYOUT_BATCH_STRIDE, ctypes.c_int64(matrix.stride))
        return layout

    def _choose(self, plan: ProductPlan) -> None:
        shape, name = plan.shape, "cublasLtMatmulPreferenceSetAttribute"
        preference = self._create("cublasLtMatmulPreferenceCreate")
        try:
            self._set(name, preference, PREFERENCE_WORKSPACE, ctypes.c_uint64(self._most))
            self._set(name, preference, PREFERENCE_REDUCTIONS, ctypes.c_uint32(IN_ORDER))
            matrices = (shape.first, shape.second, shape.added or shape.result, shape.result)
            for attribute, one in zip(PREFERENCE_ALIGNMENTS, matrices, strict=True):
                self._set(name, preference, attribute, ctypes.c_uint32(one.alignment))
            count = ctypes.c_int(0)
            arguments = (self._handle, plan.description, *plan.layouts, preference, 1)
            self._call("cublasLtMatmulAlgoGetHeuristic", *arguments, ctypes.byref(plan.heuristic), ctypes.byref(count))
        finally:
            self._call("cublasLtMatmulPreferenceDestroy", preference)
        if count.value < 1 or plan.heuristic.state != 0:
            raise ProductError("cuBLASLt offers no algorithm for this shape")

    def _drop(self, plan: ProductPlan) -> None:
        for layout in plan.handles:
            self._call("cublasLtMatrixLayoutDestroy", layout)
        self._call("cublasLtMatmulDescDestroy", plan.description)

    # --- calls

    def _create(self, function: str, *arguments: Any) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self._call(function, ctypes.byref(handle), *arguments)
        return handle

    def _set(self, function: str, target: ctypes.c_void_p, attribute: int, value: Any) -> None:
        self._call(function, target, attribute, ctypes.addressof(value), ctypes.sizeof(value))

    def _call(self, function: str, *arguments: Any) -> None:
        status = int(getattr(self._library, function)(*arguments))
        if status != 0:
            raise ProductError(f"{function} of cuBLASLt ends with status {status}")
