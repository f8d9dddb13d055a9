"""The processor's name, its instruction set by the levels of the x86-64 psABI, and how many threads may run."""

from __future__ import annotations

import os
import platform
from collections.abc import Collection
from pathlib import Path

X86_64_V2, X86_64_V3, X86_64_V4 = "x86-64-v2", "x86-64-v3", "x86-64-v4"
_NEEDED = {
    X86_64_V4: {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
    X86_64_V3: {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"},
    X86_64_V2: {"sse4_1", "sse4_2", "ssse3", "popcnt"},
}
ISAS = (X86_64_V2, X86_64_V3, X86_64_V4)
LANES = {X86_64_V2: 4, X86_64_V3: 8, X86_64_V4: 16}
"""f32 numbers of a vector register."""


def _fields() -> dict[str, str]:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.split("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def level_of(flags: Collection[str]) -> str | None:
    """The highest level whose instructions are all there; a level needs those below it."""
    present = set(flags)
    level = None
    for name in ISAS:
        if not present >= _NEEDED[name]:
            return level
        level = name
    return level


def native_isa() -> str | None:
    """The level of this machine; None below the lowest one, and where this cannot be read."""
    return level_of(_fields().get("flags", "").split())


def description() -> dict[str, object]:
    """What a table says of the machine."""
    fields = _fields()
    return {
        "processor": fields.get("model name") or platform.processor() or platform.machine(),
        "family": " ".join(f"{key} {fields[key]}" for key in ("vendor_id", "cpu family", "model") if key in fields),
        "instruction_set": native_isa(),
        "threads": thread_count(),
        "system": platform.platform(),
    }


def thread_count() -> int:
    return len(os.sched_getaffinity(0))
