"""The driver API of cuda-bindings without a driver: its own structures and numbers, functions that remember.

What a function is given is checked against the structures of the installed package; memory is that of the host.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cuda.bindings import driver

FIRST_ADDRESS = 1 << 40


@dataclass
class FakeApi:
    """`answers` are results of functions by name: (code, values...) or what computes them."""

    version: int = 13_000
    answers: dict[str, Any] = field(default_factory=dict)
    calls: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    _numbers: int = 0

    def __getattr__(self, name: str) -> Any:
        if name == "cuGraphAddNode_v2" or not name.startswith("cu"):
            return getattr(driver, name)
        getattr(driver, name)  # a function that the package does not have is an AttributeError here, too
        return self._function(name)

    def _function(self, name: str) -> Callable[..., tuple[Any, ...]]:
        def call(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append((name, arguments))
            answer = self.answers.get(name, self._usual(name))
            values = answer(*arguments) if callable(answer) else answer
            return values if values and isinstance(values[0], driver.CUresult) else (self.success, *values)

        return call

    success = driver.CUresult.CUDA_SUCCESS

    def _usual(self, name: str) -> tuple[Any, ...]:
        self._numbers += 1
        answers = {
            "cuDriverGetVersion": lambda: self.version,
            "cuDeviceGetCount": lambda: 1,
            "cuDeviceGet": lambda: driver.CUdevice(0),
            "cuDeviceGetAttribute": lambda: 9,
            "cuDeviceGetName": lambda: b"Fake" + bytes(20),
            "cuDevicePrimaryCtxRetain": lambda: driver.CUcontext(5),
            "cuStreamCreate": lambda: driver.CUstream(6),
            "cuMemAlloc": lambda: driver.CUdeviceptr(FIRST_ADDRESS * self._numbers),
            "cuMemHostAlloc": lambda: self._numbers << 16,
            "cuModuleLoadData": lambda: driver.CUmodule(self._numbers),
            "cuModuleGetFunction": lambda: driver.CUfunction(self._numbers),
            "cuGraphCreate": lambda: driver.CUgraph(self._numbers),
            "cuGraphInstantiate": lambda: driver.CUgraphExec(self._numbers),
            "cuGraphConditionalHandleCreate": lambda: driver.CUgraphConditionalHandle(self._numbers),
            "cuEventCreate": lambda: driver.CUevent(self._numbers),
        }
        if name.startswith("cuGraphAdd"):
            return (driver.CUgraphNode(self._numbers),)
        if name == "cuMemGetInfo":
            return (1000, 2000)
        if name == "cuGetErrorString":
            return (b"what went wrong",)
        return (answers[name](),) if name in answers else ()

    def named(self, name: str) -> list[tuple[Any, ...]]:
        """The arguments of each call of a function."""
        return [arguments for called, arguments in self.calls if called == name]


def kernel_arguments(parameters: Any, count: int) -> list[int]:
    """The values behind the pointers of a kernel node."""
    pointers = (ctypes.c_uint64 * count).from_address(int(parameters.kernelParams))
    return [ctypes.c_uint64.from_address(pointer).value for pointer in pointers]
