"""Relocation arithmetic of the two architectures, on bytes.

Assumes PC-relative references inside one image that is mapped at a page boundary. Guarantees that a value which does
not fit its field, and every kind of relocation not listed here, is an error: nothing is patched silently wrong.
S is the symbol's offset in the image, A the addend, P the offset of the patched place.
"""

import struct
from collections.abc import Callable

from dfc.kernels.errors import CodeGenerationError

Patch = Callable[[bytearray, int, int], None]
"""Patches the image at P (second argument) with S + A (third argument)."""


def _word(image: bytearray, offset: int) -> int:
    return struct.unpack_from("<I", image, offset)[0]


def _fits(value: int, bits: int, offset: int) -> int:
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise CodeGenerationError(f"relocation at {offset:#x} does not fit {bits} bits")
    return value


def _aligned(value: int, alignment: int, offset: int) -> int:
    if value % alignment:
        raise CodeGenerationError(f"relocation at {offset:#x} is not aligned to {alignment}")
    return value


def _relative_32(image: bytearray, offset: int, target: int) -> None:
    struct.pack_into("<i", image, offset, _fits(target - offset, 32, offset))


def _relative_64(image: bytearray, offset: int, target: int) -> None:
    struct.pack_into("<q", image, offset, target - offset)


def _page_address(image: bytearray, offset: int, target: int) -> None:
    """ADRP: the distance in 4 KiB pages, its low 2 bits at 29, the other 19 at 5."""
    pages = _fits((target >> 12) - (offset >> 12), 21, offset) & 0x1FFFFF
    _patch_address(image, offset, pages)


def _near_address(image: bytearray, offset: int, target: int) -> None:
    """ADR: the distance in bytes in the same two fields."""
    _patch_address(image, offset, _fits(target - offset, 21, offset) & 0x1FFFFF)


def _patch_address(image: bytearray, offset: int, value: int) -> None:
    kept = _word(image, offset) & ~(0x3 << 29 | 0x7FFFF << 5)
    struct.pack_into("<I", image, offset, kept | (value & 3) << 29 | (value >> 2) << 5)


def _page_offset(scale: int) -> Patch:
    """The low 12 bits of the target in units of `scale` bytes, in the immediate at bit 10 (ADD, LDR, STR)."""

    def patch(image: bytearray, position: int, target: int) -> None:
        offset = _aligned(target & 0xFFF, scale, position) // scale
        struct.pack_into("<I", image, position, _word(image, position) & ~(0xFFF << 10) | offset << 10)

    return patch


def _branch(bits: int, position: int) -> Patch:
    """A branch distance in words, `bits` wide, at bit `position`."""

    def patch(image: bytearray, offset: int, target: int) -> None:
        words = _fits(_aligned(target - offset, 4, offset) // 4, bits, offset) & (1 << bits) - 1
        kept = _word(image, offset) & ~((1 << bits) - 1 << position)
        struct.pack_into("<I", image, offset, kept | words << position)

    return patch


X86_64: dict[int, Patch] = {
    2: _relative_32,  # R_X86_64_PC32
    4: _relative_32,  # R_X86_64_PLT32
    24: _relative_64,  # R_X86_64_PC64
}

AARCH64: dict[int, Patch] = {
    260: _relative_64,  # R_AARCH64_PREL64
    261: _relative_32,  # R_AARCH64_PREL32
    274: _near_address,  # R_AARCH64_ADR_PREL_LO21
    275: _page_address,  # R_AARCH64_ADR_PREL_PG_HI21
    277: _page_offset(1),  # R_AARCH64_ADD_ABS_LO12_NC
    278: _page_offset(1),  # R_AARCH64_LDST8_ABS_LO12_NC
    279: _branch(14, 5),  # R_AARCH64_TSTBR14
    280: _branch(19, 5),  # R_AARCH64_CONDBR19
    282: _branch(26, 0),  # R_AARCH64_JUMP26
    283: _branch(26, 0),  # R_AARCH64_CALL26
    284: _page_offset(2),  # R_AARCH64_LDST16_ABS_LO12_NC
    285: _page_offset(4),  # R_AARCH64_LDST32_ABS_LO12_NC
    286: _page_offset(8),  # R_AARCH64_LDST64_ABS_LO12_NC
    299: _page_offset(16),  # R_AARCH64_LDST128_ABS_LO12_NC
}
