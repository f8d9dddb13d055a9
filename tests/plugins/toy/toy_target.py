"""A target of another package: code for every x86-64 machine, run by a driver of its own."""

from dataclasses import replace

from dfc.bundle.target import Lowered
from dfc.ir.options import TargetOptions
from dfc.kernels.program import Program
from dfc_target_cpu.target import CpuTarget


class PortableTarget:
    name = "portable"

    def lower(self, program: Program, options: TargetOptions) -> Lowered:
        baseline = replace(options, isas=("x86-64-v2",))
        return replace(CpuTarget().lower(program, baseline), driver="portable")
