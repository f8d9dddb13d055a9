"""The plan of a program as the bundle carries it: plain JSON, read into records and checked.

    {"version": 2, "kernels": [...], "entries": [{"buffers": [...], "steps": [...], ...}]}

Steps are a flat list in program order; `if`, `while` and `for` open blocks, `else` and `do` divide them, `end` closes.
A formula is over the dims and measured sizes of its entry by name, in a kernel over d0, d1, ...

Assumes nothing of the JSON. Guarantees that every number that names something is in range and that blocks fit each
other; what does not is a `ValueError` of one line. Formulas are computed, and places compared with the memory that
there is, when a call needs them. Needs neither the compiler nor NumPy.
"""

from __future__ import annotations

from dfc_runtime.calls.formulas import Formula, from_json
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.formats.fields import Record, integer, items, shown, text
from dfc_runtime.plans.convolutions import read_convolution
from dfc_runtime.plans.products import SUMS, FinishPlan, ProductPlan, read_product
from dfc_runtime.plans.steps import Check, Copy, For, HostCall, If, Launch, Measure, Step, While

VERSION = 2
LARGEST_BLOCK = 1024
LARGEST_GRID = 2**31 - 1
LARGEST_ITEM = 16
DEEPEST = 200
ACCESSES = ("read", "write", "update")
ROLES = ("argument", "result", "resource", "constant", "arena", "register")
SIGNED = ("i8", "i16", "i32", "i64")
INDICES = (*SIGNED, "u8", "u16", "u32", "u64")
TYPES = (*INDICES, "bool", "f16", "bf16", "f32", "f64", "c64", "c128")


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """A kernel of the image. Blocks = clamp(ceil(`points` / `per_block`), 1, `most`), of `threads` threads each;
    nothing runs where `points` is zero. Its parameters have 8 bytes each: operands, sizes, workspace, error block.
    There is no parameter for a `workspace` that is the number 0. `product` is what a library may make instead."""

    name: str
    access: tuple[str, ...]
    sizes: int
    points: Formula
    per_block: int
    threads: int
    most: int
    workspace: Formula
    guarded: bool
    faults: bool
    product: ProductPlan | None = None


@dataclass(frozen=True, slots=True)
class BufferPlan:
    """Memory of an entry. `room` is how many bytes it can have at most, over dims alone: it differs from `bytes` where
    sizes are measured. `offset` is an offset in the arena or in the constants; a `scalar` has rank 0."""

    role: str
    type: str
    scalar: bool
    bytes: Formula
    room: Formula
    offset: Formula
    index: int
    resource: str


@dataclass(frozen=True, slots=True)
class EntryPlan:
    """`arguments` and `results` are how many slots of each there are, `measured` the names of the sizes found out, each
    with the largest it can be, `counters` the number of `For` loops."""

    dims: tuple[str, ...]
    measured: tuple[tuple[str, Formula], ...]
    arguments: int
    results: int
    arena: Formula
    buffers: tuple[BufferPlan, ...]
    steps: tuple[Step, ...]
    counters: int


@dataclass(frozen=True, slots=True)
class Plan:
    kernels: tuple[KernelPlan, ...]
    entries: tuple[EntryPlan, ...]


def read_plan(notes: object) -> Plan:
    """The plan in the notes of a bundle; `ValueError` says what is wrong with it."""
    record = Record(notes, "plan")
    if record.integer("version") != VERSION:
        raise ValueError(f"the plan has the version {record.integer('version')}, not {VERSION}")
    kernels = record.list("kernels", _kernel)
    for number, kernel in enumerate(kernels):
        if kernel.product is not None:
            _check_finish(kernel.product.finish, kernel, kernels, f"plan.kernels[{number}]")
    entries = record.list("entries", lambda value, where: _entry(value, where, kernels))
    record.done()
    return Plan(kernels, entries)


def _kernel(value: object, where: str) -> KernelPlan:
    record = Record(value, where)
    access = record.list("access", lambda each, path: _one_of(each, path, ACCESSES))
    plan = KernelPlan(
        name=record.text("name"),
        access=access,
        sizes=record.integer("sizes", high=10_000),
        points=from_json(record.get("points"), f"{where}.points"),
        per_block=record.integer("per_block", low=1),
        threads=record.integer("threads", low=1, high=LARGEST_BLOCK),
        most=record.integer("most", low=1, high=LARGEST_GRID),
        workspace=from_json(record.get("workspace"), f"{where}.workspace"),
        guarded=record.flag("guarded"),
        faults=record.flag("faults"),
        product=record.optional("product", lambda each, path: read_product(each, path, access), None),
    )
    record.done()
    known = {f"d{number}" for number in range(plan.sizes)}
    for formula in (plan.points, plan.workspace, *(plan.product.formulas() if plan.product is not None else ())):
        _known(formula, known, where)
    if plan.faults and plan.product is not None and plan.product.whole is not None:
        raise ValueError(f"{where} may fail, which no library does")
    return plan


def _check_finish(finish: FinishPlan | None, kernel: KernelPlan, kernels: tuple[KernelPlan, ...], where: str) -> None:
    """The kernel that comes after a library's sums is given what it may have of the operands."""
    if finish is None:
        return
    if finish.kernel >= len(kernels):
        raise ValueError(f"{where} is finished by the kernel {finish.kernel} of {len(kernels)}")
    last = kernels[finish.kernel]
    for size in finish.sizes:
        _known(size, {f"d{number}" for number in range(kernel.sizes)}, where)
    access = tuple("read" if number == SUMS else kernel.access[number] for number in finish.operands)
    if last.access != access or last.sizes != len(finish.sizes) or last.workspace.constant != 0:
        raise ValueError(f"{where} is finished by {shown(last.name)}, which does not fit")
    if (last.faults, last.guarded) != (kernel.faults, kernel.guarded):
        raise ValueError(f"{where} is finished by {shown(last.name)}, which fails otherwise")


def _one_of(value: object, where: str, names: tuple[str, ...]) -> str:
    name = text(value, where)
    if name not in names:
        raise ValueError(f"{where} is {shown(name)}, not one of {', '.join(names)}")
    return name


def _known(formula: Formula, names: set[str], where: str) -> Formula:
    unknown = formula.symbols() - names
    if unknown:
        raise ValueError(f"{where} mentions the unknown size {shown(min(unknown))}")
    return formula


def _entry(value: object, where: str, kernels: tuple[KernelPlan, ...]) -> EntryPlan:
    record = Record(value, where)
    dims = record.list("dims", text)
    measured = record.list("measured", _measured)
    arguments, results = record.integer("arguments", high=1_000_000), record.integer("results", high=1_000_000)
    names, free = {*dims, *(name for name, _ in measured)}, set(dims)
    if len(names) != len(dims) + len(measured):
        raise ValueError(f"{where} names a size twice")
    for _, most in measured:
        _known(most, free, f"{where}.measured")

    def buffer(each: object, path: str) -> BufferPlan:
        buffer = read_buffer(each, path, {"argument": arguments, "result": results})
        _known(buffer.bytes, names, path)
        _known(buffer.room, free, path)
        _known(buffer.offset, free, path)
        return buffer

    buffers = record.list("buffers", buffer)
    arena = _known(from_json(record.get("arena"), f"{where}.arena"), free, where)
    reader = _Steps(buffers, kernels, names, {name for name, _ in measured}, f"{where}.steps")
    steps = reader.read(items(record.get("steps"), f"{where}.steps"))
    record.done()
    return EntryPlan(dims, measured, arguments, results, arena, buffers, steps, reader.counters)


def _measured(value: object, where: str) -> tuple[str, Formula]:
    pair = items(value, where)
    if len(pair) != 2:
        raise ValueError(f"{where} is not a name and a formula")
    return text(pair[0], where), from_json(pair[1], where)


def read_buffer(value: object, where: str, slots: dict[str, int]) -> BufferPlan:
    """One buffer; `slots` are how many arguments and results the entry has."""
    record = Record(value, where)
    role = _one_of(record.get("role"), f"{where}.role", ROLES)
    plan = BufferPlan(
        role=role,
        type=_one_of(record.get("type"), f"{where}.type", TYPES),
        scalar=record.flag("scalar"),
        bytes=from_json(record.get("bytes"), f"{where}.bytes"),
        room=from_json(record.get("room"), f"{where}.room"),
        offset=record.optional("place", from_json, Formula((0,))),
        index=record.optional("index", _index, -1),
        resource=record.optional("resource", text, ""),
    )
    record.done()
    if role in slots and not 0 <= plan.index < slots[role]:
        raise ValueError(f"{where} is {role} {plan.index} of {slots[role]}")
    if role == "register" and not plan.scalar:
        raise ValueError(f"{where} is a register but not a scalar")
    size = plan.bytes.constant
    if plan.scalar and (size is None or not 1 <= size <= LARGEST_ITEM):
        raise ValueError(f"{where} is a scalar of a size that no type has")
    return plan


def _index(value: object, where: str) -> int:
    return integer(value, where)


class _Steps:
    """Reads a flat list of steps into nested ones, without recursion."""

    def __init__(
        self,
        buffers: tuple[BufferPlan, ...],
        kernels: tuple[KernelPlan, ...],
        names: set[str],
        measured: set[str],
        where: str,
    ) -> None:
        self._buffers, self._kernels, self._names, self._measured = buffers, kernels, names, measured
        self._where = where
        self.counters = 0

    def read(self, flat: list[object]) -> tuple[Step, ...]:
        here: list[Step] = []
        opened: list[tuple[str, list[int], list[Step], list[Step]]] = []
        for number, value in enumerate(flat):
            fields, where = items(value, f"{self._where}[{number}]"), f"{self._where}[{number}]"
            kind = text(fields[0] if fields else None, where)
            if kind in ("if", "while", "for"):
                opened.append((kind, self._head(kind, fields, where), here, []))
                here = []
                if len(opened) > DEEPEST:
                    raise ValueError(f"{where} is nested more than {DEEPEST} deep")
            elif kind in ("else", "do"):
                if not opened or opened[-1][0] != {"else": "if", "do": "while"}[kind]:
                    raise ValueError(f"{where} is `{kind}` where none belongs")
                opened[-1][1].extend(self._numbers(fields[1:], where, 1 if kind == "do" else 0))
                opened[-1] = (f"{kind}.", *opened[-1][1:3], here)
                here = []
            elif kind == "end":
                if not opened or opened[-1][0] in ("if", "while"):
                    raise ValueError(f"{where} ends nothing")
                block, head, outer, first = opened.pop()
                outer.append(self._closed(block, head, tuple(first), tuple(here)))
                here = outer
            else:
                here.append(self._plain(kind, fields, where))
        if opened:
            raise ValueError(f"{self._where} leave a block open")
        return tuple(here)

    def _head(self, kind: str, fields: list[object], where: str) -> list[int]:
        head = self._numbers(fields[1:], where, {"if": 1, "while": 0, "for": 3}[kind])
        if kind == "for" and (
            len({self._buffers[b].type for b in head}) != 1 or self._buffers[head[0]].type not in INDICES
        ):
            raise ValueError(f"{where} counts in no integer type")
        return head

    def _closed(self, block: str, head: list[int], first: tuple[Step, ...], second: tuple[Step, ...]) -> Step:
        if block == "else.":
            return If(head[0], first, second)
        if block == "do.":
            return While(first, head[0], second)
        self.counters += 1
        return For(head[0], head[1], head[2], self.counters - 1, second)

    def _numbers(self, values: list[object], where: str, count: int) -> list[int]:
        """That many scalars."""
        if len(values) != count:
            raise ValueError(f"{where} has {len(values)} operands, not {count}")
        numbers = [self._buffer(value, where) for value in values]
        if any(not self._buffers[number].scalar for number in numbers):
            raise ValueError(f"{where} wants scalars")
        return numbers

    def _buffer(self, value: object, where: str) -> int:
        return integer(value, where, 0, len(self._buffers) - 1)

    def _buffer_list(self, value: object, where: str) -> tuple[int, ...]:
        return tuple(self._buffer(each, where) for each in items(value, where))

    def _formulas(self, value: object, where: str) -> tuple[Formula, ...]:
        return tuple(_known(from_json(each, where), self._names, where) for each in items(value, where))

    def _plain(self, kind: str, fields: list[object], where: str) -> Step:
        operands = {"launch": 3, "copy": 2, "check": 2, "measure": 4, "call": 4}.get(kind)
        if operands is None:
            raise ValueError(f"{where} is the unknown step {shown(kind)}")
        if len(fields) != operands + 1 and (kind, len(fields)) != ("launch", operands + 2):
            raise ValueError(f"{where} has {len(fields) - 1} operands, not {operands}")
        match kind:
            case "launch":
                return self._launch(fields, where)
            case "copy":
                return Copy(self._buffer(fields[1], where), self._buffer(fields[2], where))
            case "check":
                return Check(self._numbers(fields[1:2], where, 1)[0], integer(fields[2], where))
            case "measure":
                symbol = _one_of(fields[1], where, tuple(sorted(self._measured)))
                source = self._numbers(fields[2:3], where, 1)[0]
                if self._buffers[source].type != "i64":
                    raise ValueError(f"{where} measures with no i64")
                return Measure(symbol, source, self._formulas([fields[3]], where)[0], integer(fields[4], where))
            case _:
                inputs, outputs = self._buffer_list(fields[2], where), self._buffer_list(fields[3], where)
                return HostCall(integer(fields[1], where), inputs, outputs, self._formulas(fields[4], where))

    def _launch(self, fields: list[object], where: str) -> Launch:
        if not self._kernels:
            raise ValueError(f"{where} launches, but there are no kernels")
        number = integer(fields[1], where, 0, len(self._kernels) - 1)
        kernel = self._kernels[number]
        types = [buffer.type for buffer in self._buffers]
        convolution = None
        if len(fields) > 4:
            convolution = read_convolution(fields[4], where, types, self._names, len(kernel.access))
            _check_finish(convolution.finish, kernel, self._kernels, where)
        launch = Launch(number, self._buffer_list(fields[2], where), self._formulas(fields[3], where), convolution)
        if len(launch.buffers) != len(kernel.access) or len(launch.sizes) != kernel.sizes:
            raise ValueError(f"{where} does not fit the kernel {shown(kernel.name)}")
        return launch
