"""Requests about records that generated code tries to answer by itself, before it asks the run side.

Assumes sites of the kinds in `RECORD_KINDS`, and blocks as in `dfc_runtime.records.blocks`. Guarantees that what it
answers is what the run side would: where anything is out of the ordinary, the end of a block, a record that is
damaged, or something else in a record than is asked for, it leaves the answer, and so the message, to the run side.
"""

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import cast

from dfc.deferred.dataclasses import dataclass
from dfc.kernels.program import HostSite, Program
from dfc.ops.effects.records import STRING
from dfc_driver_cpu.context import llvm_type_of
from dfc_runtime.formats.element_types import SIZES
from dfc_runtime.formats.manifest import DECODE_RAW, PARSE_EXAMPLE, RECORD_NEXT
from dfc_runtime.records.blocks import BlockHeader, Row
from dfc_target_cpu.entries.context_code import field_address, load_field
from dfc_target_cpu.entries.dims import DimCode
from dfc_target_cpu.entries.examples import Feature, parse_function
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Value
from dfc_target_cpu.llvm.values import NULL, i64


@dataclass(frozen=True, slots=True)
class RecordCall:
    """One site in the code of a function; `pointers` are the addresses of its inputs, then of its outputs."""

    module: ModuleText
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
        }
        return table[self.site.kind]()

    def _attribute(self, name: str) -> object:
        return dict(self.site.attributes)[name]

    def _texts(self, name: str) -> tuple[str, ...]:
        value = self._attribute(name)
        assert isinstance(value, tuple)
        return tuple(map(str, cast("tuple[object, ...]", value)))

    # --- the next record

    def _next(self) -> Value:
        """Takes the row that comes next out of the block, if it is that of the position."""
        f = self.f
        answered = f.alloca("i64", align=8)
        f.store(i64(0), answered)
        number = list(self.program.resources).index(str(self._attribute("resource")))
        table = load_field(f, self.context, "records")
        with f.when(f.icmp("ne", table, NULL), "blocks"):
            block = f.load("ptr", f.gep("ptr", table, i64(number)))
            with f.when(f.icmp("ne", block, NULL), "block"):
                following = _load(f, BlockHeader, block, "next")
                with f.when(f.icmp("slt", following, _load(f, BlockHeader, block, "count")), "row"):
                    rows = _load(f, BlockHeader, block, "rows")
                    row = f.gep("i8", rows, f.mul(following, i64(ctypes.sizeof(Row))))
                    position = f.load("i64", self.pointers[0])
                    with f.when(f.icmp("eq", _load(f, Row, row, "position"), position), "record"):
                        self._take(row)
                        f.store(f.add(following, i64(1)), field_address(f, BlockHeader, block, "next"))
                        f.store(i64(1), answered)
        return f.load("i64", answered)

    def _take(self, row: Value) -> None:
        f = self.f
        before, data, location, after = self.pointers
        length = _load(f, Row, row, "length")
        skipped = f.add(f.load("i64", f.gep("i64", before, i64(1))), _load(f, Row, row, "skipped"))
        f.copy_memory(data, _load(f, Row, row, "address"), length, 1)
        for index, value in enumerate((i64(0), length, _load(f, Row, row, "number"))):
            f.store(value, f.gep("i64", location, i64(index)))
        f.store(_load(f, Row, row, "following"), after)
        f.store(skipped, f.gep("i64", after, i64(1)))

    # --- what is inside

    def _string(self) -> tuple[Value, Value, Value, Value]:
        """The buffer of the string that is the input, where it begins in it, its length and its record."""
        f, (data, location) = self.f, self.pointers[:2]
        parts = (f.load("i64", f.gep("i64", location, i64(index))) for index in range(3))
        return data, *parts  # pyright: ignore[reportReturnType]  # which are three

    def _parse(self) -> Value:
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

    def _decode(self) -> Value:
        """Copies a string that is a whole number of elements."""
        f = self.f
        data, begin, length, _ = self._string()
        ((dtype, (size,)),) = self.site.outputs
        fits = f.icmp("eq", f.mul(self.dims.value(size), i64(SIZES[str(dtype)])), length)
        with f.when(fits, "whole"):
            f.copy_memory(self.pointers[2], f.gep("i8", data, begin), length, 1)
        return f.cast("zext", fits, "i64")


def _load(f: FunctionText, structure: type[ctypes.Structure], base: Value, field: str) -> Value:
    return f.load(llvm_type_of(structure, field), field_address(f, structure, base, field))
