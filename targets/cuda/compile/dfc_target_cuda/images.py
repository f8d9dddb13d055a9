"""A scheduled program as PTX, machine code where an assembler is there, and a plan of its launches.

Guarantees equal bytes for equal programs, options and assemblers. Needs no device and no driver. The architecture
`simulator` stands for no machine: its image is the text of the kernels, with the small blocks of a simulation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from dfc.bundle.constants import lay_out_constants
from dfc.bundle.target import CodeImage, Lowered
from dfc.deferred.dataclasses import dataclass
from dfc.ir.options import TargetOptions
from dfc.kernels.program import Program
from dfc.lower.threads.schedule import DEVICE, SIMULATED
from dfc.lower.threads.text.kernel_text import KernelText
from dfc_target_cuda.architectures import SIMULATOR, TF32, architectures, is_rounding_factors, number
from dfc_target_cuda.code.assemble import Assembled, assemble_all, assembler_release
from dfc_target_cuda.code.compile import ptx_module
from dfc_target_cuda.code.compilers import compilers
from dfc_target_cuda.kernels.kernel_code import KernelCode, kernel_code
from dfc_target_cuda.kernels.write_kernel import write_kernel
from dfc_target_cuda.plan.call_report import call_report
from dfc_target_cuda.plan.plan import plan_program
from dfc_target_cuda.plan.report import report

PTX_VERSIONS = ((90, "8.0"), (100, "8.6"), (120, "8.8"))
"""Newest architecture -> version of PTX: that of CUDA 12.0, the oldest driver that runs bundles, where it will do."""

NO_KERNELS = "// no kernels\n"

_VERSION = re.compile(r"^\.version [\d.]+", re.M)


def generate(program: Program, options: TargetOptions) -> CudaCode:
    """The plan that says what is launched when, first of all, because what has none needs no compiler; and kernels
    as text and, unless only that is wanted, as PTX."""
    requested = architectures(options)
    schedule = replace(SIMULATED if requested == (SIMULATOR,) else DEVICE, tf32=is_rounding_factors(options))
    code = kernel_code(program, schedule, write_kernel)
    constants, offsets = lay_out_constants(program.constants)
    plan: object = plan_program(program, code.texts, code.access, offsets, code.choices)
    needs_ptx = code.texts and requested != (SIMULATOR,) and options.listing != "kernels"
    ptx = (
        portable(ptx_module(code.texts, f"compute_{number(requested[0])}"), number(requested[-1])) if needs_ptx else ""
    )
    return CudaCode(program, options, requested, code, ptx, plan, constants, offsets)


@dataclass(frozen=True, slots=True)
class CudaCode:
    """Kernels before the assembler: `ptx` is "" where there is none, or only the texts are asked for."""

    program: Program
    options: TargetOptions
    architectures: tuple[str, ...]
    code: KernelCode
    ptx: str
    plan: object
    constants: bytes
    offsets: tuple[int, ...]

    def text(self) -> str:
        """PTX, or for the simulator the texts of the kernels."""
        return self.ptx or "\n".join(f"{_head(text)}\n{text.source}" for text in self.code.texts)

    def link(self) -> Lowered:
        """Machine code where an assembler is there, and PTX, with the plan."""
        program, options, texts, requested = self.program, self.options, self.code.texts, self.architectures
        constants, offsets = self.constants, self.offsets
        notes: dict[str, object] = {"plan": self.plan}
        symbols = symbols_of(program, texts)
        shown = listings(texts, self.ptx, options)
        if requested == (SIMULATOR,):
            return Lowered("cuda", (simulator_image(symbols, texts),), constants, offsets, notes, shown)
        if options.listing == "kernels":  # which stand before the compiler is asked for anything
            return Lowered("cuda", (), constants, offsets, notes, shown)
        lowest, suffix = f"compute_{number(requested[0])}", TF32 if is_rounding_factors(options) else ""
        assembled = assemble_all(self.ptx, requested) if texts and not options.listing else {}
        notes["calls"] = call_report(program, notes["plan"])
        notes["report"] = report(program, self.code, self.ptx, assembled) if texts else []
        images = images_of(symbols, self.ptx, lowest, assembled, suffix)
        return Lowered("cuda", images, constants, offsets, notes, shown, compilers() if texts else {})


def symbols_of(program: Program, texts: Sequence[KernelText]) -> dict[str, int]:
    """What an image names: its kernels, and entries, which are no code but plans. The driver finds kernels by name;
    where they lie in the code is its own affair."""
    return dict.fromkeys([*(text.name for text in texts), *(f"entry_{n}_0" for n in range(len(program.entries)))], 0)


def images_of(
    symbols: dict[str, int], ptx: str, lowest: str, assembled: dict[str, Assembled], suffix: str
) -> tuple[CodeImage, ...]:
    """Machine code, newest first, then PTX, which newer devices, and older drivers, translate for themselves."""
    newest_first = sorted(assembled, key=number, reverse=True)
    driver = f"cuda_{assembler_release()}"
    images = [CodeImage(name + suffix, assembled[name].code, symbols, (name, driver)) for name in newest_first]
    return (*images, CodeImage(lowest + suffix, (ptx or NO_KERNELS).encode(), symbols, (lowest,)))


def portable(ptx: str, newest: int) -> str:
    """The code as of the oldest version of PTX that knows the architectures it is for: NVVM states its own version,
    which drivers of the last months alone would take. `ptxas` refuses what is not in the version that is stated."""
    version = next(version for known, version in PTX_VERSIONS if newest <= known)
    return _VERSION.sub(f".version {version}", ptx, count=1)


def simulator_image(symbols: dict[str, int], texts: Sequence[KernelText]) -> CodeImage:
    """The texts, each under a line that says what its parameters are."""
    source = "\n".join(f"{_head(text)}\n{text.source}" for text in texts)
    return CodeImage(SIMULATOR, (source or "# no kernels\n").encode(), symbols, (SIMULATOR,))


def _head(text: KernelText) -> str:
    types = " ".join(dtype.name for dtype in text.pointers)
    workspace = "; workspace" if text.workspace.constant != 0 else ""
    return f"# kernel {text.name}: {types}; {text.sizes} sizes{workspace}"


def listings(texts: Sequence[KernelText], ptx: str, options: TargetOptions) -> tuple[str, ...]:
    """What `dfc show` asks for."""
    if options.listing == "kernels":
        return tuple(f"{_head(text)}\n{text.source}" for text in texts)
    return (ptx,) if options.listing == "ptx" and ptx else ()
