"""Instruction-set variants of code images and what this processor can run.

Assumes Linux. Guarantees that nothing but the standard library and the run side is imported, that only real
instruction-set bits are looked at, and that an unknown processor is reported as running nothing.
"""

import platform
from pathlib import Path

from dfc_runtime.processor_features import asked_bits

_V2 = ("cx16", "lahf_lm", "popcnt", "pni", "ssse3", "sse4_1", "sse4_2")
_V3 = (*_V2, "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")

REQUIRED_BITS: dict[str, tuple[str, ...]] = {
    "x86-64-v4": _V4,
    "x86-64-v3": _V3,
    "x86-64-v2": _V2,
    "aarch64": ("fp", "asimd"),
}
"""Variant name -> instruction-set bits by their names in `/proc/cpuinfo`; better variants first."""

_ARCHITECTURES = {"x86_64": "x86-64", "AMD64": "x86-64", "aarch64": "aarch64", "arm64": "aarch64"}


def parse_cpuinfo(text: str) -> frozenset[str]:
    """The bits that all listed processors have."""
    rows = [
        frozenset(value.split())
        for key, _, value in (line.partition(":") for line in text.splitlines())
        if key.strip() in ("flags", "Features")
    ]
    return rows[0].intersection(*rows[1:]) if rows else frozenset()


def host_bits() -> frozenset[str]:
    """What all processors have, as the kernel lists it; where it lists nothing, what this one says itself."""
    try:
        listed = parse_cpuinfo(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        listed = frozenset[str]()
    return listed or asked_bits()


def runnable_variants(bits: frozenset[str] | None = None, machine: str | None = None) -> tuple[str, ...]:
    """Variants this processor runs, best first; empty below the baseline."""
    present = host_bits() if bits is None else bits
    family = _ARCHITECTURES.get(platform.machine() if machine is None else machine, "none")
    return tuple(
        name for name, needed in REQUIRED_BITS.items() if name.startswith(family) and present.issuperset(needed)
    )


def missing_bits(variant: str, bits: frozenset[str] | None = None) -> tuple[str, ...]:
    """What this processor lacks for a variant, for the refusal's message."""
    present = host_bits() if bits is None else bits
    return tuple(name for name in REQUIRED_BITS[variant] if name not in present)
