"""Objects to one flat code image that imports nothing.

Assumes ELF relocatable objects of one architecture, position-independent, small code model. Guarantees an image whose
every reference is resolved inside it, without writable sections, valid at any page-aligned address, and equal for
equal objects. What cannot be so is a `CodeGenerationError` that names the symbol, section or relocation.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import Relocation, RelocationSection
from elftools.elf.sections import Section, Symbol, SymbolTableSection

from dfc_targets.cpu.errors import CodeGenerationError
from dfc_targets.cpu.relocations import BY_ARCHITECTURE

SHF_WRITE, SHF_ALLOC = 1, 2
PAGE = 4096


@dataclass(frozen=True, slots=True)
class CodeImage:
    """Bytes to map at a page boundary, and the offsets of the functions meant for the outside."""

    code: bytes
    symbols: Mapping[str, int]

    def offset(self, name: str) -> int:
        return self.symbols[name]


class _Linker:
    """Sections laid out one behind the other; then symbols; then relocations."""

    def __init__(self, objects: Sequence[bytes]) -> None:
        self.files = [ELFFile(io.BytesIO(data)) for data in objects]
        self.image = bytearray()
        self.places: dict[tuple[int, int], int] = {}
        self.globals: dict[str, int] = {}
        self.exported: dict[str, int] = {}
        architectures = {file["e_machine"] for file in self.files}
        if len(architectures) != 1 or not architectures <= set(BY_ARCHITECTURE):
            raise CodeGenerationError(f"cannot link objects of {sorted(architectures)}")
        self.patches = BY_ARCHITECTURE[architectures.pop()]

    def lay_out(self) -> None:
        for file_number, file in enumerate(self.files):
            for number, section in enumerate(file.iter_sections()):
                if _belongs_to_image(section):
                    alignment = max(section["sh_addralign"], 1)
                    if alignment > PAGE:
                        raise CodeGenerationError(f"section {section.name} is aligned beyond a page")
                    self.image += bytes(-len(self.image) % alignment)
                    self.places[file_number, number] = len(self.image)
                    self.image += section.data()

    def collect_symbols(self) -> None:
        for file_number, file in enumerate(self.files):
            for symbol in _symbols(file):
                place = self._defined_at(file_number, symbol)
                if place is None or symbol["st_info"]["bind"] == "STB_LOCAL":
                    continue
                if symbol.name in self.globals:
                    raise CodeGenerationError(f"symbol {symbol.name} is defined twice")
                self.globals[symbol.name] = place
                if symbol["st_other"]["visibility"] == "STV_DEFAULT":
                    self.exported[symbol.name] = place

    def _defined_at(self, file_number: int, symbol: Symbol) -> int | None:
        base = self.places.get((file_number, symbol["st_shndx"]))
        return None if base is None else base + symbol["st_value"]

    def undefined(self) -> list[str]:
        """Names that some object needs and none defines."""
        wanted = {
            symbol.name
            for file in self.files
            for symbol in _symbols(file)
            if symbol["st_shndx"] == "SHN_UNDEF" and symbol.name
        }
        return sorted(wanted - set(self.globals))

    def relocate(self) -> None:
        for file_number, file in enumerate(self.files):
            for section in file.iter_sections():
                base = self.places.get((file_number, section["sh_info"]))
                if isinstance(section, RelocationSection) and base is not None:
                    symbols = file.get_section(section["sh_link"])
                    for relocation in section.iter_relocations():
                        self._apply(file_number, base, symbols, relocation)

    def _apply(self, file_number: int, base: int, symbols: SymbolTableSection, relocation: Relocation) -> None:
        kind = relocation["r_info_type"]
        symbol = symbols.get_symbol(relocation["r_info_sym"])
        target = self._defined_at(file_number, symbol)
        if target is None:
            target = self.globals.get(symbol.name)
        if target is None:
            raise CodeGenerationError(f"the code refers to {symbol.name or 'a dropped section'}")
        if kind not in self.patches:
            raise CodeGenerationError(f"relocation of type {kind} against {symbol.name or 'a section'}")
        self.patches[kind](self.image, base + relocation["r_offset"], target + relocation["r_addend"])


def link_image(objects: Sequence[bytes], exports: Sequence[str] | None = None) -> CodeImage:
    """One image of all objects. `exports` selects and checks the symbols to publish; None publishes all visible."""
    linker = _Linker(objects)
    linker.lay_out()
    linker.collect_symbols()
    missing = linker.undefined()
    if missing:
        raise CodeGenerationError(f"the code needs {', '.join(missing)}, which nothing in the image defines")
    linker.relocate()
    return CodeImage(bytes(linker.image), _chosen(linker.exported, exports))


def undefined_symbols(objects: Sequence[bytes]) -> list[str]:
    """What `link_image` would refuse these objects for."""
    linker = _Linker(objects)
    linker.lay_out()
    linker.collect_symbols()
    return linker.undefined()


def _chosen(exported: dict[str, int], names: Sequence[str] | None) -> dict[str, int]:
    if names is None:
        return dict(sorted(exported.items()))
    absent = [name for name in names if name not in exported]
    if absent:
        raise CodeGenerationError(f"the code does not define {', '.join(absent)}")
    return {name: exported[name] for name in names}


def _belongs_to_image(section: Section) -> bool:
    """Loaded sections but unwind tables (nothing unwinds). A writable one is an error."""
    if not section["sh_flags"] & SHF_ALLOC or section["sh_size"] == 0:
        return False
    if section.name.startswith(".eh_frame"):
        return False
    if section["sh_flags"] & SHF_WRITE:
        raise CodeGenerationError(f"the code has a writable section {section.name}")
    return section["sh_type"] == "SHT_PROGBITS"


def _symbols(file: ELFFile) -> Iterator[Symbol]:
    for section in file.iter_sections():
        if isinstance(section, SymbolTableSection):
            yield from section.iter_symbols()
