"""Objects of module texts, made once: for this process, and on disk for others (`dfc.bundle.disk_cache`).

Assumes that an object depends on nothing but what `_name` hashes: the text, the processor as LLVM is told of it, the
level of the optimiser, the build of LLVM, and how `compile` uses it. Guarantees the bytes that `compile_object` makes.
"""

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

from dfc.bundle.disk_cache import digest, user_cache
from dfc_target_cpu.link import compile as compiler
from dfc_target_cpu.link import parallel
from dfc_target_cpu.machine import Machine

MOST_KEPT = 8 << 20
"""Bytes of objects that a process keeps: whoever compiles a program again, in a notebook or for other ranks, does not
wait for LLVM again, and a long process does not grow."""


class Kept:
    """Objects by what they depend on; those that were used last, up to a number of bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._objects: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def get(self, name: str) -> bytes | None:
        with self._lock:
            if name in self._objects:
                self._objects.move_to_end(name)
            return self._objects.get(name)

    def put(self, name: str, data: bytes) -> None:
        with self._lock:
            self._size += len(data) - len(self._objects.pop(name, b""))
            self._objects[name] = data
            while self._size > self._most:
                _, oldest = self._objects.popitem(last=False)
                self._size -= len(oldest)

    def clear(self) -> None:
        with self._lock:
            self._objects.clear()
            self._size = 0


KEPT = Kept(MOST_KEPT)


def objects_of(texts: Sequence[str], machine: Machine, speed_level: int) -> list[bytes]:
    """An object of each text: equal text gives equal bytes, and LLVM takes most of a compilation. A text so plain that
    it skips the optimiser has the level 0."""
    identity = compiler.identity()
    names = {text: _name(text, machine, speed_level, identity) for text in texts}
    cache = user_cache()
    known: dict[str, bytes] = {}
    for text, name in names.items():
        data = KEPT.get(name)
        if data is None and identity:
            data = cache.get(name)
        if data is not None:
            known[text] = data
    missing = [text for text in names if text not in known]
    compiled = dict(zip(missing, parallel.compile_texts(missing, machine, speed_level), strict=True))
    if identity:
        cache.put({names[text]: data for text, data in compiled.items()})
    known |= compiled
    for text, data in known.items():
        KEPT.put(names[text], data)
    return [known[text] for text in texts]


def _name(text: str, machine: Machine, speed_level: int, identity: str) -> str:
    """`identity` is empty where it is not known which LLVM this is: then nothing is kept on disk."""
    processor = (machine.triple, machine.llvm_cpu, machine.llvm_features)
    return digest("cpu object", identity, *processor, str(speed_level), text)
