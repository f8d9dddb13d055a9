"""What the native functions of an entry share: the tables of the program, and how its kernels are run.

Assumes launch names from `lower_program`, and a layout of registers from `lay_out`. Data only.
"""

from collections.abc import Mapping, Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.kernels.program import EntryProgram, Program
from dfc.kernels.programs.interruption import Polling
from dfc_target_cpu.elementwise.loop_schedule import LoopPlan
from dfc_target_cpu.entries.branches import Strands
from dfc_target_cpu.entries.frames import Lowering


@dataclass(frozen=True, slots=True)
class Launchable:
    """How a kernel is run: by calling `function` with a frame, or written out where it is launched (`inline`)."""

    function: str
    inline: LoopPlan | None
    faults: bool
    written: frozenset[int]


@dataclass(frozen=True, slots=True)
class EntryScope:
    """What all native functions of one entry share."""

    lowering: Lowering
    program: Program
    entry: EntryProgram
    number: int
    launchables: Sequence[Launchable]
    resources: Mapping[str, int]
    containers: Sequence[str]
    constant_offsets: Sequence[int]
    spilled: Mapping[int, int]  # registers that live in memory: buffer -> offset in the scratch memory
    polling: Polling
    strands: Strands
