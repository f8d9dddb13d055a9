"""The parts of ELF64 relocatable objects that linking needs: sections, symbols, relocations.

Assumes objects that LLVM has just written (little-endian, 64 bits). A general reader of the format costs more time than
everything else in linking; this one reads the tables as they are.
"""

import struct

from dfc.deferred.dataclasses import dataclass
from dfc.kernels.errors import CodeGenerationError

SHT_PROGBITS, SHT_SYMTAB, SHT_RELA = 1, 2, 4
SHF_WRITE, SHF_ALLOC = 1, 2
STB_LOCAL = 0
STV_DEFAULT = 0
SHN_UNDEF = 0
EM_X86_64, EM_AARCH64 = 62, 183

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")


@dataclass(frozen=True, slots=True)
class Section:
    """A section header and its bytes."""

    name: str
    type: int
    flags: int
    link: int
    info: int
    alignment: int
    size: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Symbol:
    name: str
    bind: int
    visibility: int
    section: int
    value: int


@dataclass(frozen=True, slots=True)
class Relocation:
    """Patch `offset` of the section with the symbol (a number in the symbol table) plus `addend`."""

    offset: int
    type: int
    symbol: int
    addend: int


class ElfObject:
    """One object, read whole."""

    def __init__(self, data: bytes) -> None:
        if data[:6] != b"\x7fELF\x02\x01":
            raise CodeGenerationError("the object is no little-endian 64-bit ELF file")
        header = _HEADER.unpack_from(data)
        self.machine: int = header[2]
        offset, size, count, names = header[6], header[11], header[12], header[13]
        raw = [_SECTION.unpack_from(data, offset + size * i) for i in range(count)]
        strings = data[raw[names][4] : raw[names][4] + raw[names][5]]
        self.sections = [_section(data, strings, fields) for fields in raw]
        self.symbols = self._symbols()

    def _symbols(self) -> list[Symbol]:
        table = next((s for s in self.sections if s.type == SHT_SYMTAB), None)
        if table is None:
            return []
        strings = self.sections[table.link].data
        return [
            Symbol(_text(strings, name), info >> 4, other & 3, section, value)
            for name, info, other, section, value, _ in _SYMBOL.iter_unpack(table.data)
        ]

    def relocations(self) -> list[tuple[int, list[Relocation]]]:
        """Section number -> its relocations."""
        return [
            (
                section.info,
                [
                    Relocation(offset, info & 0xFFFFFFFF, info >> 32, addend)
                    for offset, info, addend in _RELOCATION.iter_unpack(section.data)
                ],
            )
            for section in self.sections
            if section.type == SHT_RELA
        ]


def _section(data: bytes, strings: bytes, fields: tuple[int, ...]) -> Section:
    name, kind, flags, _, offset, size, link, info, alignment, _ = fields
    content = data[offset : offset + size] if kind != 8 else b""  # 8: SHT_NOBITS occupies no file bytes
    return Section(_text(strings, name), kind, flags, link, info, alignment, size, content)


def _text(strings: bytes, start: int) -> str:
    return strings[start : strings.index(b"\0", start)].decode()
