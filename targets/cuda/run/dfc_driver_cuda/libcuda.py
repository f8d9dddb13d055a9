"""A device through the CUDA driver API, by way of cuda-bindings: the only module that knows either.

Assumes Linux and, for graphs with conditional nodes, CUDA 12.4. Everything is imported when it is first needed.
Guarantees that what goes wrong is an error of `dfc_runtime.devices`: no driver or bindings, a driver that is too old,
no such device, out of memory (with the bytes asked and free), or a failure of the device itself.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from dfc_driver_cuda.libraries import cudnn_backend
from dfc_driver_cuda.libraries.cublaslt import find_library
from dfc_driver_cuda.libraries.native import Library
from dfc_runtime import devices
from dfc_runtime.calls.memory import in_words
from dfc_runtime.errors import LimitError
from dfc_runtime.graphs.device import FROM_DEVICE, ON_DEVICE, TO_DEVICE, NotTaken

OLDEST = 12_000
"""The oldest driver, as it counts versions: graphs whose nodes can be updated, PTX of the compiler."""

CONDITIONAL = 12_040
"""The first driver whose conditional nodes nest."""

NEW_PTX, RECORDED = "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "recorded"
OUT_OF_MEMORY, NO_DEVICE = "CUDA_ERROR_OUT_OF_MEMORY", "CUDA_ERROR_NO_DEVICE"


def _bindings() -> Any:
    """The driver API of cuda-bindings, with the driver started."""
    try:
        driver: Any = import_module("cuda.bindings.driver")  # the extra `cuda-run`: not needed without a GPU
    except ImportError:
        raise devices.no_bindings() from None
    try:
        (code,) = driver.cuInit(0)
    except RuntimeError:
        raise devices.no_driver("there is no libcuda.so.1") from None
    if code.name == NO_DEVICE:
        raise devices.no_device(0, ())
    if code.value:
        raise devices.no_driver(_error_text(driver, code))
    _, version = driver.cuDriverGetVersion()
    if version < OLDEST:
        raise devices.old_driver(_version(version), _version(OLDEST))
    return driver


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _needed(ptx: bytes) -> str:
    """The release of CUDA that brought the version of PTX which the code states: version 8 came with 12, 9 with 13."""
    match = re.search(rb"\.version (\d+)\.(\d+)", ptx)
    return f"{int(match[1]) + 4}.{int(match[2])}" if match else "a later one"


def _error_text(driver: Any, code: Any) -> str:
    """What the driver says about an error."""
    try:
        _, text = driver.cuGetErrorString(code)
    except RuntimeError:
        text = None
    return f"{code.name}: {text.decode()}" if text else str(code.name)


def _find(driver: Any, ordinal: int) -> Any:
    """The device of that number."""
    _, count = driver.cuDeviceGetCount()
    if not 0 <= ordinal < count:
        raise devices.no_device(ordinal, [_name(driver, number) for number in range(count)])
    _, device = driver.cuDeviceGet(ordinal)
    return device


def _name(driver: Any, ordinal: int) -> str:
    _, device = driver.cuDeviceGet(ordinal)
    _, name = driver.cuDeviceGetName(96, device)
    return bytes(name).rstrip(b"\0").decode(errors="replace")


def _capability(driver: Any, device: Any) -> tuple[int, int]:
    names = driver.CUdevice_attribute
    _, major = driver.cuDeviceGetAttribute(names.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device)
    _, minor = driver.cuDeviceGetAttribute(names.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device)
    return int(major), int(minor)


def device_bits(ordinal: int) -> frozenset[str]:
    """What code a device runs."""
    driver = _bindings()
    _, version = driver.cuDriverGetVersion()
    releases = (f"cuda_{release}" for release in range(11, int(version) // 1000 + 1))
    return capability_bits(*_capability(driver, _find(driver, ordinal))).union(releases)


def capability_bits(major: int, minor: int) -> frozenset[str]:
    """Machine code of its own family, up to its own; PTX of every architecture up to its own. `cuda_13` stands beside
    machine code: it was made by an assembler of that release, which older drivers need not understand."""
    own = {f"sm_{major}{number}" for number in range(minor + 1)}
    earlier = {f"compute_{family}{number}" for family in range(5, major) for number in range(10)}
    return frozenset(own | earlier | {f"compute_{major}{number}" for number in range(minor + 1)})


def open_device(ordinal: int) -> CudaDevice:
    """The device of that number, with a hold on its primary context."""
    driver = _bindings()
    return CudaDevice(driver, _find(driver, ordinal))


class CudaDevice:
    """One device. Its context is the primary one, which other libraries of the process use as well."""

    def __init__(self, driver: Any, device: Any) -> None:
        self.api = driver
        self._device = device
        self._failed = False
        _, version = driver.cuDriverGetVersion()
        self.conditional_nodes = int(version) >= CONDITIONAL
        self.context = self.do("cuDevicePrimaryCtxRetain", device)
        self._modules: list[Any] = []
        self._recorder: Any = None
        with self.current():
            self.stream = self.do("cuStreamCreate", int(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))

    def do(self, name: str, *arguments: object) -> Any:
        """Calls the driver: its value, if it has one. A failure is that of the device."""
        code, *values = getattr(self.api, name)(*arguments)
        if code.name == OUT_OF_MEMORY:
            free, total = map(in_words, self.memory())
            text = f"the launch of a call does not fit GPU memory, of which {free} of {total} are free"
            raise LimitError(f"{text}: feed smaller batches, or end what else uses the GPU", code="E0925")
        if code.value:
            self._failed = True
            raise devices.device_failed(f"{name}: {_error_text(self.api, code)}")
        return values[0] if values else None

    def release(self, name: str, *arguments: object) -> None:
        """Gives something back. A device that has failed has nothing to give, and says so only once."""
        if not self._failed:
            self.do(name, *arguments)

    @contextmanager
    def current(self) -> Generator[None]:
        self.do("cuCtxPushCurrent", self.context)
        try:
            yield
        finally:
            self.api.cuCtxPopCurrent()

    def _allocated(self, name: str, size: int, what: str, *arguments: object) -> int:
        code, address = getattr(self.api, name)(max(size, 1), *arguments)
        if code.name == OUT_OF_MEMORY:
            free, total = self.memory()
            raise devices.out_of_memory(what, size, free, total)
        if code.value:
            raise devices.device_failed(f"{name}: {_error_text(self.api, code)}")
        return int(address)

    def allocate(self, size: int) -> int:
        return self._allocated("cuMemAlloc", size, "the program")

    def free(self, address: int) -> None:
        self.release("cuMemFree", self.api.CUdeviceptr(address))

    def allocate_pinned(self, size: int) -> int:
        return self._allocated("cuMemHostAlloc", size, "the exchange of feeds and results", 0)

    def free_pinned(self, address: int) -> None:
        self.release("cuMemFreeHost", address)

    def copy_in(self, target: int, source: int, size: int) -> None:
        self.synchronise()
        self.do("cuMemcpyHtoD", self.api.CUdeviceptr(target), source, size)

    def copy_out(self, target: int, source: int, size: int) -> None:
        self.synchronise()
        self.do("cuMemcpyDtoH", target, self.api.CUdeviceptr(source), size)

    def load(self, image: bytes, names: Sequence[str]) -> list[object]:
        code, module = self.api.cuModuleLoadData(image + b"\0")
        if code.name == NEW_PTX:
            _, version = self.api.cuDriverGetVersion()
            raise devices.old_driver(_version(int(version)), _needed(image))
        if code.value:
            raise ValueError(f"the GPU does not take the code: {_error_text(self.api, code)}")
        self._modules.append(module)
        return [self._function(module, name) for name in names]

    def _function(self, module: Any, name: str) -> object:
        code, function = self.api.cuModuleGetFunction(module, name.encode())
        if code.value:
            raise ValueError(f"the code lacks the kernel {name}")
        return function

    @property
    def matrix_library(self) -> Library | None:
        return None if os.environ.get("DFC_CUBLASLT") == "0" else find_library()

    @property
    def convolution_library(self) -> Library | None:
        return cudnn_backend.offered()

    @contextmanager
    def recorded(self, record: Callable[[int], None]) -> Generator[Any]:
        """A graph of what `record` queues, for a while. Other threads, and the library itself, may do as they like
        meanwhile."""
        if self._recorder is None:
            self._recorder = self.do("cuStreamCreate", int(self.api.CUstream_flags.CU_STREAM_NON_BLOCKING))
        mode = self.api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        (code,) = self.api.cuStreamBeginCapture(self._recorder, mode)
        self.check_taken("cuStreamBeginCapture", code)
        graph = None
        try:
            try:
                record(int(self._recorder))
            finally:
                code, graph = self.api.cuStreamEndCapture(self._recorder)
            self.check_taken("cuStreamEndCapture", code)
            yield graph
        finally:
            if graph is not None and int(graph):
                self.release("cuGraphDestroy", graph)

    def check_taken(self, name: str, code: Any) -> None:
        if code.value:
            raise NotTaken(f"{name}: {_error_text(self.api, code)}")

    @property
    def stream_handle(self) -> int:
        return int(self.stream)

    def wait(self, stream: int) -> None:
        """Later work of this device begins after what is queued on that stream of any library now."""
        event = self.do("cuEventCreate", int(self.api.CUevent_flags.CU_EVENT_DISABLE_TIMING))
        self.do("cuEventRecord", event, self.api.CUstream(stream))
        self.do("cuStreamWaitEvent", self.stream, event, 0)
        self.do("cuEventDestroy", event)

    def graph(self) -> CudaGraph:
        return CudaGraph(self, self.do("cuGraphCreate", 0), None)

    def synchronise(self) -> None:
        self.do("cuStreamSynchronize", self.stream)

    def memory(self) -> tuple[int, int]:
        _, free, total = self.api.cuMemGetInfo()
        return int(free), int(total)

    def close(self) -> None:
        if self._failed:
            return
        with self.current():
            for module in self._modules:
                self.release("cuModuleUnload", module)
            self.release("cuStreamDestroy", self.stream)
            if self._recorder is not None:
                self.release("cuStreamDestroy", self._recorder)
        self._modules = []
        self.release("cuDevicePrimaryCtxRelease", self._device)


class Arguments:
    """Arguments of 8 bytes each, as the driver reads them: an array of pointers to values."""

    def __init__(self, values: Sequence[int]) -> None:
        count = max(len(values), 1)
        self._values = (ctypes.c_uint64 * count)(*(value & 0xFFFFFFFFFFFFFFFF for value in values))
        first = ctypes.addressof(self._values)
        self._pointers = (ctypes.c_uint64 * count)(*(first + 8 * number for number in range(count)))
        self.address = ctypes.addressof(self._pointers)


class CudaGraph:
    """A graph, or the body of a conditional node."""

    def __init__(self, device: CudaDevice, graph: Any, owner: CudaGraph | None) -> None:
        self._on = device
        self._graph = graph
        self.nodes_by_id: dict[Any, Any] = {} if owner is None else owner.nodes_by_id

    def kernel(
        self, function: object, blocks: int, threads: int, arguments: Sequence[int], after: Sequence[Any]
    ) -> object:
        parameters, kept = self._on.api.CUDA_KERNEL_NODE_PARAMS(), Arguments(arguments)
        parameters.func, parameters.sharedMemBytes = function, 0
        parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ = blocks, 1, 1
        parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ = threads, 1, 1
        parameters.kernelParams = kept.address
        node = self._on.do("cuGraphAddKernelNode", self._graph, list(after), len(after), parameters)
        self.nodes_by_id[node] = parameters
        del kept  # the driver has copied the arguments
        return node

    def copy(self, direction: str, target: int, source: int, size: int, after: Sequence[Any]) -> object:
        parameters = self.copy_parameters(direction, target, source, size)
        node = self._on.do("cuGraphAddMemcpyNode", self._graph, list(after), len(after), parameters, self._on.context)
        self.nodes_by_id[node] = direction, size
        return node

    def copy_parameters(self, direction: str, target: int, source: int, size: int) -> Any:
        api = self._on.api
        parameters, kinds = api.CUDA_MEMCPY3D(), api.CUmemorytype
        host, device = kinds.CU_MEMORYTYPE_HOST, kinds.CU_MEMORYTYPE_DEVICE
        parameters.srcMemoryType = {TO_DEVICE: host, FROM_DEVICE: device, ON_DEVICE: device}[direction]
        parameters.dstMemoryType = {TO_DEVICE: device, FROM_DEVICE: host, ON_DEVICE: device}[direction]
        if direction == TO_DEVICE:
            parameters.srcHost = source
        else:
            parameters.srcDevice = api.CUdeviceptr(source)
        if direction == FROM_DEVICE:
            parameters.dstHost = target
        else:
            parameters.dstDevice = api.CUdeviceptr(target)
        parameters.WidthInBytes, parameters.Height, parameters.Depth = size, 1, 1
        return parameters

    def clear(self, target: int, size: int, after: Sequence[Any]) -> object:
        parameters = self._on.api.CUDA_MEMSET_NODE_PARAMS()
        parameters.dst = self._on.api.CUdeviceptr(target)
        parameters.value, parameters.elementSize = 0, 1
        parameters.width, parameters.height, parameters.pitch = size, 1, size
        return self._on.do("cuGraphAddMemsetNode", self._graph, list(after), len(after), parameters, self._on.context)

    def recorded(self, record: Callable[[int], None], after: Sequence[Any]) -> object:
        api = self._on.api
        with self._on.recorded(record) as child:
            code, node = api.cuGraphAddChildGraphNode(self._graph, list(after), len(after), child)
        self._on.check_taken("cuGraphAddChildGraphNode", code)
        self.nodes_by_id[node] = RECORDED
        return node

    def discard(self) -> None:
        self._on.release("cuGraphDestroy", self._graph)

    def handle(self) -> int:
        flags = int(self._on.api.CU_GRAPH_COND_ASSIGN_DEFAULT)
        return int(self._on.do("cuGraphConditionalHandleCreate", self._graph, self._on.context, 0, flags))

    def conditional(self, handle: int, after: Sequence[Any], *, loop: bool) -> tuple[object, CudaGraph]:
        api = self._on.api
        parameters, kinds = api.CUgraphNodeParams(), api.CUgraphConditionalNodeType
        parameters.type = api.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
        inner = parameters.conditional
        inner.handle = api.CUgraphConditionalHandle(handle)
        inner.type = kinds.CU_GRAPH_COND_TYPE_WHILE if loop else kinds.CU_GRAPH_COND_TYPE_IF
        inner.size = 1
        inner.ctx = self._on.context
        add = "cuGraphAddNode_v2" if hasattr(api, "cuGraphAddNode_v2") else "cuGraphAddNode"  # bindings 12, and 13
        node = self._on.do(add, self._graph, list(after), None, len(after), parameters)
        return node, CudaGraph(self._on, parameters.conditional.phGraph_out[0], self)

    def instantiate(self) -> CudaExecutable:
        """What the driver refuses may do without recorded work; it is a failure of the device where there is none."""
        if RECORDED not in self.nodes_by_id.values():
            return CudaExecutable(self._on, self, self._graph, self._on.do("cuGraphInstantiate", self._graph, 0))
        code, executable = self._on.api.cuGraphInstantiate(self._graph, 0)
        self._on.check_taken("cuGraphInstantiate", code)
        return CudaExecutable(self._on, self, self._graph, executable)


class CudaExecutable:
    """A graph that can be launched. The graph it was made from stays: it names the nodes."""

    def __init__(self, device: CudaDevice, graph: CudaGraph, source: Any, executable: Any) -> None:
        self._on, self._graph, self._source, self._executable = device, graph, source, executable

    def set_arguments(self, node: object, arguments: Sequence[int]) -> None:
        parameters, kept = self._graph.nodes_by_id[node], Arguments(arguments)
        parameters.kernelParams = kept.address
        self._on.do("cuGraphExecKernelNodeSetParams", self._executable, node, parameters)

    def set_copy(self, node: object, target: int, source: int) -> None:
        direction, size = self._graph.nodes_by_id[node]
        parameters = self._graph.copy_parameters(direction, target, source, size)
        self._on.do("cuGraphExecMemcpyNodeSetParams", self._executable, node, parameters, self._on.context)

    def set_recorded(self, node: object, record: Callable[[int], None]) -> bool:
        with self._on.recorded(record) as child:
            (code,) = self._on.api.cuGraphExecChildGraphNodeSetParams(self._executable, node, child)
        return not code.value  # what the driver cannot change by that, it can build

    def launch(self) -> None:
        self._on.do("cuGraphLaunch", self._executable, self._on.stream)

    def close(self) -> None:
        self._on.release("cuGraphExecDestroy", self._executable)
        self._on.release("cuGraphDestroy", self._source)
