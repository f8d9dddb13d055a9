"""Instruction sets of the bench: the level of a processor, and the switches of peers."""

from __future__ import annotations

import pytest

from bench.limits.processor import level_of
from bench.peers.registry import PEERS, isa_switches

V2 = {"sse4_1", "sse4_2", "ssse3", "popcnt"}
V3 = V2 | {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


@pytest.mark.parametrize(
    ("flags", "level"),
    [(set(), None), (V2, "x86-64-v2"), (V3, "x86-64-v3"), (V4, "x86-64-v4"), (V4 - {"avx2"}, "x86-64-v2")],
)
def test_a_level_needs_all_its_instructions_and_the_levels_below(flags: set[str], level: str | None) -> None:
    assert level_of(flags) == level


def test_switches_restrict_only_where_asked() -> None:
    assert isa_switches(None) == {}
    switches = isa_switches("x86-64-v3")
    assert switches["ONEDNN_MAX_CPU_ISA"] == "AVX2"
    assert switches["XLA_FLAGS"] == "--xla_cpu_max_isa=AVX2"
    assert not any(name in system.variables for system in PEERS.values() for name in switches)
