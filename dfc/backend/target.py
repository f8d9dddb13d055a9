"""What a target is. Targets are found through the entry point group `dfc.targets` and make code images of programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol

from dfc.kernels.program import Program
from dfc.options import TargetOptions


@dataclass(frozen=True, slots=True)
class CodeImage:
    """Machine code for one instruction-set variant: flat bytes, where each symbol starts, the ISA bits it needs.

    `symbols` holds at least `entry_<i>_<j>` (native function j of entry number i; host steps cut an entry into several
    functions run in order) and whatever else the driver of the target asks for.
    """

    isa: str
    code: bytes
    symbols: Mapping[str, int]
    required_bits: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lowered:
    """What a target made of a program. `driver` is the name of the driver that runs it; `notes` are plain JSON values
    the driver reads back (for example workspace sizes)."""

    driver: str
    images: tuple[CodeImage, ...]
    constants: bytes
    constant_offsets: tuple[int, ...]
    notes: Mapping[str, object] = field(default_factory=dict[str, object])


class Target(Protocol):
    """The compile half of a target."""

    name: str

    def lower(self, program: Program, options: TargetOptions) -> Lowered:
        """Machine code for every entry of the program."""
        ...


def load_target(name: str) -> Target:
    """The target of that name; LookupError lists what is installed, ValueError names packages that clash."""
    points: list[EntryPoint] = list(entry_points(group="dfc.targets"))
    matching = [p for p in points if p.name == name]
    if not matching:
        known = ", ".join(sorted({p.name for p in points})) or "none"
        raise LookupError(f"there is no target {name!r}; installed targets: {known}")
    if len(matching) > 1:
        raise ValueError(f"target {name!r} is offered by {', '.join(p.value for p in matching)}")
    made: Target = matching[0].load()()
    return made
