"""What a bundle says about its kernels, for those who look: where they are from, how they are launched, what they take;
and about calls of its entries: how many launches they are, what they move.

Assumes nothing of the notes of a manifest. Guarantees that what is wrong in them is a `ValueError`; a bundle whose
target tells nothing has no kernels and no calls here.
"""

from __future__ import annotations

from collections.abc import Mapping

from dfc_runtime.calls import formulas
from dfc_runtime.calls.formulas import Formula
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.errors import counted
from dfc_runtime.formats.fields import Record, integer, items, text
from dfc_runtime.formats.manifest import Manifest

NOTE = "report"
CALLS = "calls"


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
    in its code; `maker` says of products and convolutions who else may make them where the program runs, or why nobody
    else does."""

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
        return f"{counted(self.threads, 'thread')} x {counted(blocks, 'block')}, at most {self.most}"


@dataclass(frozen=True, slots=True)
class CallInfo:
    """Calls of an entry. A call asks the driver for work `launches` times, which is `steps` kernels and copies that
    move `moved` bytes at least; each iteration of its loops is `round_steps` more, with `round_moved` bytes,
    an iteration of each loop taken together. `feeds` and `results` are the bytes that come and go."""

    entry: str
    launches: int
    steps: int
    round_steps: int
    feeds: Formula
    results: Formula
    moved: Formula
    round_moved: Formula

    def __str__(self) -> str:
        launches = "1 launch" if self.launches == 1 else f"{self.launches} launches"
        steps = "1 kernel or copy" if self.steps == 1 else f"{self.steps} kernels and copies"
        text = f"{launches}, {steps}, at least {self.moved} bytes moved"
        if self.round_steps:
            text += f"; {self.round_steps} and {self.round_moved} bytes more in each iteration of loops"
        return f"{text}; feeds {self.feeds} bytes, results {self.results}"


def call_reports(manifest: Manifest) -> Mapping[str, CallInfo]:
    """What calls of a bundle's entries come to, by name."""
    calls = [
        _call(each, f"{CALLS}[{number}]") for number, each in enumerate(items(manifest.notes.get(CALLS, []), CALLS))
    ]
    return {each.entry: each for each in calls}


def _call(value: object, where: str) -> CallInfo:
    record = Record(value, where)
    sizes = {key: formulas.from_json(record.get(key), where) for key in ("feeds", "results", "moved", "round_moved")}
    call = CallInfo(
        record.text("entry"),
        record.integer("launches"),
        record.integer("steps"),
        record.integer("round_steps"),
        **sizes,
    )
    record.done()
    return call


def kernel_reports(manifest: Manifest) -> tuple[KernelInfo, ...]:
    """The kernels of a bundle, in their order."""
    notes = manifest.notes.get(NOTE, [])
    return tuple(_kernel(each, f"{NOTE}[{number}]") for number, each in enumerate(items(notes, NOTE)))


def _kernel(value: object, where: str) -> KernelInfo:
    record = Record(value, where)
    kernel = KernelInfo(
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
    return kernel


def _taken(value: object, where: str) -> Taken:
    numbers = [integer(each, where) for each in items(value, where)]
    if len(numbers) != 4:
        raise ValueError(f"{where} has {len(numbers)} numbers instead of 4")
    return Taken(*numbers)
