"""CRC-32C as files of records have it, in generated code: by the instruction where the machine has one, else by tables.

Guarantees the numbers of `dfc_runtime.records.crc32c`: the remainder by the polynomial 0x1EDC6F41, bits reversed, from
all ones and inverted, then masked. The tables take eight bytes at a time (M. Kounavis and F. Berry, "A systematic
approach to building high performance software-based CRC generators", 2005).
"""

from functools import cache

from dfc_runtime.records.crc32c import MASK_DELTA, POLYNOMIAL
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import i32, i64
from dfc_target_cpu.machine import Machine

INSTRUCTION = "sse4_2"
WORD = 8
_ALL = 0xFFFFFFFF


def masked_checksum(module: ModuleText, machine: Machine) -> str:
    """`i32 (ptr data, i64 length)`: the checksum of these bytes."""
    return module.define("masked_checksum", lambda: _Checksum(module, machine).build())


class _Checksum:
    """The function on its way. The state is an i64 whose upper half is 0."""

    def __init__(self, module: ModuleText, machine: Machine) -> None:
        formals = (Parameter("ptr", "data"), Parameter("i64", "length"))
        self.f = f = module.function("masked_checksum", "i32", formals, attributes="nounwind noinline")
        self.module, self.has_instruction = module, INSTRUCTION in machine.required_bits
        self.data, self.length = f.arguments
        self.tables = None if self.has_instruction else module.table("i32", _tables(), hint="checksums")

    def build(self) -> FunctionText:
        f = self.f
        words = f.binary("lshr", self.length, i64(3))
        with f.counted_loop(i64(0), words, hint="word") as loop:
            state = loop.carry(i64(_ALL))
            loop.next(state, self._word(state, f.load("i64", f.gep("i64", self.data, loop.index), align=1)))
        state = loop.result(state)
        done = f.binary("shl", words, i64(3))
        with f.counted_loop(done, self.length, hint="byte") as rest:
            last = rest.carry(state)
            rest.next(last, self._byte(last, f.load("i8", f.gep("i8", self.data, rest.index))))
        checksum = f.binary("xor", f.cast("trunc", rest.result(last), "i32"), i32(-1))
        turned = f.bit_or(f.binary("lshr", checksum, i32(15)), f.binary("shl", checksum, i32(17)))
        f.ret(f.add(turned, i32(MASK_DELTA - (1 << 32))))
        return f

    def _word(self, state: Value, word: Value) -> Value:
        """The state behind eight bytes more."""
        f = self.f
        if self.has_instruction:
            name = "llvm.x86.sse42.crc32.64.64"
            self.module.declare(name, "i64", ["i64", "i64"])
            return f.assign("i64", f"call i64 @{name}({state}, {word})")
        mixed = f.binary("xor", state, word)
        parts = [self._entry(WORD - 1 - byte, f.binary("lshr", mixed, i64(8 * byte))) for byte in range(WORD)]
        total = parts[0]
        for part in parts[1:]:
            total = f.binary("xor", total, part)
        return total

    def _byte(self, state: Value, byte: Value) -> Value:
        f = self.f
        mixed = f.binary("xor", state, f.cast("zext", byte, "i64"))
        if not self.has_instruction:
            return f.binary("xor", self._entry(0, mixed), f.binary("lshr", state, i64(8)))
        name = "llvm.x86.sse42.crc32.32.8"
        self.module.declare(name, "i32", ["i32", "i8"])
        low = f.cast("trunc", state, "i32")
        return f.cast("zext", f.assign("i32", f"call i32 @{name}({low}, {byte})"), "i64")

    def _entry(self, table: int, index: Value) -> Value:
        """Of the lowest byte of a number."""
        assert self.tables is not None
        offset = self.f.add(self.f.binary("and", index, i64(0xFF)), i64(256 * table))
        return self.f.cast("zext", self.f.load("i32", self.f.gep("i32", self.tables, offset)), "i64")


@cache
def _tables() -> tuple[int, ...]:
    """Table k has the remainders of a byte with k bytes of zeros behind it."""
    first: list[int] = []
    for state in range(256):
        for _ in range(8):
            state = state >> 1 ^ (POLYNOMIAL if state & 1 else 0)
        first.append(state)
    tables = [first]
    while len(tables) < WORD:
        tables.append([each >> 8 ^ first[each & 0xFF] for each in tables[-1]])
    return tuple(each for table in tables for each in table)
