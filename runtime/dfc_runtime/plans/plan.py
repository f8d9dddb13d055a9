"""The plan of a program as the bundle carries it: records that are written as plain JSON, and what holds of them.

    {"version": 2, "kernels": [...], "entries": [{"buffers": [...], "steps": [...], ...}]}

A formula is over the dims and measured sizes of its entry by name, in a kernel over d0, d1, ...

`read_plan` assumes nothing of the JSON, and guarantees that every number that names something is in range and that
blocks fit each other; what does not is a `ValueError` of one line. Formulas are computed, and places compared with the
memory that there is, when a call needs them. Needs neither the compiler nor NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from dfc_runtime.calls.formulas import Formula, check_known
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.formats.element_types import SIZES
from dfc_runtime.formats.fields import shown
from dfc_runtime.formats.records import Form, Key, OneOf, Range, formulas_in, read_record, write_record
from dfc_runtime.plans.convolutions import check_convolution
from dfc_runtime.plans.products import SUMS, FinishPlan, ProductPlan, check_product
from dfc_runtime.plans.steps import (
    Check,
    For,
    HostCall,
    If,
    Launch,
    Measure,
    Step,
    While,
    operands_of,
    read_steps,
    walk,
    write_steps,
)

VERSION = 2
LARGEST_BLOCK = 1024
LARGEST_GRID = 2**31 - 1
LARGEST_ITEM = 16
SIGNED = ("i8", "i16", "i32", "i64")
INDICES = (*SIGNED, "u8", "u16", "u32", "u64")
MOST_SLOTS = 1_000_000

Access = Annotated[str, OneOf(("read", "write", "update"))]
BufferRole = Annotated[str, OneOf(("argument", "result", "resource", "constant", "arena", "register"))]
ElementType = Annotated[str, OneOf(tuple(SIZES))]


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """A kernel of the image. Blocks = clamp(ceil(`points` / `per_block`), 1, `most`), of `threads` threads each;
    nothing runs where `points` is zero. Its parameters have 8 bytes each: operands, sizes, workspace, error block.
    There is no parameter for a `workspace` that is the number 0. `product` is what a library may make instead."""

    name: str
    access: tuple[Access, ...]
    sizes: Annotated[int, Range(0, 10_000)]
    points: Formula
    per_block: Annotated[int, Range(1)]
    threads: Annotated[int, Range(1, LARGEST_BLOCK)]
    most: Annotated[int, Range(1, LARGEST_GRID)]
    workspace: Formula
    guarded: bool
    faults: bool
    product: ProductPlan | None = None


@dataclass(frozen=True, slots=True)
class BufferPlan:
    """Memory of an entry. `room` is how many bytes it can have at most, over dims alone: it differs from `bytes` where
    sizes are measured. `offset` is an offset in the arena or in the constants; a `scalar` has rank 0."""

    role: BufferRole
    type: ElementType
    scalar: bool
    bytes: Formula
    room: Formula
    offset: Annotated[Formula, Key("place")] = Formula((0,))
    index: int = -1
    resource: str = ""


@dataclass(frozen=True, slots=True)
class EntryPlan:
    """`arguments` and `results` are how many slots of each there are, `measured` the names of the sizes found out, each
    with the largest it can be."""

    dims: tuple[str, ...]
    measured: tuple[tuple[str, Formula], ...]
    arguments: Annotated[int, Range(0, MOST_SLOTS)]
    results: Annotated[int, Range(0, MOST_SLOTS)]
    arena: Formula
    buffers: tuple[BufferPlan, ...]
    steps: Annotated[tuple[Step, ...], Form(read_steps, write_steps)]

    @property
    def counters(self) -> int:
        """The number of its loops."""
        return sum(isinstance(step, For) for step in walk(self.steps))


@dataclass(frozen=True, slots=True)
class Plan:
    """Kernels that no step mentions may stand behind those of the program."""

    version: Annotated[int, Range(VERSION, VERSION)]
    kernels: tuple[KernelPlan, ...]
    entries: tuple[EntryPlan, ...]


def write_plan(plan: Plan) -> dict[str, object]:
    """What the notes of a bundle hold."""
    return write_record(plan)


def read_plan(notes: object) -> Plan:
    """The plan in the notes of a bundle; `ValueError` says what is wrong with it."""
    plan = read_record(Plan, notes, "plan")
    for number, kernel in enumerate(plan.kernels):
        _check_kernel(kernel, plan.kernels, f"plan.kernels[{number}]")
    for number, entry in enumerate(plan.entries):
        _check_entry(entry, plan.kernels, f"plan.entries[{number}]")
    return plan


def _check_kernel(kernel: KernelPlan, kernels: Sequence[KernelPlan], where: str) -> None:
    for formula in formulas_in(kernel):
        check_known(formula, _kernel_sizes(kernel), where)
    product = kernel.product
    if product is None:
        return
    check_product(product, f"{where}.product", kernel.access)
    if kernel.faults and product.whole is not None:
        raise ValueError(f"{where} may fail, which no library does")
    _check_finish(product.finish, kernel, kernels, where)


def _kernel_sizes(kernel: KernelPlan) -> set[str]:
    return {f"d{number}" for number in range(kernel.sizes)}


def _check_finish(finish: FinishPlan | None, kernel: KernelPlan, kernels: Sequence[KernelPlan], where: str) -> None:
    """The kernel that comes after a library's sums is given what it may have of the operands."""
    if finish is None:
        return
    if finish.kernel >= len(kernels):
        raise ValueError(f"{where} is finished by the kernel {finish.kernel} of {len(kernels)}")
    last = kernels[finish.kernel]
    for size in finish.sizes:
        check_known(size, _kernel_sizes(kernel), where)
    access = tuple("read" if number == SUMS else kernel.access[number] for number in finish.operands)
    if last.access != access or last.sizes != len(finish.sizes) or last.workspace.constant != 0:
        raise ValueError(f"{where} is finished by {shown(last.name)}, which does not fit")
    if (last.faults, last.guarded) != (kernel.faults, kernel.guarded):
        raise ValueError(f"{where} is finished by {shown(last.name)}, which fails otherwise")


def _check_entry(entry: EntryPlan, kernels: Sequence[KernelPlan], where: str) -> None:
    measured = {name for name, _ in entry.measured}
    free = set(entry.dims)
    names = free | measured
    if len(names) != len(entry.dims) + len(entry.measured):
        raise ValueError(f"{where} names a size twice")
    for formula in (entry.arena, *(most for _, most in entry.measured)):
        check_known(formula, free, where)
    slots = {"argument": entry.arguments, "result": entry.results}
    for number, buffer in enumerate(entry.buffers):
        path = f"{where}.buffers[{number}]"
        check_known(buffer.bytes, names, path)
        check_known(buffer.room, free, path)
        check_known(buffer.offset, free, path)
        _check_buffer(buffer, path, slots)
    for step in walk(entry.steps):
        _check_step(step, entry, kernels, names, f"{where}.steps")
        if isinstance(step, Measure) and step.symbol not in measured:
            raise ValueError(f"{where}.steps measures {shown(step.symbol)}, which is no size that is found out")


def _check_buffer(buffer: BufferPlan, where: str, slots: dict[str, int]) -> None:
    """`slots` are how many arguments and results the entry has."""
    if buffer.role in slots and not 0 <= buffer.index < slots[buffer.role]:
        raise ValueError(f"{where} is {buffer.role} {buffer.index} of {slots[buffer.role]}")
    if buffer.role == "register" and not buffer.scalar:
        raise ValueError(f"{where} is a register but not a scalar")
    size = buffer.bytes.constant
    if buffer.scalar and (size is None or not 1 <= size <= LARGEST_ITEM):
        raise ValueError(f"{where} is a scalar of a size that no type has")


def _check_step(step: Step, entry: EntryPlan, kernels: Sequence[KernelPlan], names: set[str], where: str) -> None:
    buffers, used = entry.buffers, operands_of(step)
    if used and max(used) >= len(buffers):
        raise ValueError(f"{where} name the buffer {max(used)} of {len(buffers)}")
    if isinstance(step, If | While | For | Check | Measure) and not all(buffers[each].scalar for each in used):
        raise ValueError(f"{where} want scalars")
    match step:
        case For():
            types = {buffers[each].type for each in used}
            if len(types) != 1 or not types <= {*INDICES}:
                raise ValueError(f"{where} count in no integer type")
        case Measure():
            if buffers[step.source].type != "i64":
                raise ValueError(f"{where} measure with no i64")
            check_known(step.most, names, where)
        case HostCall():
            for formula in step.extents:
                check_known(formula, names, where)
        case Launch():
            _check_launch(step, entry, kernels, names, where)
        case _:
            pass


def _check_launch(step: Launch, entry: EntryPlan, kernels: Sequence[KernelPlan], names: set[str], where: str) -> None:
    if step.kernel >= len(kernels):
        raise ValueError(f"{where} launch the kernel {step.kernel} of {len(kernels)}")
    kernel = kernels[step.kernel]
    if len(step.buffers) != len(kernel.access) or len(step.sizes) != kernel.sizes:
        raise ValueError(f"{where} do not fit the kernel {shown(kernel.name)}")
    for formula in step.sizes:
        check_known(formula, names, where)
    if step.convolution is not None:
        types = [buffer.type for buffer in entry.buffers]
        check_convolution(step.convolution, where, types, names, len(kernel.access))
        _check_finish(step.convolution.finish, kernel, kernels, where)
