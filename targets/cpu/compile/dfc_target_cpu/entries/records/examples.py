"""Functions that find features in a `tf.train.Example`, as every writer makes it.

Such a record is one field with all features; each of them is a name and then a list of one kind, numbers packed. The
code walks along the tags, compares names with those it looks for and passes over all others. Assumes that the record is
inside of memory. Guarantees that nothing outside of it is read, and 1 for exactly those records in which it has found
all features as they are wanted; for what is written in another way, or is wrong, 0.
"""

from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import i32, i64

MOST_BYTES = 10
"""Of a number of 64 bits, seven to a byte."""
MESSAGE, VARINT, VALUE = 0x0A, 0x08, 0x12
"""Tags: a message or text that is field 1, a number that is field 1, a message that is field 2."""
LISTS = {"string": 0x0A, "f32": 0x12, "i64": 0x1A}
"""Tags of the lists of one kind."""
Feature = tuple[str, str, int]
"""A name, a kind of `LISTS`, and how many values."""


def parse_function(module: ModuleText, features: tuple[Feature, ...]) -> str:
    """`i64 (ptr data, i64 begin, i64 end, i64 number, ptr results..)`: 1 if the record in these bytes has all features,
    which are in the results then. That of a string is three numbers: where it begins, its length, `number`."""
    return module.define(f"parse_example {features}", lambda: _Parser(module, features).build())


def varint_function(module: ModuleText) -> str:
    """`i64 (ptr data, ptr at, i64 end)`: the number at an offset, which goes behind it; beyond `end` if there is none
    of 64 bits."""
    return module.define("varint", lambda: _varint(module))


def _varint(module: ModuleText) -> FunctionText:
    formals = (Parameter("ptr", "data"), Parameter("ptr", "at"), Parameter("i64", "end"))
    f = module.function("varint", "i64", formals)
    data, at, end = f.arguments
    look, inside, more, done, whole, wrong = (f.label(x) for x in ("look", "inside", "more", "done", "whole", "wrong"))
    begin = f.load("i64", at)
    limit = f.minimum(f.add(begin, i64(MOST_BYTES)), end)
    entry = f.current
    f.branch(look)
    f.begin(look)
    offset, value = f.phi("i64"), f.phi("i64")
    offset.add(begin, entry)
    value.add(i64(0), entry)
    f.branch_if(f.icmp("slt", offset.value, limit), inside, wrong)
    f.begin(inside)
    byte = f.cast("zext", f.load("i8", f.gep("i8", data, offset.value)), "i64")
    shift = f.mul(f.sub(offset.value, begin), i64(7))
    low = f.binary("and", byte, i64(0x7F))
    following = f.add(offset.value, i64(1))
    joined = f.bit_or(value.value, f.binary("shl", low, shift))
    f.branch_if(f.icmp("ult", byte, i64(0x80)), done, more)
    f.begin(more)
    offset.add(following, more)
    value.add(joined, more)
    f.branch(look)
    f.begin(done)
    # the tenth byte has one bit of 64
    f.branch_if(f.bit_and(f.icmp("eq", shift, i64(63)), f.icmp("ugt", low, i64(1))), wrong, whole)
    f.begin(whole)
    f.store(following, at)
    f.ret(joined)
    f.begin(wrong)
    f.store(i64((1 << 63) - 1), at)
    f.ret(i64(0))
    return f


class _Parser:
    """One function on its way. `at` is the offset of the next byte; what does not fit goes to `reject`."""

    def __init__(self, module: ModuleText, features: tuple[Feature, ...]) -> None:
        numbers = (Parameter("i64", name) for name in ("begin", "end", "number"))
        results = (Parameter("ptr", f"result{index}") for index in range(len(features)))
        formals = (Parameter("ptr", "data"), *numbers, *results)
        self.f = f = module.function("parse_example", "i64", formals, attributes="nounwind noinline")
        self.module, self.features = module, features
        self.data, _, self.end, self.number, *self.results = f.arguments
        self.at, self.present = f.alloca("i64", align=8), f.alloca("i64", align=8)
        self.reject = f.label("reject")

    def build(self) -> FunctionText:
        f = self.f
        look, entry, done = (f.label(x) for x in ("look", "entry", "done"))
        f.store(f.argument("begin"), self.at)
        f.store(i64(0), self.present)
        self._message(self.end, is_last=True)
        f.branch(look)
        f.begin(look)
        f.branch_if(f.icmp("slt", self._offset(), self.end), entry, done)
        f.begin(entry)
        self._entry(look)
        f.begin(done)
        everything = f.icmp("eq", f.load("i64", self.present), i64((1 << len(self.features)) - 1))
        f.ret(f.cast("zext", everything, "i64"))
        f.begin(self.reject)
        f.ret(i64(0))
        return f

    def _entry(self, look: str) -> None:
        """A name and a value; then goes on at `look`."""
        f = self.f
        end = self._message(self.end)
        name_end = self._message(end)
        name = self._offset()
        f.store(name_end, self.at)
        self._message(end, tag=VALUE, is_last=True)
        for index, (text, kind, count) in enumerate(self.features):
            same, other = f.label("same"), f.label("other")
            self._compare(name, name_end, text.encode(), same, other)
            f.begin(same)
            self._feature(index, kind, count, end)
            f.store(f.bit_or(f.load("i64", self.present), i64(1 << index)), self.present)
            f.branch(look)
            f.begin(other)
        f.store(end, self.at)
        f.branch(look)

    def _compare(self, begin: Value, end: Value, text: bytes, same: str, other: str) -> None:
        """Whether a name is this one, a byte at a time: most differ in their length or first byte."""
        f = self.f
        following = f.label("bytes")
        f.branch_if(f.icmp("eq", f.sub(end, begin), i64(len(text))), following, other)
        for offset, byte in enumerate(text):
            f.begin(following)
            following = f.label("bytes")
            there = f.load("i8", f.gep("i8", self.data, f.add(begin, i64(offset))))
            f.branch_if(f.icmp("eq", f.cast("zext", there, "i32"), i32(byte)), following, other)
        f.begin(following)
        f.branch(same)

    def _feature(self, index: int, kind: str, count: int, end: Value) -> None:
        """A list of this kind up to the end of the entry, copied to where it is wanted."""
        f, result = self.f, self.results[index]
        self._message(end, tag=LISTS[kind], is_last=True)
        if kind == "i64":
            self._numbers(result, count, end)
            return
        self._message(end, is_last=True)
        begin = self._offset()
        length = f.sub(end, begin)
        if kind == "string":
            for part, value in enumerate((begin, length, self.number)):
                f.store(value, f.gep("i64", result, i64(part)))
        else:
            self._require(f.icmp("eq", length, i64(4 * count)))
            f.copy_memory(result, f.gep("i8", self.data, begin), length, 1)
        f.store(end, self.at)

    def _numbers(self, result: Value, count: int, end: Value) -> None:
        """So many whole numbers: in one field, or one by itself."""
        f = self.f
        if count == 1:
            packed, alone, number = f.label("packed"), f.label("alone"), f.label("number")
            self._require(f.icmp("slt", self._offset(), end))
            f.branch_if(f.icmp("eq", self._byte(), i32(VARINT)), alone, packed)
            f.begin(packed)
            self._message(end, is_last=True)
            f.branch(number)
            f.begin(alone)
            f.store(f.add(self._offset(), i64(1)), self.at)
            f.branch(number)
            f.begin(number)
        else:
            self._message(end, is_last=True)
        with f.counted_loop(i64(0), i64(count), hint="value") as loop:
            f.store(self._varint(end), f.gep("i64", result, loop.index))
        self._require(f.icmp("eq", self._offset(), end))

    # --- pieces

    def _offset(self) -> Value:
        return self.f.load("i64", self.at)

    def _byte(self) -> Value:
        return self.f.cast("zext", self.f.load("i8", self.f.gep("i8", self.data, self._offset())), "i32")

    def _varint(self, end: Value) -> Value:
        """A number; beyond `end` its offset says that there is none, which is seen where it is next compared."""
        return self.f.call(varint_function(self.module), "i64", [self.data, self.at, end])

    def _require(self, condition: Value) -> None:
        following = self.f.label("fits")
        self.f.branch_if(condition, following, self.reject)
        self.f.begin(following)

    def _message(self, end: Value, tag: int = MESSAGE, *, is_last: bool = False) -> Value:
        """Passes over a tag and a length; the end of what follows, which is `end` itself if it `is_last`."""
        f = self.f
        self._require(f.icmp("slt", self._offset(), end))
        self._require(f.icmp("eq", self._byte(), i32(tag)))
        f.store(f.add(self._offset(), i64(1)), self.at)
        length = self._varint(end)
        self._require(f.icmp("sle", self._offset(), end))
        left = f.sub(end, self._offset())
        self._require(f.icmp("eq" if is_last else "ule", length, left))
        return f.add(self._offset(), length)
