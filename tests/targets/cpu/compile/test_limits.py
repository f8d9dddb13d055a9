"""The loops that measure the limit of the machine use the instructions they are for, and nothing above."""

from __future__ import annotations

import platform

import numpy as np
import pytest

from dfc_target_cpu.limits import LEAST_COPIED, Limits, Loops, aligned, chains, copy_step, fma_flops
from dfc_target_cpu.machine import MACHINES
from tests.support.cpu_code import host

ISAS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
REGISTERS = {"x86-64-v2": "%xmm", "x86-64-v3": "%ymm", "x86-64-v4": "%zmm"}

on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the loops are compiled for this processor")


@on_x86
@pytest.mark.parametrize("isa", ISAS)
def test_a_loop_uses_the_registers_of_its_instruction_set_alone(isa: str) -> None:
    assembly = Loops(MACHINES[isa]).assembly
    assert REGISTERS[isa] in assembly
    assert not any(REGISTERS[other] in assembly for other in ISAS[ISAS.index(isa) + 1 :])
    loop = next(part for part in assembly.split(".LBB")[1:] if "vfmadd" in part or "mulps" in part)
    count = loop.count("vfmadd" if isa != "x86-64-v2" else "mulps")
    assert count == chains(MACHINES[isa]), "a chain spilled, or is missing"
    assert "(%rsp)" not in loop


def test_operations_of_a_trip() -> None:
    assert [fma_flops(MACHINES[isa]) for isa in ISAS] == [2 * 4 * 12, 2 * 8 * 12, 2 * 16 * 24]


@on_x86
def test_both_copies_copy() -> None:
    machine = host()
    count = 3 * copy_step(machine)
    source, target = aligned(4 * count).view(np.float32), aligned(4 * count).view(np.float32)
    source[:] = np.arange(count)
    loops = Loops(machine)
    for copy in loops.copies:
        target[:] = -1
        copy(target.ctypes.data, source.ctypes.data, count)
        assert np.array_equal(target, source)


@on_x86
@pytest.mark.parametrize("threads", [1, 3])
def test_calls_say_how_much_they_do(threads: int) -> None:
    limits = Limits(host().name, threads)
    call, size = limits.copy_call(1 << 16)
    call()
    assert LEAST_COPIED / 2 < size <= LEAST_COPIED * 2
    assert limits.fma_call()[1] % threads == 0
    assert limits.operations > 0 and limits.bandwidth(1 << 16) > 0
