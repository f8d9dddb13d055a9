"""The loops that measure the limit use the instructions they are for, and nothing above."""

from __future__ import annotations

import pytest

from bench.limits.native import CHAINS, Loops, fma_flops
from bench.limits.processor import ISAS, level_of, native_isa
from bench.peers.registry import PEERS, isa_switches

V2 = {"sse4_1", "sse4_2", "ssse3", "popcnt"}
V3 = V2 | {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
REGISTERS = {"x86-64-v2": "%xmm", "x86-64-v3": "%ymm", "x86-64-v4": "%zmm"}

on_x86 = pytest.mark.skipif(native_isa() is None, reason="the loops are for x86-64")


@pytest.mark.parametrize(
    ("flags", "level"),
    [(set(), None), (V2, "x86-64-v2"), (V3, "x86-64-v3"), (V4, "x86-64-v4"), (V4 - {"avx2"}, "x86-64-v2")],
)
def test_a_level_needs_all_its_instructions_and_the_levels_below(flags: set[str], level: str | None) -> None:
    assert level_of(flags) == level


@on_x86
@pytest.mark.parametrize("isa", ISAS)
def test_a_loop_uses_the_registers_of_its_instruction_set_alone(isa: str) -> None:
    assembly = Loops(isa).assembly
    assert REGISTERS[isa] in assembly
    assert not any(REGISTERS[other] in assembly for other in ISAS[ISAS.index(isa) + 1 :])
    loop = next(part for part in assembly.split(".LBB")[1:] if "vfmadd" in part or "mulps" in part)
    assert loop.count("vfmadd" if isa != "x86-64-v2" else "mulps") == CHAINS[isa], "a chain spilled, or is missing"
    assert "(%rsp)" not in loop


def test_operations_of_a_trip() -> None:
    assert [fma_flops(isa) for isa in ISAS] == [2 * 4 * 12, 2 * 8 * 12, 2 * 16 * 24]


def test_switches_restrict_only_where_asked() -> None:
    assert isa_switches(None) == {}
    switches = isa_switches("x86-64-v3")
    assert switches["ONEDNN_MAX_CPU_ISA"] == "AVX2"
    assert switches["XLA_FLAGS"] == "--xla_cpu_max_isa=AVX2"
    assert not any(name in system.variables for system in PEERS.values() for name in switches)
