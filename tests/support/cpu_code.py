"""Helpers of the low-level CPU tests: build a module for this processor and call into it."""

from collections.abc import Sequence

import numpy as np

from dfc_runtime.code_memory import MappedCode
from dfc_target_cpu.link.build import build_image
from dfc_target_cpu.link.image import CodeImage
from dfc_target_cpu.llvm.text import ModuleText
from dfc_target_cpu.machine import MACHINES, Machine, detect_host


def host() -> Machine:
    machine = detect_host()
    assert machine is not None, "the tests need a processor at or above the baseline"
    return machine


def runnable_machines() -> list[Machine]:
    """The descriptions this processor can run, from the baseline up to its best."""
    best = host()
    family = [m for m in MACHINES.values() if m.triple == best.triple]
    return family[family.index(best) :]


class Code:
    """A loaded image with its symbols."""

    def __init__(self, texts: Sequence[str], machine: Machine, libraries: Sequence[str] = ()) -> None:
        self.image: CodeImage = build_image(texts, machine, libraries=libraries)
        self.loaded = MappedCode(self.image.code)

    def function(self, name: str, result: type | None, *arguments: type):
        return self.loaded.function(self.image.offset(name), result, arguments)

    def address(self, name: str) -> int:
        return self.loaded.address(self.image.offset(name))


def load(module: ModuleText, machine: Machine | None = None) -> Code:
    return Code([module.text()], machine or host())


def aligned(shape: tuple[int, ...], dtype: str, alignment: int = 64) -> np.ndarray:
    """Zeros whose first byte lies at a multiple of `alignment`."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + size].view(dtype).reshape(shape)
