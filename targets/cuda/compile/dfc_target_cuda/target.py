"""The CUDA target, as the compiler asks for it. What makes code is imported when a program is there: a process that
compiles kernels has to begin long before (`prepare`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from typing import TYPE_CHECKING

from dfc.ir.options import TargetOptions
from dfc_target_cuda.architectures import ARCHITECTURES, DEFAULT, SIMULATOR, architectures, number
from dfc_target_cuda.code.compile import prepared

if TYPE_CHECKING:
    from dfc.bundle.target import Lowered
    from dfc.kernels.program import Program
    from dfc_target_cuda.images import CudaCode

__all__ = ["ARCHITECTURES", "DEFAULT", "SIMULATOR", "CudaTarget", "architectures"]

RUN_HALF = "dfc_driver_cuda"


class CudaTarget:
    """The compile half of the target `cuda`."""

    name = "cuda"

    def __init__(self) -> None:
        """Raises `ModuleNotFoundError` where the run side's half is missing, of which `images` knows what products
        cost: who asks which targets there are imports no more than this."""
        if find_spec(RUN_HALF) is None:
            raise ModuleNotFoundError(f"No module named {RUN_HALF!r}", name=RUN_HALF)

    def prepare(self, program: str, options: TargetOptions) -> AbstractContextManager[None]:
        """Begins what compiles kernels, which takes longer to load than a program to be read."""
        requested = architectures(options)
        if requested == (SIMULATOR,):
            return nullcontext()
        return prepared(program, f"compute_{number(requested[0])}")

    def lower(self, program: Program, options: TargetOptions) -> Lowered:
        """Code and plan for every entry."""
        return self.generate(program, options).link()

    def generate(self, program: Program, options: TargetOptions) -> CudaCode:
        """What `lower` makes, before it is linked."""
        from dfc_target_cuda.images import generate

        return generate(program, options)
