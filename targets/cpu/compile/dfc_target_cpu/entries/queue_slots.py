"""Where the elements of a queue lie, and which one a take gets: the first, one by chance, or one by its key.

Assumes memory of `dfc.ir.queues` whose lock is held. Guarantees that choosing an element moves numbers of the order
alone, and that those who stay keep their order, but for a take by chance, where the first one goes to the place of the
chosen one.
"""

from dfc.ir.dtypes import DType
from dfc.ir.queues import QueueForm, field_bytes, field_offsets, first_slot, slot_bytes
from dfc_driver_cpu.context import QueueHeader
from dfc_runtime.formats.queue_layout import HEADER_BYTES
from dfc_target_cpu.entries.context_code import field_address
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import i32, i64


class QueueSlots:
    """The slots of a queue, in the code of a function."""

    def __init__(self, f: FunctionText, queue: Value, form: QueueForm) -> None:
        self.f, self.queue, self.form = f, queue, form

    def address(self, name: str) -> Value:
        """Of a field of the header."""
        return field_address(self.f, QueueHeader, self.queue, name)

    def count(self, name: str) -> Value:
        return self.f.load("i64", self.address(name))

    def index(self, position: Value) -> Value:
        """Of a position in the order."""
        return self.f.urem(position, i64(self.form.slots))

    def order(self, index: Value) -> Value:
        """The address of a number of the order."""
        return self.f.gep("i8", self.f.gep("i64", self.queue, index), i64(HEADER_BYTES))

    def slot_at(self, index: Value) -> Value:
        """The number of the slot of the element there."""
        if not self.form.is_reordered:
            return index
        return self.f.bit_xor(self.f.load("i64", self.order(index)), index)

    def put_slot(self, index: Value, slot: Value) -> None:
        """Lets the element in a slot be the one there."""
        self.f.store(self.f.bit_xor(slot, index), self.order(index))

    def start(self, slot: Value) -> Value:
        """The address of a slot."""
        first = self.f.gep("i8", self.queue, i64(first_slot(self.form)))
        return self.f.gep("i8", first, self.f.mul(slot, i64(slot_bytes(self.form))))

    def fields(self, slot: Value) -> list[tuple[Value, int, int]]:
        """The address of each field in a slot, its size, and what it is aligned to."""
        start = self.start(slot)
        pairs = zip(self.form.types, field_offsets(self.form), strict=True)
        return [(self.f.gep("i8", start, i64(o)), field_bytes(t), t.machine.size) for t, o in pairs]

    def window(self, position: Value) -> Value:
        """How many elements from a position on a take chooses among."""
        return self.f.minimum(self.f.sub(self.count("put"), position), i64(self.form.window))

    def by_chance(self, draw: Value, position: Value) -> Value:
        """The slot of the element that a draw in [0, 1) chooses; the first one goes to its place."""
        f = self.f
        window = self.window(position)
        name = "llvm.fptosi.sat.i64.f64"
        f.declare(name, "i64", ["double"])
        scaled = f.fmul(draw, f.cast("sitofp", window, "double"))
        within = f.minimum(f.call(name, "i64", [scaled]), f.sub(window, i64(1)))
        first, other = self.index(position), self.index(f.add(position, f.maximum(within, i64(0))))
        front, chosen = self.slot_at(first), self.slot_at(other)
        self.put_slot(other, front)
        self.put_slot(first, chosen)
        return chosen

    def bring_forward(self, chosen: Value, position: Value) -> Value:
        """The slot of the element at `chosen`, which is at `position` now; those between move up by one."""
        f = self.f
        slot = self.slot_at(self.index(chosen))
        with f.counted_loop(i64(0), f.sub(chosen, position), hint="shift") as loop:
            target = f.sub(chosen, loop.index)
            self.put_slot(self.index(target), self.slot_at(self.index(f.sub(target, i64(1)))))
        self.put_slot(self.index(position), slot)
        return slot


def take_smallest(module: ModuleText, form: QueueForm) -> str:
    """`i64 (ptr queue, i64 position)`: the slot of the first element with the smallest key of those that a take at this
    position chooses among."""
    name = module.define(f"queue_smallest {form}", lambda: _Smallest(module, form).build())
    return name


class _Smallest:
    """Looks at the keys one after the other. NaN comes last, as where NumPy sorts."""

    def __init__(self, module: ModuleText, form: QueueForm) -> None:
        formals = (Parameter("ptr", "queue"), Parameter("i64", "position"))
        self.f: FunctionText = module.function("queue_smallest", "i64", formals, attributes="nounwind noinline")
        self.slots = QueueSlots(self.f, self.f.arguments[0], form)
        field = form.fields.index(form.key)
        self.offset, self.dtype = field_offsets(form)[field], form.types[field].machine

    def build(self) -> FunctionText:
        f, position = self.f, self.f.arguments[1]
        end = f.add(position, self.slots.window(position))
        first = self._key(position)
        with f.counted_loop(f.add(position, i64(1)), end, hint="key") as loop:
            best, smallest = loop.carry(position), loop.carry(first)
            key = self._key(loop.index)
            is_smaller = self._is_smaller(key, smallest)
            loop.next(best, f.select(is_smaller, loop.index, best))
            loop.next(smallest, f.select(is_smaller, key, smallest))
        f.ret(self.slots.bring_forward(loop.result(best), position))
        return f

    def _key(self, position: Value) -> Value:
        start = self.slots.start(self.slots.slot_at(self.slots.index(position)))
        return _comparable(self.f, self.f.gep("i8", start, i64(self.offset)), self.dtype)

    def _is_smaller(self, a: Value, b: Value) -> Value:
        f = self.f
        if not self.dtype.is_float:
            return f.icmp("slt" if self.dtype.kind == "signed" else "ult", a, b)
        is_number, is_none = f.fcmp("ord", a, a), f.fcmp("uno", b, b)
        return f.bit_or(f.fcmp("olt", a, b), f.bit_and(is_number, is_none))


def _comparable(f: FunctionText, address: Value, dtype: DType) -> Value:
    """A number in memory, as i64 or double."""
    bits = 8 * dtype.size
    if not dtype.is_float:
        return f.resize(f.load(f"i{bits}", address), "i64", signed=dtype.kind == "signed")
    if dtype.name == "bf16":
        high = f.shl(f.cast("zext", f.load("i16", address), "i32"), i32(16))
        number = f.cast("bitcast", high, "float")
    else:
        number = f.load({"f16": "half", "f32": "float", "f64": "double"}[dtype.name], address)
    return number if dtype.name == "f64" else f.cast("fpext", number, "double")
