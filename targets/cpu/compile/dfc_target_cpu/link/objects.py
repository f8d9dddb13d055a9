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


def objects_of(jobs: Sequence[parallel.Job], machine: Machine) -> list[bytes]:
    """An object of each text at its speed level: equal text gives equal bytes, and LLVM takes most of a compilation."""
    identity = compiler.identity()
    names = {job: _name(*job, machine, identity) for job in jobs}
    cache = user_cache()
    known: dict[parallel.Job, bytes] = {}
    for job, name in names.items():
        data = KEPT.get(name)
        if data is None and identity:
            data = cache.get(name)
        if data is not None:
            known[job] = data
    missing = [job for job in names if job not in known]
    compiled = dict(zip(missing, parallel.compile_texts(missing, machine), strict=True))
    if identity:
        cache.put({names[job]: data for job, data in compiled.items()})
    known |= compiled
    for job, data in known.items():
        KEPT.put(names[job], data)
    return [known[job] for job in jobs]


def _name(text: str, speed_level: int, machine: Machine, identity: str) -> str:
    """`identity` is empty where it is not known which LLVM this is: then nothing is kept on disk."""
    processor = (machine.triple, machine.llvm_cpu, machine.llvm_features)
    return digest("cpu object", identity, *processor, str(speed_level), text)
