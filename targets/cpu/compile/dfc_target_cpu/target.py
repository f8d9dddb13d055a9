"""The CPU target: a scheduled program to code images, one for each instruction-set variant asked for.

Guarantees equal bytes for equal programs and options; every image imports nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from dfc.bundle.constants import lay_out_constants
from dfc.bundle.target import CodeImage, Lowered
from dfc.deferred.dataclasses import dataclass
from dfc.ir.options import TargetOptions, unknown_variant
from dfc.kernels.form import ROUTINE, ROW_BLOCKS, Kernel
from dfc.kernels.program import PARALLEL, Program
from dfc_driver_cpu.context import ABI_VERSION
from dfc_runtime.errors import UnsupportedError
from dfc_target_cpu.entries.program import LAUNCH, LoweredText, containers_of, lower_program
from dfc_target_cpu.limits import Limits
from dfc_target_cpu.link.build import compile_objects, link_objects
from dfc_target_cpu.link.compile import compilers
from dfc_target_cpu.link.image import NO_NAMES
from dfc_target_cpu.link.numbers import share_texts
from dfc_target_cpu.machine import MACHINES, WITHOUT_WINOGRAD, Machine, detect_host, machine_named
from dfc_target_cpu.windows.plans import count_winograd, schedule_in_words


class CpuTarget:
    """The compile half of the target `cpu`."""

    name = "cpu"
    forms = frozenset({ROW_BLOCKS, ROUTINE, PARALLEL})

    def lower(self, program: Program, options: TargetOptions) -> Lowered:
        """Machine code for every entry."""
        return self.generate(program, options).link()

    def generate(self, program: Program, options: TargetOptions) -> CpuCode:
        """An object of each variant, which may still lack functions of memory and holds addresses to be filled in."""
        constants, offsets = lay_out_constants(program.constants)
        lowered = [(machine, lower_program(program, machine, offsets)) for machine in machines(options)]
        variants = tuple(
            _compiled(text, machine, count_winograd(program.kernels, machine)) for machine, text in lowered
        )
        return CpuCode(variants, constants, offsets, containers_of(program), options.listing == "llvm")

    def schedule(self, kernel: Kernel, options: TargetOptions) -> str:
        """How a kernel is made by the best variant, where that says more than the kernel does."""
        return schedule_in_words(kernel, machines(options)[0])

    def limits(self, variant: str, threads: int) -> Limits:
        """What this processor can do at most with the instructions of a variant."""
        return Limits(variant, threads)


@dataclass(frozen=True, slots=True)
class Variant:
    """The code for one machine: as text, and as objects. `tables`: the data that each of the first objects has for
    itself. `winograd`: how many kernels are convolutions by Winograd's algorithm."""

    machine: Machine
    text: LoweredText
    objects: tuple[bytes, ...]
    tables: tuple[Mapping[str, bytes], ...]
    winograd: int


@dataclass(frozen=True, slots=True)
class CpuCode:
    """Code that is not linked yet; `containers` are those of the state, `is_listed` asks for the text beside it."""

    variants: tuple[Variant, ...]
    constants: bytes
    offsets: tuple[int, ...]
    containers: tuple[str, ...]
    is_listed: bool

    def text(self) -> str:
        """The LLVM code of every variant."""
        return "\n".join(self._listings())

    def link(self) -> Lowered:
        """An image of each variant, and what the driver must know."""
        texts = [variant.text for variant in self.variants]
        notes: dict[str, object] = {
            "abi": ABI_VERSION,
            "containers": list(self.containers),
            "spill_bytes": max(text.spill_bytes for text in texts),
            "undo": [list(each.copied) for each in texts[0].polling],
            "kept": [list(each.kept) for each in texts[0].polling],
            "workspace_bytes": max(text.workspace_bytes for text in texts),
        }
        if any(variant.winograd for variant in self.variants):
            notes["winograd"] = {variant.machine.name: variant.winograd for variant in self.variants}
        images = tuple(map(_image, self.variants))
        shown = self._listings() if self.is_listed else ()
        return Lowered("cpu", images, self.constants, self.offsets, notes, shown, compilers())

    def _listings(self) -> tuple[str, ...]:
        return tuple(
            f"; {each.machine.name}\n" + "\n".join([*each.text.texts, *each.text.written_out]) for each in self.variants
        )


def machines(options: TargetOptions) -> list[Machine]:
    """The descriptions asked for, better ones of a family first; the one of this machine when none is named."""
    if options.isas:
        asked = [(name, machine_named(name)) for name in options.isas]
        unknown = [name for name, machine in asked if machine is None]
        if unknown:
            raise unknown_variant(unknown[0], MACHINES)
        others = [name for name in options.isas if not name.endswith(WITHOUT_WINOGRAD)]
        if 0 < len(others) < len(options.isas):
            fix = f"write {others[0]}{WITHOUT_WINOGRAD}, too"
            raise UnsupportedError(f"all variants use Winograd's algorithm, or none does: {fix}", code="E1002")
        by_family = {
            machine.name.removesuffix(WITHOUT_WINOGRAD): machine for _, machine in asked if machine is not None
        }
        return [by_family[name] for name in MACHINES if name in by_family]
    host = detect_host()
    if host is None:
        known = ", ".join(MACHINES)
        raise UnsupportedError(f"this processor is below every variant; name one of {known}", code="E1002")
    return [host]


def _compiled(text: LoweredText, machine: Machine, winograd: int) -> Variant:
    linked = share_texts(text.texts)
    texts, tables = [one.text for one in linked], tuple(one.tables for one in linked)
    objects = compile_objects(texts, machine, libraries=text.libraries, written_out=text.written_out)
    return Variant(machine, text, tuple(objects), tables, winograd)


def _image(variant: Variant) -> CodeImage:
    renamed = [NO_NAMES, *({LAUNCH: name} for name in variant.text.launches)]
    built = link_objects(variant.objects, variant.machine, variant.text.symbols, renamed, variant.tables)
    return CodeImage(variant.machine.name, built.code, dict(built.symbols), variant.machine.required_bits)
