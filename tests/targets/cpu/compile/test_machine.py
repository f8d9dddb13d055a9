"""Descriptions of machines: the bits that images state are those that the runtime sees, and LLVM judges likewise."""

from itertools import pairwise

from dfc_runtime.processor import host_bits
from dfc_target_cpu.machine import MACHINES, detect_host


def test_the_best_description_is_that_of_the_bits_which_the_runtime_sees() -> None:
    best, present = detect_host(), host_bits()
    assert best is not None
    runnable = [m.name for m in MACHINES.values() if m.triple == best.triple and present.issuperset(m.required_bits)]
    assert runnable[0] == best.name


def test_better_variants_need_more_bits() -> None:
    bits = [set(machine.required_bits) for name, machine in MACHINES.items() if name.startswith("x86")]
    assert all(better > worse for better, worse in pairwise(bits))
    assert all(machine.required_bits for machine in MACHINES.values())


def test_every_bit_is_a_feature_that_llvm_is_told() -> None:
    for machine in MACHINES.values():
        assert len(machine.required_bits) == len(machine.features.split(",")), machine.name
