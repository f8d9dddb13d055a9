"""Requests that generated code answers itself: puts into queues and takes out of them, the turns of runners.

Assumes sites of the kinds in `NATIVE_KINDS`, with the queue and the number of a fault, or the number of a turn.
Guarantees that an element is copied once on its way in and once on its way out, under the lock of its queue, and that a
take of several is one step for all others.
"""

from collections.abc import Callable, Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim
from dfc.ir.queues import QueueForm
from dfc.kernels.program import HostSite, Program
from dfc_runtime.formats.manifest import (
    FIRST,
    MUTEX_ACQUIRE,
    MUTEX_RELEASE,
    QUEUE_CLOSE,
    QUEUE_PUT,
    QUEUE_SIZE,
    QUEUE_TAKE,
    QUEUE_TAKE_UP_TO,
    TURN_PASS,
    TURN_TAKE,
)
from dfc_runtime.runners.native import CLOSED
from dfc_target_cpu.entries import queues, runners
from dfc_target_cpu.entries.context_code import load_field
from dfc_target_cpu.entries.dims import DimCode
from dfc_target_cpu.entries.queue_buckets import BucketSlots, came_in, gather, longest
from dfc_target_cpu.entries.queue_slots import take_smallest
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Value
from dfc_target_cpu.llvm.values import i64
from dfc_target_cpu.machine import Machine


@dataclass(frozen=True, slots=True)
class NativeCall:
    """One site in the code of a function; `pointers` are the addresses of its inputs, then of its outputs;
    `leave_if` ends the call where a condition holds."""

    module: ModuleText
    machine: Machine
    f: FunctionText
    context: Value
    dims: DimCode
    program: Program
    site: HostSite
    pointers: Sequence[Value]
    leave_if: Callable[[Value], None]

    def write(self) -> None:
        """Writes the code."""
        table: dict[str, Callable[[], None]] = {
            QUEUE_PUT: lambda: _Put(self).write(),
            QUEUE_TAKE: lambda: _Take(self).write(),
            QUEUE_TAKE_UP_TO: lambda: _TakeUpTo(self).write(),
            QUEUE_SIZE: self._size,
            QUEUE_CLOSE: self._close,
            MUTEX_ACQUIRE: lambda: _Acquire(self).write(),
            MUTEX_RELEASE: lambda: _Release(self).write(),
            TURN_TAKE: self._take_turn,
            TURN_PASS: self._pass_turn,
        }
        table[self.site.kind]()

    def number(self, attribute: str) -> int:
        value = dict(self.site.attributes)[attribute]
        assert isinstance(value, int)
        return value

    @property
    def first(self) -> int:
        """Whether the iteration of a runner has done nothing before (1), or nothing but draw (2)."""
        return self.number(FIRST) if FIRST in dict(self.site.attributes) else 0

    @property
    def queue_name(self) -> str:
        return str(dict(self.site.attributes)["resource"])

    @property
    def queue_number(self) -> int:
        return list(self.program.resources).index(self.queue_name)

    def queue(self) -> Value:
        """The address of the queue."""
        table = load_field(self.f, self.context, "variables")
        return self.f.load("ptr", self.f.gep("ptr", table, i64(self.queue_number)))

    def leave_if_not_zero(self, code: Value) -> None:
        self.leave_if(self.f.icmp("ne", code, i64(0)))

    def _size(self) -> None:
        size = self.f.call(queues.size(self.module, self.machine), "i64", [self.context, self.queue()])
        self.f.store(size, self.pointers[-1])

    def _close(self) -> None:
        self.f.call(queues.close(self.module, self.machine), "void", [self.context, self.queue(), i64(CLOSED)])

    def _take_turn(self) -> None:
        function = runners.take_turn(self.module, self.machine)
        operands = [self.context, i64(self.number("turn")), i64(self.first)]
        self.leave_if_not_zero(self.f.call(function, "i64", operands))

    def _pass_turn(self) -> None:
        function = runners.pass_turn(self.module, self.machine)
        self.f.call(function, "void", [self.context, i64(self.number("turn"))])


class _Access(BucketSlots):
    """What puts and takes share: coming in."""

    def __init__(self, call: NativeCall) -> None:
        form = call.program.resources[call.queue_name].queue
        assert form is not None, call.queue_name
        super().__init__(call.f, call.queue(), form)
        self.call = call

    def enter(self, function: str, numbers: Sequence[Value], *, to_put: bool) -> None:
        """Comes in, or leaves the call."""
        call = self.call
        waiting = i64(1 + 2 * call.queue_number + to_put)
        operands = [call.context, self.queue, *numbers, waiting, i64(call.number("fault"))]
        call.leave_if_not_zero(self.f.call(function, "i64", operands))


class _Put(_Access):
    """One element goes in."""

    def write(self) -> None:
        call, f = self.call, self.f
        enter = queues.enter_to_put(call.module, call.machine)
        self.enter(enter, [i64(self.form.capacity), i64(self.form.reserve or 0)], to_put=True)
        slot = self.slot_at(self.index(self.count("put")))
        for number, ((target, size, align), source) in enumerate(zip(self.fields(slot), call.pointers, strict=True)):
            f.copy_memory(target, source, self._bytes(number, size), align)
        if self.form.bounds:
            f.call(came_in(call.module, self.form), "void", [self.queue, slot])
        wakes_all = not _take_alike(call.program, call.queue_name)
        f.call(queues.leave_put(call.module, call.machine, wakes_all=wakes_all), "void", [call.context, self.queue])

    def _bytes(self, field: int, size: int) -> Value:
        """What a field of this element takes; of one that varies, the operand says how long it is."""
        if field not in self.form.varying:
            return i64(size)
        length = self.call.dims.value(self.call.site.inputs[field][1][0])
        return self.f.mul(length, i64(self.row_bytes(field)))


class _Take(_Access):
    """One element, or several, come out."""

    def __init__(self, call: NativeCall) -> None:
        super().__init__(call)
        inputs = len(call.site.inputs)
        self.draws = call.pointers[0] if inputs else None
        self.targets = list(call.pointers[inputs:])
        self.many = _count(call.site, self.form)
        self.padded: dict[int, Value] = {}

    def write(self) -> None:
        if self.many is None:
            self._take(i64(1), needed=self.form.window)
            return
        count, known = self.call.dims.value(self.many), self.many.constant
        if known is not None and 0 < known <= self.form.most_at_once:
            self._take(count, needed=known - 1 + self.form.window)
        elif known != 0:
            self._refuse_too_many(count)
            with self.f.when(self.f.icmp("sgt", count, i64(0)), "take"):
                self._take(count, needed=None)

    def _refuse_too_many(self, count: Value) -> None:
        """So many would never be there."""
        call, most = self.call, i64(self.form.most_at_once)
        bad = self.f.icmp("sgt", count, most)
        with self.f.when(bad, "too.many"):
            operands = [call.context, i64(call.number("fault")), count, most]
            self.f.call(queues.refuse_count(call.module), "void", operands)
        call.leave_if(bad)

    def _take(self, count: Value, needed: int | None) -> None:
        call, f = self.call, self.f
        number = i64(needed) if needed is not None else f.add(count, i64(self.form.window - 1))
        enter = queues.enter_to_take(call.module, call.machine)
        self.enter(enter, [number, self.least(count), i64(call.first)], to_put=False)
        self._leave_with(count)

    def _leave_with(self, count: Value) -> None:
        """What was come in for."""
        call, f = self.call, self.f
        taken = self.count("taken")
        if self.form.bounds:
            count = f.call(gather(call.module, self.form), "i64", [self.queue, count])
            self.padded = {field: self._padded_bytes(field, count) for field in self.form.varying}
        count = self.available(count)
        if self.many is None:
            self._element(i64(0), taken)
        else:
            with f.counted_loop(i64(0), count, hint="element") as loop:
                self._element(loop.index, f.add(taken, loop.index))
        f.atomic_store(f.add(taken, count), self.address("taken"), "monotonic")
        f.call(queues.leave_take(call.module, call.machine), "void", [call.context, self.queue, count])

    def least(self, count: Value) -> Value:
        """How many elements there have to be if no more can come."""
        return count

    def available(self, count: Value) -> Value:
        """How many elements come out, of those that are asked for."""
        return count

    def _element(self, number: Value, position: Value) -> None:
        """Copies one element to row `number` of the outputs."""
        f = self.f
        slot = self._chosen(number, position)
        fields = enumerate(zip(self.fields(slot), self.targets, strict=True))
        for field, ((source, size, align), target) in fields:
            row = f.gep("i8", target, f.mul(number, i64(size)))
            if field in self.form.varying:
                used = f.mul(self.length(slot, field), i64(self.row_bytes(field)))
                f.copy_memory(row, source, used, align)
                f.fill_zero(f.gep("i8", row, used), f.sub(self.padded[field], used), align)
            else:
                f.copy_memory(row, source, i64(size), align)

    def _padded_bytes(self, field: int, count: Value) -> Value:
        """What the longest of the elements that are taken needs of a field."""
        function = longest(self.call.module, self.form, field)
        length = self.f.call(function, "i64", [self.queue, count])
        return self.f.mul(length, i64(self.row_bytes(field)))

    def _chosen(self, number: Value, position: Value) -> Value:
        """The slot of the element that comes next."""
        f = self.f
        if self.draws is not None:
            return self.by_chance(f.load("double", f.gep("double", self.draws, number)), position)
        if self.form.key and self.form.is_reordered:
            return f.call(take_smallest(self.call.module, self.form), "i64", [self.queue, position])
        return self.slot_at(self.index(position))


class _TakeUpTo(_Take):
    """Likewise, or those that are left of a closed queue; how many is the last output."""

    def __init__(self, call: NativeCall) -> None:
        super().__init__(call)
        *self.targets, self.number = self.targets

    def write(self) -> None:
        self.f.store(i64(0), self.number)
        super().write()

    @property
    def may_be_none(self) -> bool:
        """Whether behind the end of the data it gives no elements."""
        return dict(self.call.site.attributes).get("least") == 0

    def least(self, count: Value) -> Value:
        del count
        return i64(0 if self.may_be_none else 1)

    def _leave_with(self, count: Value) -> None:
        if not self.may_be_none:
            super()._leave_with(count)
            return
        call, f = self.call, self.f
        some, none, after = (f.label(x) for x in ("some", "none", "taken"))
        f.branch_if(f.icmp("sgt", self.count("put"), self.count("taken")), some, none)
        f.begin(some)
        super()._leave_with(count)
        f.branch(after)
        f.begin(none)
        f.call(queues.leave_take(call.module, call.machine), "void", [call.context, self.queue, i64(0)])
        f.branch(after)
        f.begin(after)

    def available(self, count: Value) -> Value:
        number = self.f.minimum(count, self.f.sub(self.count("put"), self.count("taken")))
        self.f.store(number, self.number)
        return number


class _Acquire(_Access):
    """Puts in who holds it, and since which line."""

    def write(self) -> None:
        call, f = self.call, self.f
        self.enter(queues.enter_to_put(call.module, call.machine), [i64(1), i64(0)], to_put=True)
        f.store(f.cast("ptrtoint", call.context, "i64"), self.start(i64(0)))
        f.atomic_store(i64(call.number("fault") + 1), self.address("acquired"), "monotonic")
        leave = queues.leave_put(call.module, call.machine, wakes_all=False)
        f.call(leave, "void", [call.context, self.queue])


class _Release(_Access):
    """Takes it out."""

    def write(self) -> None:
        function = queues.release(self.call.module, self.call.machine)
        self.f.call(function, "void", [self.call.context, self.queue])


def _count(site: HostSite, form: QueueForm) -> Dim | None:
    """How many elements a take asks for; None for one that has no axis of its own."""
    shape = site.outputs[0][1]
    return shape[0] if len(shape) > len(form.types[0].shape) else None


def _take_alike(program: Program, queue: str) -> bool:
    """Whether all who take from a queue wait for the same number of elements."""
    counts: set[int | None] = set()
    for site in program.sites:
        form = program.resources[queue].queue
        if (
            site.kind in (QUEUE_TAKE, QUEUE_TAKE_UP_TO)
            and dict(site.attributes)["resource"] == queue
            and form is not None
        ):
            many = _count(site, form)
            counts.add(1 if many is None else many.constant)
    return len(counts) < 2 and None not in counts
