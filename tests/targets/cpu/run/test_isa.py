"""Which variants a processor runs, judged by its real bits."""

import subprocess
import sys

from dfc_driver_cpu.isa import REQUIRED_BITS, missing_bits, parse_cpuinfo, runnable_variants
from dfc_target_cpu.machine import MACHINES, detect_host


def test_variants_come_best_first_and_need_all_their_bits():
    full = frozenset(REQUIRED_BITS["x86-64-v4"])
    assert runnable_variants(full, "x86_64") == ("x86-64-v4", "x86-64-v3", "x86-64-v2")
    assert runnable_variants(full - {"avx512dq"}, "x86_64") == ("x86-64-v3", "x86-64-v2")
    assert runnable_variants(full - {"sse4_2"}, "x86_64") == ()
    assert missing_bits("x86-64-v4", full - {"avx512dq"}) == ("avx512dq",)


def test_other_architectures_run_nothing_of_x86():
    everything = frozenset(bit for bits in REQUIRED_BITS.values() for bit in bits)
    assert runnable_variants(everything, "aarch64") == ("aarch64",)
    assert runnable_variants(everything, "riscv64") == ()


def test_cpuinfo_bits_are_those_all_processors_share():
    text = "processor : 0\nflags\t\t: fpu sse avx\n\nprocessor : 1\nflags\t\t: fpu sse\n"
    assert parse_cpuinfo(text) == {"fpu", "sse"}
    assert parse_cpuinfo("garbage") == frozenset()


def test_both_detections_agree_on_this_processor():
    best = detect_host()
    assert best is not None
    assert runnable_variants()[0] == best.name


def test_every_variant_has_a_description():
    assert set(MACHINES) == set(REQUIRED_BITS)


def test_run_half_needs_no_compiler():
    program = (
        "import sys, dfc_driver_cpu.isa, dfc_driver_cpu.loader\n"
        "assert not {'llvmlite', 'elftools', 'dfc'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
