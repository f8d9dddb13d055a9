"""What a bundle says about its kernels, for those who look: where they are from, how they are launched, what they take.

Assumes nothing of the notes of a manifest. Guarantees that what is wrong in them is a `ValueError`; a bundle whose
target tells nothing has no kernels here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dfc_runtime.formats.fields import Record, integer, items, text
from dfc_runtime.formats.manifest import Manifest

NOTE = "report"


@dataclass(frozen=True, slots=True)
class Taken:
    """What a kernel takes on one architecture: registers of a thread, bytes of a block's shared memory, and those of a
    thread's stack and spilled registers."""

    registers: int
    spilled: int
    shared: int
    stack: int


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """A kernel. `values` are the first of those it computes, `line` is where in the program; blocks are
    clamp(ceil(`points` / `per_block`), 1, `most`) of `threads` threads; `wide` counts the loads and stores of 16 bytes
    in its code; `maker` says of products who else may make them where the program runs, or why nobody else does."""

    name: str
    values: tuple[str, ...]
    line: str
    points: str
    per_block: int
    threads: int
    most: int
    wide: int
    taken: Mapping[str, Taken]
    maker: str = ""

    @property
    def geometry(self) -> str:
        """The launch in words."""
        blocks = self.points if self.per_block == 1 else f"({self.points}) / {self.per_block}"
        return f"{self.threads} threads x {blocks} blocks, at most {self.most}"


def kernel_reports(manifest: Manifest) -> tuple[KernelInfo, ...]:
    """The kernels of a bundle, in their order."""
    told = manifest.notes.get(NOTE, [])
    return tuple(_kernel(each, f"{NOTE}[{number}]") for number, each in enumerate(items(told, NOTE)))


def _kernel(value: object, where: str) -> KernelInfo:
    record = Record(value, where)
    made = KernelInfo(
        record.text("name"),
        record.list("values", text),
        record.text("line"),
        record.text("points"),
        record.integer("per_block", 1),
        record.integer("threads", 1),
        record.integer("most", 1),
        record.integer("wide"),
        record.table("taken", _taken),
        record.optional("maker", text, ""),
    )
    record.done()
    return made


def _taken(value: object, where: str) -> Taken:
    numbers = [integer(each, where) for each in items(value, where)]
    if len(numbers) != 4:
        raise ValueError(f"{where} has {len(numbers)} numbers instead of 4")
    return Taken(*numbers)
