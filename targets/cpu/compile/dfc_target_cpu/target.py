"""The CPU target: a scheduled program to code images, one for each instruction-set variant asked for.

Guarantees equal bytes for equal programs and options; every image imports nothing.
"""

from dfc.bundle.constants import lay_out_constants
from dfc.bundle.target import CodeImage, Lowered
from dfc.ir.options import TargetOptions, unknown_variant
from dfc.kernels.program import Program
from dfc_driver_cpu.context import ABI_VERSION
from dfc_runtime.errors import UnsupportedError
from dfc_target_cpu.entries.program import LoweredText, containers_of, lower_program
from dfc_target_cpu.link.build import build_image
from dfc_target_cpu.link.compile import compilers
from dfc_target_cpu.machine import MACHINES, Machine, detect_host


class CpuTarget:
    """The compile half of the target `cpu`."""

    name = "cpu"

    def lower(self, program: Program, options: TargetOptions) -> Lowered:
        """Machine code for every entry."""
        constants, offsets = lay_out_constants(program.constants)
        lowered = [(machine, lower_program(program, machine, offsets)) for machine in machines(options)]
        images = tuple(_image(machine, text) for machine, text in lowered)
        notes: dict[str, object] = {
            "abi": ABI_VERSION,
            "containers": list(containers_of(program)),
            "spill_bytes": max(text.spill_bytes for _, text in lowered),
            "undo": [list(each.copied) for each in lowered[0][1].polling],
            "kept": [list(each.kept) for each in lowered[0][1].polling],
            "workspace_bytes": max(text.workspace_bytes for _, text in lowered),
        }
        listings = (
            tuple(f"; {m.name}\n" + "\n".join(text.texts) for m, text in lowered) if options.listing == "llvm" else ()
        )
        return Lowered("cpu", images, constants, offsets, notes, listings, compilers())


def machines(options: TargetOptions) -> list[Machine]:
    """The descriptions asked for, better ones of a family first; the one of this machine when none is named."""
    if options.isas:
        unknown = [name for name in options.isas if name not in MACHINES]
        if unknown:
            raise unknown_variant(unknown[0], MACHINES)
        return [machine for name, machine in MACHINES.items() if name in options.isas]
    host = detect_host()
    if host is None:
        known = ", ".join(MACHINES)
        raise UnsupportedError(f"this processor is below every variant; name one of {known}", code="E1002")
    return [host]


def _image(machine: Machine, text: LoweredText) -> CodeImage:
    built = build_image(text.texts, machine, text.symbols, libraries=text.libraries)
    return CodeImage(machine.name, built.code, dict(built.symbols), machine.required_bits)
