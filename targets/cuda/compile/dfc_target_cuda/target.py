"""The CUDA target, as the compiler asks for it. What makes code is imported when a program is there: a process that
compiles kernels has to begin long before (`prepare`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from dfc.ir.options import TargetOptions
from dfc_target_cuda.architectures import ARCHITECTURES, DEFAULT, SIMULATOR, architectures, number
from dfc_target_cuda.code.compile import prepared

if TYPE_CHECKING:
    from dfc.bundle.target import Lowered
    from dfc.kernels.program import Program
    from dfc_target_cuda.images import CudaCode

__all__ = ["ARCHITECTURES", "DEFAULT", "SIMULATOR", "CudaTarget", "architectures"]


class CudaTarget:
    """The compile half of the target `cuda`."""

    name = "cuda"

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
