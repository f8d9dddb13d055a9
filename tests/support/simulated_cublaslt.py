"""cuBLASLt on a simulated device: records calls, and what it queues multiplies matrices in simulated memory.

A product touches the bytes of its matrices, its bias and its workspace, and no others, so that missing edges of a graph
show as races. Arithmetic is NumPy's in f64, rounded once: no kernel adds up like that.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from dfc.ir.dtypes import BF16
from dfc_driver_cuda.libraries.cublaslt import (
    COMPUTE_32F_FAST_TF32,
    DESC_BIAS,
    DESC_EPILOGUE,
    DESC_TRANSPOSE_FIRST,
    DESC_TRANSPOSE_SECOND,
    EPILOGUES,
    LAYOUT_BATCH_COUNT,
    LAYOUT_BATCH_STRIDE,
)
from tests.support.recording_library import RecordingLibrary
from tests.support.simulated_device import SimulatedDevice
from tests.support.simulated_memory import DeviceError, Pointer

KINDS = {0: np.float32, 1: np.float64, 2: np.float16, 14: BF16.numpy}


@dataclass(frozen=True)
class Layout:
    """What `cublasLtMatrixLayoutCreate` was told."""

    kind: int
    rows: int
    columns: int
    leading: int


class SimulatedCublasLt(RecordingLibrary):
    """The library of one device; `products` counts those that ran, `rounding` those that rounded f32 to 11 bits."""

    def __init__(self, *, offers: int = 1) -> None:
        super().__init__(offers=offers)
        self.device: SimulatedDevice | None = None
        self.computes: dict[int, int] = {}
        self.layouts: dict[int, Layout] = {}
        self.products = 0
        self.rounding = 0

    def _answer(self, name: str, arguments: tuple[Any, ...]) -> None:
        super()._answer(name, arguments)
        if name == "cublasLtMatmulDescCreate":
            self.computes[arguments[0][0]] = arguments[1]
        elif name == "cublasLtMatrixLayoutCreate":
            self.layouts[arguments[0][0]] = Layout(*arguments[1:])
        elif name == "cublasLtMatmul":
            assert self.device is not None
            self.device.queue_on(arguments[15], self._product(self.matmuls[-1]))

    def _product(self, call: dict[str, Any]) -> Any:
        """What runs later, with what was set when it was queued."""
        description = call["description"]

        def attribute(number: int, layout: int, otherwise: int = 0) -> int:
            data = self.attributes.get((layout, number))
            return otherwise if data is None else struct.unpack("<i" if len(data) == 4 else "<q", data)[0]

        flips = [attribute(one, description) for one in (DESC_TRANSPOSE_FIRST, DESC_TRANSPOSE_SECOND)]
        has_bias = attribute(DESC_EPILOGUE, description) == EPILOGUES["bias"]
        bias = attribute(DESC_BIAS, description) if has_bias else 0
        count = attribute(LAYOUT_BATCH_COUNT, call["d"], 1)
        strides = {one: attribute(LAYOUT_BATCH_STRIDE, call[one]) for one in "abcd"}
        is_tf32 = self.computes[description] == COMPUTE_32F_FAST_TF32
        kind = "<d" if self.scale_bytes[description] == 8 else "<f"
        scale, more = (struct.unpack(kind, call[one])[0] for one in ("alpha", "beta"))

        def run() -> None:
            self.products += 1
            self.rounding += is_tf32
            self._touch_workspace(call["workspace"], call["size"])
            for number in range(count):

                def matrix(name: str, where: str, number: int = number) -> np.ndarray:
                    return self._read(call[where], self.layouts[call[name]], number * strides[name])

                a, b = (_rounded(one) if is_tf32 else one for one in (matrix("a", "first"), matrix("b", "second")))
                result = scale * ((a.T if flips[0] else a) @ (b.T if flips[1] else b))
                result = result + more * matrix("c", "c_in") if more else result
                self._write(call["result"], self.layouts[call["d"]], number * strides["d"], result, bias)
            self._touch_workspace(call["workspace"], call["size"])

        return run

    def _pointer(self, address: int, kind: int) -> Pointer:
        assert self.device is not None
        return Pointer(self.device.memory_of, address, KINDS[kind])

    def _touch_workspace(self, address: int, size: int) -> None:
        assert self.device is not None
        if address % 256:
            raise DeviceError(f"a workspace at {address:#x}")
        self.device.memory_of.write(address, b"\1" * size)

    def _read(self, address: int, layout: Layout, start: int) -> np.ndarray:
        values = self._pointer(address, layout.kind)
        rows, columns = range(layout.rows), range(layout.columns)
        return np.array([[float(values[start + r + c * layout.leading]) for c in columns] for r in rows])

    def _write(self, address: int, layout: Layout, start: int, result: np.ndarray, bias: int) -> None:
        values = self._pointer(address, layout.kind)
        added = self._pointer(bias, layout.kind) if bias else None
        for (row, column), value in np.ndenumerate(result):
            values[start + row + column * layout.leading] = value + (0.0 if added is None else float(added[row]))


def _rounded(numbers: np.ndarray) -> np.ndarray:
    """To 11 bits."""
    mantissas, exponents = np.frexp(numbers)
    return np.ldexp(np.round(mantissas * 2.0**11) / 2.0**11, exponents)


def with_library(library: SimulatedCublasLt, **more: Any) -> SimulatedDevice:
    """A device whose programs use it."""
    library.device = SimulatedDevice(library=library, **more)
    return library.device
