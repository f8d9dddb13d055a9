"""Requests about records that generated code tries to answer by itself, before it asks the run side.

Assumes sites of the kinds in `RECORD_KINDS`, and blocks as in `dfc_runtime.records.blocks`. Guarantees that what it
answers is what the run side would: where anything is out of the ordinary, the end of a block, a record that is
damaged, or something else in a record than is asked for, it leaves the answer, and so the message, to the run side.
"""

import ctypes
import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import cast

from dfc.deferred.dataclasses import dataclass
from dfc.kernels.program import HostSite, Program, SiteType
from dfc_driver_cpu.context import llvm_type_of
from dfc_runtime.formats.element_types import SIZES
from dfc_runtime.formats.manifest import DECODE_IMAGE, DECODE_RAW, PARSE_EXAMPLE, RECORD_NEXT
from dfc_runtime.records.blocks import BlockHeader, Row
from dfc_runtime.records.fields import PACKED, STRING, STRING_BYTES
from dfc_runtime.records.formats import RECORDS
from dfc_runtime.records.framing import HEAD, LENGTH, TAIL
from dfc_target_cpu.entries.context_code import field_address, load_field
from dfc_target_cpu.entries.dims import DimCode
from dfc_target_cpu.entries.futexes import architecture_of
from dfc_target_cpu.entries.records.checksums import masked_checksum
from dfc_target_cpu.entries.records.examples import Feature, parse_function
from dfc_target_cpu.entries.records.images import decode_function
from dfc_target_cpu.entries.records.resizing import resize_function
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import NULL, i64
from dfc_target_cpu.machine import Machine

PREADV = {"x86_64": 295, "aarch64": 69}
"""The number of the call of the system, by architecture."""


@dataclass(frozen=True, slots=True)
class RecordCall:
    """One site in the code of a function; `pointers` are the addresses of its inputs, then of its outputs."""

    module: ModuleText
    machine: Machine
    f: FunctionText
    context: Value
    dims: DimCode
    program: Program
    site: HostSite
    pointers: Sequence[Value]

    def write(self) -> Value:
        """Writes the code; whether it has answered, as an i64 that is not 0."""
        table: dict[str, Callable[[], Value]] = {
            RECORD_NEXT: self._next,
            PARSE_EXAMPLE: self._parse,
            DECODE_RAW: self._decode,
            DECODE_IMAGE: self._decode_image,
        }
        return table[self.site.kind]()

    def _attribute(self, name: str) -> object:
        return dict(self.site.attributes)[name]

    def _texts(self, name: str) -> tuple[str, ...]:
        value = self._attribute(name)
        assert isinstance(value, tuple)
        return tuple(map(str, cast("tuple[object, ...]", value)))

    # --- the next record

    @contextmanager
    def _block(self) -> Generator[Value]:
        """The code for where the run has a block of the reader."""
        f = self.f
        number = list(self.program.resources).index(str(self._attribute("resource")))
        table = load_field(f, self.context, "records")
        with f.when(f.icmp("ne", table, NULL), "blocks"):
            block = f.load("ptr", f.gep("ptr", table, i64(number)))
            with f.when(f.icmp("ne", block, NULL), "block"):
                yield block

    def _next(self) -> Value:
        """Takes the row that comes next out of the block, if it is that of the position."""
        f, data = self.f, self.pointers[1]
        answered = f.alloca("i64", align=8)
        f.store(i64(0), answered)
        with self._block() as block:
            following = _load(f, BlockHeader, block, "next")
            with f.when(f.icmp("slt", following, _load(f, BlockHeader, block, "count")), "row"):
                rows = _load(f, BlockHeader, block, "rows")
                row = f.gep("i8", rows, f.mul(following, i64(ctypes.sizeof(Row))))
                position = f.load("i64", self.pointers[0])
                with f.when(f.icmp("eq", _load(f, Row, row, "position"), position), "record"):
                    taken = f.call(self._take_function(), "i64", [self.context, row, data])
                    with f.when(f.icmp("ne", taken, i64(0)), "taken"):
                        self._describe(row)
                        f.store(f.add(following, i64(1)), field_address(f, BlockHeader, block, "next"))
                    f.store(taken, answered)
        return f.load("i64", answered)

    def _take_function(self) -> str:
        if dict(self.site.attributes).get("format", RECORDS) == RECORDS:
            return take_function(self.module, self.machine)
        return take_plain_function(self.module, self.machine)

    def _describe(self, row: Value) -> None:
        f = self.f
        before, _, location, after = self.pointers
        for index, value in enumerate((i64(0), _load(f, Row, row, "length"), _load(f, Row, row, "number"))):
            f.store(value, f.gep("i64", location, i64(index)))
        f.store(_load(f, Row, row, "following"), after)
        f.store(f.load("i64", f.gep("i64", before, i64(1))), f.gep("i64", after, i64(1)))

    # --- what is inside

    def _string(self) -> tuple[Value, Value, Value, Value]:
        """The buffer of the string that is the input, where it begins in it, its length and its record."""
        f, (data, location) = self.f, self.pointers[:2]
        begin, length, number = (f.load("i64", f.gep("i64", location, i64(index))) for index in range(3))
        return data, begin, length, number

    def _parse(self) -> Value:
        if dict(self.site.attributes).get("format") == PACKED:
            return self._unpack()
        names, kinds = (self._texts(key) for key in ("names", "kinds"))
        features: list[Feature] = []
        for name, kind, (dtype, shape) in zip(names, kinds, self.site.outputs, strict=True):
            sizes = [size.constant for size in shape]
            count = math.prod(size for size in sizes if size is not None)
            assert None not in sizes, "the shapes of features are known"
            features.append((name, kind if kind == STRING else str(dtype), count))
        function = parse_function(self.module, tuple(features))
        data, begin, length, number = self._string()
        operands = [data, begin, self.f.add(begin, length), number, *self.pointers[2:]]
        return self.f.call(function, "i64", operands)

    def _unpack(self) -> Value:
        """Copies fields that lie one behind the other; each string has to be inside of the record."""
        f = self.f
        data, begin, length, number = self._string()
        sizes = [self._field_size(*each) for each in zip(self._texts("kinds"), self.site.outputs, strict=True)]
        fits = f.icmp("sge", length, i64(sum(sizes)))
        answered = f.alloca("i64", align=8)
        f.store(i64(0), answered)
        with f.when(fits, "fields"):
            at = 0
            for kind, size, output in zip(self._texts("kinds"), sizes, self.pointers[2:], strict=True):
                source = f.gep("i8", data, f.add(begin, i64(at)))
                at += size
                if kind != STRING:
                    f.copy_memory(output, source, i64(size), 1)
                    continue
                first, count = (f.load("i64", f.gep("i64", source, i64(index)), align=1) for index in range(2))
                room = f.sub(length, first)
                fits = f.bit_and(fits, f.icmp("ule", first, length))
                fits = f.bit_and(fits, f.icmp("ule", count, room))
                for index, value in enumerate((f.add(begin, first), count, number)):
                    f.store(value, f.gep("i64", output, i64(index)))
            f.store(f.cast("zext", fits, "i64"), answered)
        return f.load("i64", answered)

    @staticmethod
    def _field_size(kind: str, output: SiteType) -> int:
        dtype, shape = output
        sizes = [size.constant or 0 for size in shape]
        return STRING_BYTES if kind == STRING else math.prod(sizes) * SIZES[str(dtype)]

    def _decode(self) -> Value:
        """Copies a string that is a whole number of elements."""
        f = self.f
        data, begin, length, _ = self._string()
        ((dtype, (size,)),) = self.site.outputs
        fits = f.icmp("eq", f.mul(self.dims.value(size), i64(SIZES[str(dtype)])), length)
        with f.when(fits, "whole"):
            f.copy_memory(self.pointers[2], f.gep("i8", data, begin), length, 1)
        return f.cast("zext", fits, "i64")

    def _decode_image(self) -> Value:
        """Has a process decode it, where there are some; a flag is that of an image that is intact. The run side, which
        decodes it else, is given code that resizes it."""
        f = self.f
        answered = f.alloca("i64", align=8)
        f.store(i64(0), answered)
        with self._block() as block:
            resize = Value("ptr", f"@{resize_function(self.module)}")
            f.store(resize, field_address(f, BlockHeader, block, "resize"))
            decoders = _load(f, BlockHeader, block, "decoders")
            with f.when(f.icmp("ne", decoders, NULL), "decoders"):
                data, begin, length, _ = self._string()
                sides = [int(str(self._attribute(side))) for side in ("height", "width")]
                pixels, *flags = self.pointers[2:]
                operands = [decoders, f.gep("i8", data, begin), length, pixels]
                sizes = map(i64, (*sides, 3 * math.prod(sides)))
                function = decode_function(self.module, self.machine)
                intact = f.call(function, "i64", [self.context, *operands, *sizes])
                for flag in flags:
                    f.store(f.cast("trunc", intact, "i8"), flag)
                f.store(intact, answered)
        return f.load("i64", answered)


def take_function(module: ModuleText, machine: Machine) -> str:
    """`i64 (ptr context, ptr row, ptr data)`: 1 if the record of a row is in `data` now, as its frame says."""
    return module.define("take_record", lambda: _take(module, machine))


def _take(module: ModuleText, machine: Machine) -> FunctionText:
    formals = tuple(Parameter("ptr", name) for name in ("context", "row", "data"))
    f = module.function("take_record", "i64", formals, attributes="nounwind noinline")
    context, row, data = f.arguments
    address, length = _load(f, Row, row, "address"), _load(f, Row, row, "length")
    in_memory, in_file, look, wrong = (f.label(x) for x in ("in.memory", "in.file", "look", "wrong"))
    f.branch_if(f.icmp("ne", address, NULL), in_memory, in_file)
    f.begin(in_memory)
    f.copy_memory(data, address, length, 1)
    here = f.gep("i8", address, i64(-HEAD)), f.gep("i8", address, length)
    f.branch(look)
    f.begin(in_file)
    frame = f.alloca("i8", count=HEAD + TAIL, align=8)
    there = frame, f.gep("i8", frame, i64(HEAD))
    size = _read(f, machine, context, row, [(frame, i64(HEAD)), (data, length), (there[1], i64(TAIL))])
    f.branch_if(f.icmp("eq", size, f.add(length, i64(HEAD + TAIL))), look, wrong)
    f.begin(look)
    head, tail = f.phi("ptr"), f.phi("ptr")
    for phi, values in ((head, (here[0], there[0])), (tail, (here[1], there[1]))):
        for value, block in zip(values, (in_memory, in_file), strict=True):
            phi.add(value, block)
    checksum = masked_checksum(module, machine)
    same = f.icmp("eq", f.load("i64", head.value, align=1), length)
    for of, count, stated in (
        (head.value, i64(LENGTH), f.gep("i8", head.value, i64(LENGTH))),
        (data, length, tail.value),
    ):
        computed = f.call(checksum, "i32", [of, count])
        same = f.bit_and(same, f.icmp("eq", computed, f.load("i32", stated, align=1)))
    f.ret(f.cast("zext", same, "i64"))
    f.begin(wrong)
    f.ret(i64(0))
    return f


def take_plain_function(module: ModuleText, machine: Machine) -> str:
    """The same for records without frames: 1 if all bytes of the record were there."""
    return module.define("take_plain_record", lambda: _take_plain(module, machine))


def _take_plain(module: ModuleText, machine: Machine) -> FunctionText:
    formals = tuple(Parameter("ptr", name) for name in ("context", "row", "data"))
    f = module.function("take_plain_record", "i64", formals, attributes="nounwind noinline")
    context, row, data = f.arguments
    address, length = _load(f, Row, row, "address"), _load(f, Row, row, "length")
    in_memory, in_file = f.label("in.memory"), f.label("in.file")
    f.branch_if(f.icmp("ne", address, NULL), in_memory, in_file)
    f.begin(in_memory)
    f.copy_memory(data, address, length, 1)
    f.ret(i64(1))
    f.begin(in_file)
    size = _read(f, machine, context, row, [(data, length)])
    f.ret(f.cast("zext", f.icmp("eq", size, length), "i64"))
    return f


def _read(
    f: FunctionText, machine: Machine, context: Value, row: Value, pieces: Sequence[tuple[Value, Value]]
) -> Value:
    """Reads a frame out of its file into these pieces of memory; how many bytes that were, or a negative number."""
    vector = f.alloca("i64", count=2 * len(pieces), align=8)
    for index, (pointer, size) in enumerate(pieces):
        f.store(f.cast("ptrtoint", pointer, "i64"), f.gep("i64", vector, i64(2 * index)))
        f.store(size, f.gep("i64", vector, i64(2 * index + 1)))
    number = i64(PREADV[architecture_of(machine)])
    descriptor, offset = _load(f, Row, row, "descriptor"), _load(f, Row, row, "offset")
    operands = ", ".join(map(str, (number, descriptor, vector, i64(len(pieces)), offset, i64(0))))
    syscall = load_field(f, context, "syscall")
    return f.assign("i64", f"call i64 (i64, ...) {syscall.text}({operands})")


def _load(f: FunctionText, structure: type[ctypes.Structure], base: Value, field: str) -> Value:
    return f.load(llvm_type_of(structure, field), field_address(f, structure, base, field))
