"""Objects to one flat code image that imports nothing.

Assumes ELF relocatable objects of one architecture, position-independent, small code model. Guarantees an image whose
every reference is resolved inside it, without writable sections, valid at any page-aligned address, and equal for
equal objects. What cannot be so is a `CodeGenerationError` that names the symbol, section or relocation.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from dfc.deferred.dataclasses import dataclass
from dfc.kernels.errors import CodeGenerationError
from dfc_target_cpu.link.elf import (
    EM_AARCH64,
    EM_X86_64,
    SHF_ALLOC,
    SHF_WRITE,
    SHN_UNDEF,
    SHT_PROGBITS,
    STB_LOCAL,
    STV_DEFAULT,
    ElfObject,
    Relocation,
    Section,
    Symbol,
)
from dfc_target_cpu.link.numbers import ALIGNMENT, NO_TABLES
from dfc_target_cpu.link.relocations import AARCH64, X86_64

PAGE = 4096
_PATCHES = {EM_X86_64: X86_64, EM_AARCH64: AARCH64}

NO_NAMES: Mapping[str, str] = MappingProxyType({})
Supplier = Callable[[Sequence[str]], bytes | None]
"""From names that are not defined to an object that defines them, or None."""


@dataclass(frozen=True, slots=True)
class CodeImage:
    """Bytes to map at a page boundary, and the offsets of the functions meant for the outside."""

    code: bytes
    symbols: Mapping[str, int]

    def offset(self, name: str) -> int:
        return self.symbols[name]


class _Linker:
    """Sections laid out one behind the other, and their symbols; then relocations."""

    def __init__(self) -> None:
        self.files: list[ElfObject] = []
        self.tables: list[dict[str, int]] = []
        self.image = bytearray()
        self.addresses: dict[tuple[int, int], int] = {}
        self.globals: dict[str, int] = {}
        self.exported: dict[str, int] = {}

    def add(self, data: bytes, renamed: Mapping[str, str] = NO_NAMES, tables: Mapping[str, bytes] = NO_TABLES) -> None:
        file = ElfObject(data)
        known = self.files[0].machine if self.files else file.machine
        if file.machine not in _PATCHES or file.machine != known:
            raise CodeGenerationError(f"cannot link objects of the architectures {known} and {file.machine}")
        self.files.append(file)
        number = len(self.files) - 1
        for index, section in enumerate(file.sections):
            if _belongs_to_image(section):
                self.image += bytes(-len(self.image) % max(section.alignment, 1))
                self.addresses[number, index] = len(self.image)
                self.image += section.data
        self.tables.append({})
        for name, table in tables.items():
            self.image += bytes(-len(self.image) % ALIGNMENT)
            self.tables[number][name] = len(self.image)
            self.image += table
        for symbol in file.symbols:
            self._take(number, symbol, renamed)

    def _take(self, number: int, symbol: Symbol, renamed: Mapping[str, str]) -> None:
        definition = self._defined_at(number, symbol)
        if definition is None or symbol.bind == STB_LOCAL:
            return
        name = renamed.get(symbol.name, symbol.name)
        if name in self.globals:
            raise CodeGenerationError(f"symbol {name} is defined twice")
        self.globals[name] = definition
        if symbol.visibility == STV_DEFAULT:
            self.exported[name] = definition

    def _defined_at(self, number: int, symbol: Symbol) -> int | None:
        base = self.addresses.get((number, symbol.section))
        return None if base is None else base + symbol.value

    def undefined(self) -> list[str]:
        """Names that some object needs and none defines."""
        needed: set[str] = set()
        for file, tables in zip(self.files, self.tables, strict=True):
            needed.update(s.name for s in file.symbols if s.section == SHN_UNDEF and s.name and s.name not in tables)
        return sorted(needed - set(self.globals))

    def relocate(self) -> None:
        for number, file in enumerate(self.files):
            for section, relocations in file.relocations():
                base = self.addresses.get((number, section))
                for relocation in relocations if base is not None else ():
                    self._apply(number, base or 0, relocation)

    def _apply(self, number: int, base: int, relocation: Relocation) -> None:
        file = self.files[number]
        symbol = file.symbols[relocation.symbol]
        target = self._defined_at(number, symbol)
        if target is None:
            target = self.tables[number].get(symbol.name, self.globals.get(symbol.name))
        if target is None:
            raise CodeGenerationError(f"the code refers to {symbol.name or 'a dropped section'}")
        patch = _PATCHES[file.machine].get(relocation.type)
        if patch is None:
            raise CodeGenerationError(f"relocation of type {relocation.type} against {symbol.name or 'a section'}")
        patch(self.image, base + relocation.offset, target + relocation.addend)


def link_image(
    objects: Sequence[bytes],
    exports: Sequence[str] | None = None,
    supplier: Supplier | None = None,
    renamed: Sequence[Mapping[str, str]] = (),
    tables: Sequence[Mapping[str, bytes]] = (),
) -> CodeImage:
    """One image of all objects, and of what `supplier` adds for names they lack.

    `exports` selects and checks the symbols to publish; None publishes all visible ones. `renamed` are, of the first
    objects, the names that symbols have in the image where these are not their own; `tables`, too of the first
    objects, the data behind names that each of them has for itself.
    """
    linker = _Linker()
    for data, names, own in itertools.zip_longest(objects, renamed, tables):
        linker.add(data, names or NO_NAMES, own or NO_TABLES)
    missing = linker.undefined()
    extra = supplier(missing) if supplier is not None and missing else None
    if extra is not None:
        linker.add(extra)
        missing = linker.undefined()
    if missing:
        raise CodeGenerationError(f"the code needs {', '.join(missing)}, which nothing in the image defines")
    linker.relocate()
    return CodeImage(bytes(linker.image), _chosen(linker.exported, exports))


def _chosen(exported: dict[str, int], names: Sequence[str] | None) -> dict[str, int]:
    if names is None:
        return dict(sorted(exported.items()))
    absent = [name for name in names if name not in exported]
    if absent:
        raise CodeGenerationError(f"the code does not define {', '.join(absent)}")
    return {name: exported[name] for name in names}


def _belongs_to_image(section: Section) -> bool:
    """Loaded sections but unwind tables (nothing unwinds). A writable one is an error."""
    if not section.flags & SHF_ALLOC or section.size == 0 or section.name.startswith(".eh_frame"):
        return False
    if section.flags & SHF_WRITE:
        raise CodeGenerationError(f"the code has a writable section {section.name}")
    if section.alignment > PAGE:
        raise CodeGenerationError(f"section {section.name} is aligned beyond a page")
    return section.type == SHT_PROGBITS
