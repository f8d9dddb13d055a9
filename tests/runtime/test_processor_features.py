"""The bits of registers, and those that the system must have turned on."""

from __future__ import annotations

from dfc_runtime.processor_features import x86_bits

ALL = 0xFFFFFFFF


def registers(**leaves: list[int]):
    tops = {0: [7, 0, 0, 0], 0x80000000: [0x80000001, 0, 0, 0]}
    known = tops | {1: [0, 0, ALL, 0], 7: [0, ALL, 0, 0], 0x80000001: [0, 0, ALL, 0]}
    known |= {int(name[1:], 16): value for name, value in leaves.items()}
    return lambda leaf: known[leaf]


def test_everything_is_there_where_the_system_saves_all_registers() -> None:
    found = x86_bits(registers(), lambda: 0xE7)
    assert {"avx512vl", "avx2", "fma", "sse4_2", "lahf_lm", "abm", "pni"} <= found


def test_wide_registers_that_the_system_does_not_save_do_not_count() -> None:
    narrow = x86_bits(registers(), lambda: 0x3)
    assert not narrow & {"avx", "avx2", "fma", "f16c", "avx512f"}
    assert {"sse4_2", "bmi2", "movbe"} <= narrow
    wide = x86_bits(registers(), lambda: 0x7)
    assert "avx2" in wide and not any(name.startswith("avx512") for name in wide)


def test_a_system_without_xgetbv_is_not_asked_for_it() -> None:
    def fails() -> int:
        raise AssertionError

    assert "avx" not in x86_bits(registers(_1=[0, 0, ALL & ~(1 << 27), 0]), fails)


def test_leaves_that_the_processor_does_not_have_are_not_read() -> None:
    old = registers(_0=[1, 0, 0, 0], _80000000=[0x80000000, 0, 0, 0])
    found = x86_bits(old, lambda: 0x7)
    assert not found & {"avx2", "bmi1", "abm", "lahf_lm"}
    assert "sse4_2" in found
