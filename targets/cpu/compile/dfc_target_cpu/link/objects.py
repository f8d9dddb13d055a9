"""Objects of module texts, made once: for this process, and on disk for others (`dfc.bundle.disk_cache`).

Assumes that an object depends on nothing but what `_name` hashes: the text, the processor as LLVM is told of it, the
level of the optimiser, the build of LLVM, and how `compile` uses it. Guarantees the bytes that `compile_object` makes.
"""

import functools

from dfc.bundle.disk_cache import digest, user_cache
from dfc_target_cpu.link import compile as compiler
from dfc_target_cpu.machine import Machine


@functools.lru_cache(maxsize=16)
def program_object(text: str, machine: Machine, speed_level: int) -> bytes:
    """LLVM takes most of a compilation, and equal text gives equal bytes: whoever compiles a program again, in a
    notebook or for other ranks, does not wait for LLVM again. Few are kept, so that a long process does not grow."""
    return _object(text, machine, speed_level)


@functools.lru_cache(maxsize=32)
def library_object(text: str, machine: Machine) -> bytes:
    """Of a text so plain that it skips the optimiser, and that many programs have."""
    return _object(text, machine, 0)


def _object(text: str, machine: Machine, speed_level: int) -> bytes:
    cache = user_cache()
    name = _name(text, machine, speed_level)
    known = cache.get(name) if name else None
    if known is not None:
        return known
    compiled = compiler.compile_object(text, machine, speed_level=speed_level)
    if name:
        cache.put({name: compiled})
    return compiled


def _name(text: str, machine: Machine, speed_level: int) -> str:
    """Empty where it is not known which LLVM this is: then nothing is kept."""
    identity = compiler.identity()
    processor = (machine.triple, machine.llvm_cpu, machine.llvm_features)
    return digest("cpu object", identity, *processor, str(speed_level), text) if identity else ""
