"""Checksums of records in native code, by the instruction and by tables."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from dfc_target_cpu.entries.records.checksums import INSTRUCTION, masked_checksum
from dfc_target_cpu.llvm.text import ModuleText, Parameter
from tests.support import record_files
from tests.support.cpu_code import host, load


@pytest.mark.parametrize("by_instruction", [True, False])
def test_checksums_are_those_of_the_definition(by_instruction: bool) -> None:
    machine = host()
    if not by_instruction:
        machine = replace(machine, required_bits=())
    elif INSTRUCTION not in machine.required_bits:
        pytest.skip("this processor has no such instruction")
    module = ModuleText(machine.triple)
    formals = (Parameter("ptr", "data"), Parameter("i64", "length"))
    f = module.function("outside", "i32", formals, linkage="external")
    f.ret(f.call(masked_checksum(module, machine), "i32", f.arguments))
    module.add(f)
    assert ("crc32.64.64" in module.text()) == by_instruction
    function = load(module).function("outside", ctypes.c_uint32, ctypes.c_void_p, ctypes.c_int64)
    data = np.random.default_rng(0).integers(256, size=300, dtype=np.uint8)
    for begin, length in [*((3, length) for length in range(40)), (0, 64), (1, 255), (7, 293)]:
        part = data[begin : begin + length]
        assert function(data.ctypes.data + begin, length) == record_files.masked_checksum(part.tobytes()), length
