"""The driver `cuda`: programs as graphs of the CUDA driver API, and the libraries that make some of their launches.

Needs the runtime, NumPy and, for a real device, cuda-bindings; neither compiler nor numba.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from dfc_driver_cuda import control, libcuda
from dfc_driver_cuda.libraries.convolutions import ConvolutionLibrary
from dfc_driver_cuda.libraries.native import Library, LibraryError
from dfc_driver_cuda.libraries.products import ProductLibrary
from dfc_runtime.graphs.device import Device
from dfc_runtime.graphs.driver import GraphDriver
from dfc_runtime.graphs.library_calls import LaunchLibrary
from dfc_runtime.plans.plan import Plan
from dfc_runtime.plans.steps import Launch, walk

T = TypeVar("T", ProductLibrary, ConvolutionLibrary)

CUDA_KIND = 2
"""How DLPack counts CUDA devices."""


class CudaDevice(Device, Protocol):
    """A device, and the libraries that programs on it are to use."""

    @property
    def matrix_library(self) -> Library | None:
        """cuBLASLt, if programs are to use it."""
        ...

    @property
    def convolution_library(self) -> Library | None:
        """cuDNN, if programs are to use it; `LibraryError` if it cannot be used."""
        ...


class CudaDriver(GraphDriver[CudaDevice]):
    """A loaded program on one GPU."""

    kind = CUDA_KIND

    def open_device(self, number: int) -> CudaDevice:
        return libcuda.open_device(number)

    def control_module(self, *, conditional: bool) -> bytes:
        return (control.conditional_module() if conditional else control.plain_module()).encode()

    @classmethod
    def bits(cls, device: int) -> frozenset[str]:
        """What code the device runs: `sm_90` for its own and earlier ones of its family, `compute_80` for PTX."""
        return libcuda.device_bits(device)

    @property
    def products(self) -> dict[str, str]:
        """Who made each product so far, by kernel and sizes; nothing where no library is there or asked for."""
        return self._library_notes(ProductLibrary)

    @property
    def convolutions(self) -> dict[str, str]:
        """The same of convolutions."""
        return self._library_notes(ConvolutionLibrary)

    def _library_notes(self, kind: type[ProductLibrary | ConvolutionLibrary]) -> dict[str, str]:
        libraries = (library for library in self._used if isinstance(library, kind))
        notes = {where: who for library in libraries for where, who in library.notes.items()}
        return notes | ({"all": self._no_library[kind]} if kind in self._no_library else {})

    def open_libraries(self, plan: Plan) -> Sequence[LaunchLibrary]:
        self._used: list[ProductLibrary | ConvolutionLibrary] = []
        self._no_library: dict[type[object], str] = {}
        if any(kernel.product is not None for kernel in plan.kernels):
            self._open(ProductLibrary, "matrix_library")
        steps = (step for entry in plan.entries for step in walk(entry.steps))
        if any(isinstance(step, Launch) and step.convolution is not None for step in steps):
            self._open(ConvolutionLibrary, "convolution_library")
        return self._used[::-1]  # what is no convolution, or is refused as one, may be a product

    def _open(self, kind: type[T], where: str) -> None:
        """A library that does not start is not used, and it is told why."""
        try:
            symbol = getattr(self.device, where)
            library = None if symbol is None else kind(symbol)
        except LibraryError as problem:
            self._no_library[kind] = f"the kernel of the program, because {problem}"
            return
        if library is not None:
            _, library.memory = self.device.memory()
            self._used.append(library)
            self.close_with_program(library)
