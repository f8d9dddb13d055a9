"""cuDNN's graph interface in Python: strict about descriptors, and what it runs convolves in simulated memory.

Each function is a real C callback, so that arguments are converted as for the library. A descriptor takes only the
attributes that its kind has, of their type, before it is finished, and must have all of them then. What runs touches
the bytes of its tensors and its workspace, and no others. Arithmetic is NumPy's in f64, rounded once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from dfc_driver_cuda.libraries import cudnn_constants as c
from dfc_driver_cuda.libraries.cudnn_backend import SIGNATURES
from dfc_driver_cuda.libraries.cudnn_graphs import OPERATIONS
from tests.support.convolving import convolved, windows_of
from tests.support.simulated_memory import DeviceError, DeviceMemory, Pointer

OK, NOT_INITIALIZED, BAD_PARAM, NOT_SUPPORTED = 0, 1001, 2000, 3000
VERSION, RELEASE = 92801, 13000
KINDS = {0: np.float32, 1: np.float64, 2: np.float16, 9: ml_dtypes.bfloat16}
SIZES = {
    c.HANDLE: ctypes.c_void_p,
    c.DATA_TYPE: ctypes.c_int32,
    c.BOOLEAN: ctypes.c_bool,
    c.INT64: ctypes.c_int64,
    c.FLOAT: ctypes.c_float,
    c.DOUBLE: ctypes.c_double,
    c.POINTER: ctypes.c_void_p,
    c.CONVOLUTION_MODE: ctypes.c_int32,
    c.MODE: ctypes.c_int32,
    c.NOTE: ctypes.c_int32,
    c.POINTWISE_MODE: ctypes.c_int32,
    c.BACKEND_DESCRIPTOR: ctypes.c_void_p,
}
D = c.BACKEND_DESCRIPTOR
FACTOR = (c.FLOAT, c.DOUBLE)


def _operation(kind: str) -> dict[int, Any]:
    _, tensors, factors = OPERATIONS[kind]
    return {**dict.fromkeys(tensors, D), **dict.fromkeys(factors, FACTOR)}


ATTRIBUTES: dict[int, dict[int, Any]] = {
    c.POINTWISE: {c.POINTWISE_KIND: c.POINTWISE_MODE, c.POINTWISE_TYPE: c.DATA_TYPE},
    c.CONVOLUTION: {
        c.CONVOLUTION_TYPE: c.DATA_TYPE,
        c.CONVOLUTION_KIND: c.CONVOLUTION_MODE,
        c.CONVOLUTION_DILATIONS: c.INT64,
        c.CONVOLUTION_STEPS: c.INT64,
        c.CONVOLUTION_HIGH: c.INT64,
        c.CONVOLUTION_LOW: c.INT64,
        c.CONVOLUTION_SPATIAL_AXES: c.INT64,
    },
    c.ENGINE: {},
    c.ENGINE_CONFIG: {},
    c.HEURISTICS: {c.HEURISTIC_MODE: c.MODE, c.HEURISTIC_GRAPH: D},
    c.EXECUTION_PLAN: {c.PLAN_HANDLE: c.HANDLE, c.PLAN_CONFIG: D},
    c.OPERATION_FORWARD: _operation("forward"),
    c.OPERATION_DATA: _operation("data"),
    c.OPERATION_WEIGHTS: _operation("weights"),
    c.OPERATION_POINTWISE: {c.POINTWISE_DESCRIPTION: D, c.POINTWISE_X: D, c.POINTWISE_B: D, c.POINTWISE_Y: D},
    c.OPERATION_GRAPH: {c.GRAPH_OPERATIONS: D},
    c.VARIANT_PACK: {c.PACK_UIDS: c.INT64, c.PACK_POINTERS: c.POINTER, c.PACK_WORKSPACE: c.POINTER},
    c.TENSOR: {
        c.TENSOR_ALIGNMENT: c.INT64,
        c.TENSOR_TYPE: c.DATA_TYPE,
        c.TENSOR_EXTENTS: c.INT64,
        c.TENSOR_STRIDES: c.INT64,
        c.TENSOR_UID: c.INT64,
    },
}
"""What must be set, with its type."""

OPTIONAL = {c.TENSOR: {c.TENSOR_VIRTUAL: c.BOOLEAN}}


@dataclass(frozen=True)
class Engine:
    """An engine that is offered: its notes, what workspace it takes, whether a plan can be made of it."""

    index: int = 7
    notes: tuple[int, ...] = ()
    workspace: int = 4096
    fits: bool = True


@dataclass
class Descriptor:
    """A descriptor."""

    kind: int
    values: dict[int, list[Any]] = field(default_factory=dict[int, list[Any]])
    finished: bool = False
    engine: Engine | None = None
    graph: int = 0


class Refusal(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class SimulatedCudnn:
    """The library of one device. `offers` are its engines by mode; `fails` the functions that end with a status;
    `convolutions` counts those that ran, by kind."""

    def __init__(self, offers: dict[int, Sequence[Engine]] | None = None) -> None:
        self.offers = offers if offers is not None else {c.BEST: [Engine()], c.FALLBACK: []}
        self.fails: dict[str, int] = {}
        self.refused_kind = ""
        self.open: dict[int, Descriptor | None] = {}
        self.device: Any = None
        self.stream = 0
        self.ran: list[str] = []
        self.asked = 0
        self.last = b""
        self._next = 1000
        self._functions = {name: self._function(name, arguments) for name, arguments in SIGNATURES.items()}

    def __getattr__(self, name: str) -> Any:
        functions = self.__dict__.get("_functions", {})
        if name not in functions:
            raise AttributeError(name)
        return functions[name]

    def cudnnGetVersion(self) -> int:
        return VERSION

    def cudnnGetErrorString(self, status: int) -> bytes:
        return f"STATUS_{status}".encode()

    def cudnnGetLastErrorString(self, text: Any, _: Any) -> None:
        text.value = self.last

    def _function(self, name: str, arguments: list[Any]) -> Any:
        def called(*arguments: Any) -> int:
            if name in self.fails:
                self.last = b"it was told to fail"
                return self.fails[name]
            try:
                getattr(self, f"_{name}")(*arguments)
            except Refusal as refusal:
                self.last = refusal.text.encode()
                return refusal.status
            return OK

        return ctypes.CFUNCTYPE(ctypes.c_int, *arguments)(called)

    def _new(self, descriptor: Descriptor | None) -> int:
        self._next += 8
        self.open[self._next] = descriptor
        return self._next

    def _of(self, handle: int, kind: int | None = None) -> Descriptor:
        descriptor = self.open.get(handle)
        if descriptor is None or (kind is not None and descriptor.kind != kind):
            raise Refusal(BAD_PARAM, f"{handle} is no descriptor of kind {kind}")
        return descriptor

    # --- functions

    def _cudnnCreate(self, where: Any) -> None:
        where[0] = self._new(None)

    def _cudnnDestroy(self, handle: int) -> None:
        del self.open[handle]

    def _cudnnSetStream(self, _: int, stream: int) -> None:
        self.stream = stream

    def _cudnnBackendCreateDescriptor(self, kind: int, where: Any) -> None:
        if kind not in ATTRIBUTES:
            raise Refusal(BAD_PARAM, f"no descriptors of kind {kind}")
        where[0] = self._new(Descriptor(kind))

    def _cudnnBackendDestroyDescriptor(self, handle: int) -> None:
        self._of(handle)
        del self.open[handle]

    def _cudnnBackendSetAttribute(self, handle: int, attribute: int, kind: int, count: int, values: int) -> None:
        descriptor = self._of(handle)
        expected = {**ATTRIBUTES[descriptor.kind], **OPTIONAL.get(descriptor.kind, {})}.get(attribute)
        if (
            descriptor.finished
            or expected is None
            or kind not in (expected if isinstance(expected, tuple) else (expected,))
        ):
            raise Refusal(BAD_PARAM, f"attribute {attribute} of type {kind} does not go with {descriptor}")
        array = (SIZES[kind] * count).from_address(values)
        descriptor.values[attribute] = list(array)
        if kind == D and any(not self._of(one).finished and self._of(one).engine is None for one in array):
            raise Refusal(BAD_PARAM, f"attribute {attribute} is a descriptor that is not finished")

    def _cudnnBackendGetAttribute(
        self, handle: int, attribute: int, kind: int, most: int, count: Any, values: int
    ) -> None:
        descriptor = self._of(handle)
        answer = self._asked(descriptor, attribute)
        count[0] = len(answer)
        if most and attribute in (c.HEURISTIC_RESULTS, c.CONFIG_ENGINE):
            for target, engine in zip((ctypes.c_void_p * most).from_address(values), answer, strict=False):
                self._of(target).engine = engine
                self._of(target).graph = descriptor.graph or descriptor.values.get(c.HEURISTIC_GRAPH, [0])[0]
        elif most:
            array = (SIZES[kind] * most).from_address(values)
            array[: min(most, len(answer))] = answer[:most]

    def _asked(self, descriptor: Descriptor, attribute: int) -> list[Any]:
        engine = descriptor.engine
        match attribute:
            case c.HEURISTIC_RESULTS if descriptor.finished:
                self.asked += 1
                return list(self.offers.get(descriptor.values[c.HEURISTIC_MODE][0], ()))
            case c.CONFIG_ENGINE if engine is not None:
                return [engine]
            case c.ENGINE_NOTES if engine is not None:
                return list(engine.notes)
            case c.ENGINE_INDEX if engine is not None:
                return [engine.index]
            case c.PLAN_WORKSPACE if descriptor.finished:
                config = self._of(descriptor.values[c.PLAN_CONFIG][0]).engine
                assert config is not None
                return [config.workspace]
            case _:
                raise Refusal(BAD_PARAM, f"attribute {attribute} cannot be asked of {descriptor}")

    def _cudnnBackendFinalize(self, handle: int) -> None:
        descriptor = self._of(handle)
        missing = ATTRIBUTES[descriptor.kind].keys() - descriptor.values.keys()
        if descriptor.finished or missing:
            raise Refusal(BAD_PARAM, f"{descriptor} lacks {missing}")
        if descriptor.kind == c.EXECUTION_PLAN:
            config = self._of(descriptor.values[c.PLAN_CONFIG][0], c.ENGINE_CONFIG)
            if config.engine is None or not config.engine.fits:
                raise Refusal(NOT_SUPPORTED, "no such plan")
        if descriptor.kind in (c.OPERATION_FORWARD, c.OPERATION_DATA, c.OPERATION_WEIGHTS):
            self._check(descriptor)
        descriptor.finished = True

    def _cudnnBackendExecute(self, _: int, plan: int, pack: int) -> None:
        assert self.device is not None
        config = self._of(self._of(plan, c.EXECUTION_PLAN).values[c.PLAN_CONFIG][0])
        values = self._of(pack, c.VARIANT_PACK).values
        addresses = dict(zip(values[c.PACK_UIDS], values[c.PACK_POINTERS], strict=True))
        self.device.queue_on(self.stream, self._run(config, addresses, values[c.PACK_WORKSPACE][0]))

    # --- what runs

    def _check(self, descriptor: Descriptor) -> None:
        """That extents fit each other, as the library asks."""
        parts = self._parts(descriptor)
        if parts.kind == self.refused_kind:
            raise Refusal(NOT_SUPPORTED, "not of this kind")
        it = parts.convolution.values
        image, filter_, result = (one.values[c.TENSOR_EXTENTS] for one in parts.tensors)
        for n, (size, window, count) in enumerate(zip(image[2:], filter_[2:], result[2:], strict=True)):
            step, dilation = it[c.CONVOLUTION_STEPS][n], it[c.CONVOLUTION_DILATIONS][n]
            around = it[c.CONVOLUTION_LOW][n] + it[c.CONVOLUTION_HIGH][n]
            low = min(it[c.CONVOLUTION_LOW][n], it[c.CONVOLUTION_HIGH][n])
            if low < 0 or (size + around - (window - 1) * dilation - 1) // step + 1 != count:
                raise Refusal(BAD_PARAM, f"{count} windows of {window} in {size} elements")
        if image[0] != result[0] or filter_[0] != result[1] or image[1] % filter_[1] or len(image) not in (4, 5):
            raise Refusal(BAD_PARAM, "batch, channels, or number of axes")

    def _parts(self, descriptor: Descriptor) -> Parts:
        kind = next(name for name, (number, _, _) in OPERATIONS.items() if number == descriptor.kind)
        handles = [descriptor.values[one][0] for one in OPERATIONS[kind][1]]
        convolution, *tensors = (self._of(handle) for handle in handles)
        return Parts(kind, convolution, tensors)

    def _run(self, config: Descriptor, addresses: dict[int, int], workspace: int) -> Any:
        """What runs later."""
        operations = [self._of(one) for one in self._of(config.graph, c.OPERATION_GRAPH).values[c.GRAPH_OPERATIONS]]
        kinds = [self._parts(one).kind for one in operations if one.kind != c.OPERATION_POINTWISE]
        memory: DeviceMemory = self.device.memory_of
        assert config.engine is not None
        size = config.engine.workspace

        def run() -> None:
            self.ran += kinds
            if workspace % 256:
                raise DeviceError(f"a workspace at {workspace:#x}")
            memory.write(workspace, b"\1" * size)
            between: dict[int, np.ndarray] = {}
            for operation in operations:
                if operation.kind == c.OPERATION_POINTWISE:
                    first, second, target = (
                        self._of(operation.values[one][0]) for one in (c.POINTWISE_X, c.POINTWISE_B, c.POINTWISE_Y)
                    )
                    result = self._read(first, addresses, between) + self._read(second, addresses, between)
                else:
                    target, result = self._convolve(self._parts(operation), addresses, between)
                self._write(target, result, addresses, between)

        return run

    def _convolve(
        self, parts: Parts, addresses: dict[int, int], between: dict[int, np.ndarray]
    ) -> tuple[Descriptor, np.ndarray]:
        target = parts.tensors[{"forward": 2, "data": 0, "weights": 1}[parts.kind]]
        tensors = [
            np.zeros(one.values[c.TENSOR_EXTENTS]) if one is target else self._read(one, addresses, between)
            for one in parts.tensors
        ]
        it = parts.convolution.values
        numbers = (it[c.CONVOLUTION_STEPS], it[c.CONVOLUTION_DILATIONS], it[c.CONVOLUTION_LOW])
        windows = windows_of(tensors[0].shape[2:], tensors[1].shape[2:], *numbers, tensors[2].shape[2:])
        return target, convolved(parts.kind, tensors, windows, tensors[0].shape[1] // tensors[1].shape[1])

    def _offsets(self, tensor: Descriptor) -> np.ndarray:
        extents, steps = tensor.values[c.TENSOR_EXTENTS], tensor.values[c.TENSOR_STRIDES]
        offsets = np.zeros(extents, np.int64)
        for axis, (count, step) in enumerate(zip(extents, steps, strict=True)):
            offsets += (np.arange(count) * step).reshape(-1, *[1] * (len(extents) - axis - 1))
        return offsets

    def _pointer(self, tensor: Descriptor, addresses: dict[int, int]) -> Pointer:
        address = addresses[tensor.values[c.TENSOR_UID][0]]
        if address % tensor.values[c.TENSOR_ALIGNMENT][0]:
            raise DeviceError(f"a tensor at {address:#x}, which is not aligned as was said")
        return Pointer(self.device.memory_of, address, KINDS[tensor.values[c.TENSOR_TYPE][0]])

    def _read(self, tensor: Descriptor, addresses: dict[int, int], between: dict[int, np.ndarray]) -> np.ndarray:
        if c.TENSOR_VIRTUAL in tensor.values:
            return between[tensor.values[c.TENSOR_UID][0]]
        pointer, offsets = self._pointer(tensor, addresses), self._offsets(tensor)
        return np.array([float(pointer[int(one)]) for one in offsets.reshape(-1)]).reshape(offsets.shape)

    def _write(
        self, tensor: Descriptor, result: np.ndarray, addresses: dict[int, int], between: dict[int, np.ndarray]
    ) -> None:
        if c.TENSOR_VIRTUAL in tensor.values:
            between[tensor.values[c.TENSOR_UID][0]] = result
            return
        pointer, offsets = self._pointer(tensor, addresses), self._offsets(tensor)
        for offset, value in zip(offsets.reshape(-1), result.reshape(-1), strict=True):
            pointer[int(offset)] = value


@dataclass(frozen=True)
class Parts:
    """An operation: image, filter and result."""

    kind: str
    convolution: Descriptor
    tensors: list[Descriptor]
