"""The instruction-set bits of this processor, asked of the processor itself.

Names are those of `/proc/cpuinfo`, and only of bits that code images state. Assumes that machine code can be run here.
Guarantees that vector registers are counted only where the system saves them when it switches threads.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable, Iterator

from dfc_runtime.code_memory import MappedCode

_LEAVES = {  # (leaf, register) -> bit -> name; registers in the order eax, ebx, ecx, edx
    (1, 2): {
        0: "pni",
        9: "ssse3",
        12: "fma",
        13: "cx16",
        19: "sse4_1",
        20: "sse4_2",
        22: "movbe",
        23: "popcnt",
        28: "avx",
        29: "f16c",
    },
    (7, 1): {
        3: "bmi1",
        5: "avx2",
        8: "bmi2",
        16: "avx512f",
        17: "avx512dq",
        28: "avx512cd",
        30: "avx512bw",
        31: "avx512vl",
    },
    (0x80000001, 2): {0: "lahf_lm", 5: "abm"},
}
_SAVES_STATE = 27  # of leaf 1, ecx: the system has turned XGETBV on
_WIDE = frozenset({"avx", "f16c", "fma", "avx2"})
_WIDE_STATE, _WIDEST_STATE = 0x6, 0xE6

_CPUID = bytes.fromhex(
    "53"  # push rbx
    "4989d0"  # mov r8, rdx
    "89f8"  # mov eax, edi
    "89f1"  # mov ecx, esi
    "0fa2"  # cpuid
    "418900"  # mov [r8], eax
    "41895804"  # mov [r8+4], ebx
    "41894808"  # mov [r8+8], ecx
    "4189500c"  # mov [r8+12], edx
    "5b"  # pop rbx
    "c3"  # ret
)
_XGETBV = bytes.fromhex(
    "31c9"  # xor ecx, ecx
    "0f01d0"  # xgetbv
    "c3"  # ret
)
_HARDWARE_CAPABILITIES = 16  # AT_HWCAP of the auxiliary vector
_ARM = {0: "fp", 1: "asimd"}


def asked_bits() -> frozenset[str]:
    """What the processor, or on ARM the kernel, says of itself; nothing on other machines. `UnsupportedError` where no
    machine code can be run."""
    machine = platform.machine()
    if machine in ("x86_64", "AMD64"):
        return _x86_bits()
    if machine in ("aarch64", "arm64"):
        ask = ctypes.CDLL(None).getauxval
        ask.restype, ask.argtypes = ctypes.c_ulong, (ctypes.c_ulong,)
        return frozenset(_set(ask(_HARDWARE_CAPABILITIES), _ARM))
    return frozenset()


def _x86_bits() -> frozenset[str]:
    code = MappedCode(_CPUID.ljust(64, b"\xcc") + _XGETBV)
    ask = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)(code.base)
    state = ctypes.CFUNCTYPE(ctypes.c_uint32)(code.base + 64)

    def registers(leaf: int) -> list[int]:
        filled = (ctypes.c_uint32 * 4)()
        ask(leaf, 0, ctypes.addressof(filled))
        return list(filled)

    try:
        return x86_bits(registers, state)
    finally:
        code.close()


def x86_bits(registers: Callable[[int], list[int]], state: Callable[[], int]) -> frozenset[str]:
    """The bits, from what CPUID fills the registers with for a leaf, and what XGETBV gives."""
    bits: set[str] = set()
    for (leaf, register), names in _LEAVES.items():
        if leaf <= registers(leaf & 0x80000000)[0]:  # the highest leaf of its range
            bits.update(_set(registers(leaf)[register], names))
    saved = state() if registers(1)[2] >> _SAVES_STATE & 1 else 0
    if saved & _WIDE_STATE != _WIDE_STATE:
        bits -= _WIDE
    if saved & _WIDEST_STATE != _WIDEST_STATE:
        bits = {name for name in bits if not name.startswith("avx512")}
    return frozenset(bits)


def _set(word: int, names: dict[int, str]) -> Iterator[str]:
    return (name for bit, name in names.items() if word >> bit & 1)
