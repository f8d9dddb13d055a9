"""Module texts to a code image: compile, add the memory functions where LLVM asks for them, link."""

from collections.abc import Mapping, Sequence

from dfc_target_cpu.link.compile import OPTIMISED, PLAIN, WRITTEN_OUT
from dfc_target_cpu.link.image import CodeImage, link_image
from dfc_target_cpu.link.memory_functions import MEMORY_FUNCTIONS, memory_functions_text
from dfc_target_cpu.link.objects import objects_of
from dfc_target_cpu.machine import Machine


def build_image(
    texts: Sequence[str],
    machine: Machine,
    exports: Sequence[str] | None = None,
    *,
    speed_level: int = OPTIMISED,
    libraries: Sequence[str] = (),
) -> CodeImage:
    """One image of one or more module texts, and of `libraries`: texts so plain that they skip the optimiser."""
    return link_objects(compile_objects(texts, machine, speed_level=speed_level, libraries=libraries), machine, exports)


def compile_objects(
    texts: Sequence[str],
    machine: Machine,
    *,
    speed_level: int = OPTIMISED,
    libraries: Sequence[str] = (),
    written_out: Sequence[str] = (),
) -> list[bytes]:
    """An object of each text, then of each library, then of each text that is only written out."""
    jobs = [(text, speed_level) for text in texts] + [(text, PLAIN) for text in libraries]
    return objects_of([*jobs, *((text, WRITTEN_OUT) for text in written_out)], machine)


def link_objects(
    objects: Sequence[bytes],
    machine: Machine,
    exports: Sequence[str] | None = None,
    renamed: Sequence[Mapping[str, str]] = (),
    tables: Sequence[Mapping[str, bytes]] = (),
) -> CodeImage:
    """One image of objects, with the memory functions they ask for. `renamed` and `tables` as `link_image` has them."""

    def supply(names: Sequence[str]) -> bytes | None:
        supplied = MEMORY_FUNCTIONS.intersection(names)
        return objects_of([(memory_functions_text(machine), PLAIN)], machine)[0] if supplied else None

    return link_image(objects, exports, supply, renamed, tables)
