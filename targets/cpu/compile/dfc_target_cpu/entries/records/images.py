"""Images that generated code has decoded by processes, over their sockets, without the run side.

Assumes a table and processes as in `dfc_runtime.records.images.decoder_table`. Guarantees that a decoder is asked by
one thread at a time; that one which does not answer in full is marked as lost and not asked again; and that pixels
count only if all of them came.
"""

import ctypes

from dfc_runtime.records.images.decoder_table import BUSY, FREE, LOST, Decoder, DecoderTable
from dfc_target_cpu.entries import futexes
from dfc_target_cpu.entries.context_code import field_address, load_field
from dfc_target_cpu.entries.futexes import architecture_of
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import i32, i64
from dfc_target_cpu.machine import Machine

SEND, RECEIVE = {"x86_64": 44, "aarch64": 206}, {"x86_64": 45, "aarch64": 207}
"""The numbers of the calls of the system, by architecture."""
_NO_SIGNAL, _WAIT_ALL = 0x4000, 0x100
_NAP = (0, 50_000_000)
"""The longest sleep before it looks again whether a decoder is free, as seconds and nanoseconds."""
_DECODER = (Parameter("ptr", "context"), Parameter("ptr", "table"))
_IMAGE = tuple(Parameter(*each) for each in (("ptr", "data"), ("i64", "length"), ("ptr", "pixels")))
_SIDES = (Parameter("i64", "height"), Parameter("i64", "width"), Parameter("i64", "size"))


def decode_function(module: ModuleText, machine: Machine) -> str:
    """`i64 (ptr context, ptr table, ptr data, i64 length, ptr pixels, i64 height, i64 width, i64 size)`: 1 if the
    pixels, of so many bytes, are there; else the run side says what there is to say."""
    return module.define("decode_image", lambda: _Decode(module, machine).build())


class _Decode:
    """Takes a decoder that is free, asks it, and gives it back."""

    def __init__(self, module: ModuleText, machine: Machine) -> None:
        self.module, self.machine = module, machine
        formals = (*_DECODER, *_IMAGE, *_SIDES)
        self.f = module.function("decode_image", "i64", formals, attributes="nounwind noinline")
        self.context, self.table, self.data, self.length, self.pixels, *self.sides, self.size = self.f.arguments
        self.changes = field_address(self.f, DecoderTable, self.table, "changes")
        self.syscall = load_field(self.f, self.context, "syscall")

    def build(self) -> FunctionText:
        f = self.f
        decoder = self._taken()
        descriptor = f.load("i64", field_address(f, Decoder, decoder, "descriptor"))
        failed = f.label("failed")
        head, reply = f.alloca("i64", count=4, align=8), f.alloca("i64", align=8)
        for number, word in enumerate((self.length, *self.sides, i64(0))):
            f.store(word, f.gep("i64", head, i64(number)))
        self._pass_on(SEND, descriptor, head, i64(32), failed)
        self._pass_on(SEND, descriptor, self.data, self.length, failed)
        self._pass_on(RECEIVE, descriptor, reply, i64(8), failed)
        intact, damaged = f.label("intact"), f.label("damaged")
        f.branch_if(f.icmp("eq", f.load("i64", reply), i64(0)), intact, damaged)
        f.begin(intact)
        self._pass_on(RECEIVE, descriptor, self.pixels, self.size, failed)
        self._give_back(decoder, FREE)
        f.ret(i64(1))
        for label, state in ((damaged, FREE), (failed, LOST)):
            f.begin(label)
            self._give_back(decoder, state)
            f.ret(i64(0))
        return f

    def _taken(self) -> Value:
        """A decoder that was free; leaves the function where all are lost."""
        f = self.f
        attempt, look, one, other, nobody, rest, none, taken = (
            f.label(x) for x in ("attempt", "look", "one", "other", "nobody", "rest", "none", "taken")
        )
        at, lost, nap = (f.alloca("i64", count=count, align=8) for count in (1, 1, 2))
        for number, part in enumerate(_NAP):
            f.store(i64(part), f.gep("i64", nap, i64(number)))
        count = f.load("i64", field_address(f, DecoderTable, self.table, "count"))
        rows = f.load("ptr", field_address(f, DecoderTable, self.table, "decoders"))
        f.branch(attempt)
        f.begin(attempt)
        seen = f.atomic_load("i32", self.changes, "seq_cst")
        f.store(i64(0), at)
        f.store(i64(0), lost)
        f.branch(look)
        f.begin(look)
        number = f.load("i64", at)
        f.branch_if(f.icmp("slt", number, count), one, nobody)
        f.begin(one)
        decoder = f.gep("i8", rows, f.mul(number, i64(ctypes.sizeof(Decoder))))
        state, success = f.compare_exchange(field_address(f, Decoder, decoder, "state"), i32(FREE), i32(BUSY))
        f.branch_if(success, taken, other)
        f.begin(other)
        f.store(f.add(f.load("i64", lost), f.cast("zext", f.icmp("eq", state, i32(LOST)), "i64")), lost)
        f.store(f.add(number, i64(1)), at)
        f.branch(look)
        f.begin(nobody)
        f.branch_if(f.icmp("eq", f.load("i64", lost), count), none, rest)
        f.begin(rest)
        futexes.sleep(f, self.machine, self.syscall, self.changes, f.cast("zext", seen, "i64"), nap)
        f.branch(attempt)
        f.begin(none)
        f.ret(i64(0))
        f.begin(taken)
        return decoder

    def _give_back(self, decoder: Value, state: int) -> None:
        """Whoever waits for a free one looks again."""
        f = self.f
        f.atomic_store(i32(state), field_address(f, Decoder, decoder, "state"), "seq_cst")
        f.atomic_update("add", self.changes, i32(1), "seq_cst")
        futexes.wake(f, self.machine, self.syscall, self.changes, i64(1) if state == FREE else futexes.ALL)

    def _pass_on(self, call: dict[str, int], descriptor: Value, data: Value, size: Value, failed: str) -> None:
        """Sends or receives all of these bytes, or goes to `failed`: also where a signal comes before the first."""
        f = self.f
        number, flags = call[architecture_of(self.machine)], _NO_SIGNAL if call is SEND else _WAIT_ALL
        at = f.alloca("i64", align=8)
        again, more, moved, done = (f.label(x) for x in ("again", "more", "moved", "done"))
        f.store(i64(0), at)
        f.branch(again)
        f.begin(again)
        begin = f.load("i64", at)
        f.branch_if(f.icmp("slt", begin, size), more, done)
        f.begin(more)
        operands = (i64(number), descriptor, f.gep("i8", data, begin), f.sub(size, begin), i64(flags), i64(0), i64(0))
        count = f.assign("i64", f"call i64 (i64, ...) {self.syscall.text}({', '.join(map(str, operands))})")
        f.branch_if(f.icmp("sgt", count, i64(0)), moved, failed)
        f.begin(moved)
        f.store(f.add(begin, count), at)
        f.branch(again)
        f.begin(done)
