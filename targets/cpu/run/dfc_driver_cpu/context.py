"""Memory that generated code and its host share: the context of a call, and the pool of threads.

Assumes both halves are of one ABI version. Guarantees one definition of every offset: the compile half writes
addresses from `ctypes` field offsets of these structures, the run half fills the same structures in.
"""

import ctypes
from collections.abc import Iterator

ABI_VERSION = 1
ERROR_PAYLOAD = 4
CACHE_LINE = 64


class Context(ctypes.Structure):
    """What a native entry gets as its first argument. One per loaded module, used by one call at a time."""

    _fields_ = (
        ("abi_version", ctypes.c_int64),
        ("threads", ctypes.c_int64),  # how many parts a kernel may be split into
        ("pool", ctypes.c_void_p),  # a Pool, or null: then every kernel runs on the calling thread
        ("syscall", ctypes.c_void_p),  # `long syscall(long, ...)` of the C library
        ("variables", ctypes.c_void_p),  # table of pointers, one per variable
        ("scratch", ctypes.c_void_p),  # the arena and per-thread workspaces
        ("scratch_bytes", ctypes.c_int64),
        ("error_lock", ctypes.c_int64),
        ("error_site", ctypes.c_int64),  # 0: none; sites count from 1
        ("error_payload", ctypes.c_int64 * ERROR_PAYLOAD),
        ("constants", ctypes.c_void_p),  # the blob of constants; offsets are in the code
        ("locks", ctypes.c_void_p),  # table of pointers to locks, one per container of state
        ("host_call", ctypes.c_void_p),  # `void (i64 site, ptr frame)`: calls the run side; see `lower_steps`
        ("attention", ctypes.c_int64),  # not 0: native code is to call `poll` where it next looks
        ("poll", ctypes.c_void_p),  # `void (i64)`: clears `stopping` if the call is to go on
        ("stopping", ctypes.c_int64),
        ("committed", ctypes.c_int64),  # not 0: the call is at changes that it does not stop in
        ("leave", ctypes.c_int64),  # not 0: the call is stopping, and the rest of a kernel need not run
        ("caller", ctypes.c_int64),  # the thread that runs the call, as `thread_pointer` tells
        ("spare", ctypes.c_int64 * 2),
    )

    def take_error(self) -> tuple[int, tuple[int, ...]] | None:
        """The recorded error as (site, payload), cleared for the next call; None when all went well."""
        site = self.error_site
        if site == 0:
            return None
        self.error_site = 0
        return site, tuple(self.error_payload)


class Lock(ctypes.Structure):
    """Guards a container of state; whoever shares the state shares the lock. All zeros is free.

    `holders` is -1 while somebody holds it alone, else how many share it. `changes` is what sleepers wait for.
    """

    _fields_ = (
        ("holders", ctypes.c_int32),
        ("waiting", ctypes.c_int32),  # how many want it alone: newcomers who would share it let them go first
        ("sleepers", ctypes.c_int32),
        ("changes", ctypes.c_int32),
    )


class Pool(ctypes.Structure):
    """Shared by all threads of a process. Fields written by different threads lie on different cache lines.

    `claims` is one 64-bit word: next part (bits 0-15), number of parts (bits 16-31), generation (bits 32-63). Fields
    may be added at the end, where code that does not know them leaves them alone.
    """

    _fields_ = (
        ("abi_version", ctypes.c_int64),
        ("workers", ctypes.c_int64),
        ("syscall", ctypes.c_void_p),
        ("stop", ctypes.c_int64),
        ("_line0", ctypes.c_char * 32),
        ("claims", ctypes.c_uint64),
        ("_line1", ctypes.c_char * 56),
        ("function", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("frame", ctypes.c_void_p),
        ("_line2", ctypes.c_char * 40),
        ("done", ctypes.c_int32),
        ("_line3", ctypes.c_char * 60),
        ("sleepers", ctypes.c_int32),
        ("caller_sleeps", ctypes.c_int32),
        ("busy", ctypes.c_int32),
        ("_line4", ctypes.c_char * 52),
        ("thread_ids", ctypes.c_void_p),  # of the workers, as the system counts threads: 32 bits each
        ("masks", ctypes.c_void_p),  # of each processor: all those of this process but it; null: workers stay anywhere
        ("mask_bytes", ctypes.c_int64),
        ("masked", ctypes.c_int64),  # how many processors have a mask
        ("avoided", ctypes.c_int64),  # the processor that workers were last kept off; -1: none
        ("_line5", ctypes.c_char * 24),
    )


def offset_of(structure: type[ctypes.Structure], field: str) -> int:
    return getattr(structure, field).offset


def llvm_type_of(structure: type[ctypes.Structure], field: str) -> str:
    """The LLVM type of a scalar field."""
    return _LLVM_TYPES[dict(_scalar_fields(structure))[field]]


_LLVM_TYPES = {
    ctypes.c_int64: "i64",
    ctypes.c_uint64: "i64",
    ctypes.c_int32: "i32",
    ctypes.c_void_p: "ptr",
}


def _scalar_fields(structure: type[ctypes.Structure]) -> Iterator[tuple[str, type]]:
    for name, kind, *_ in structure._fields_:
        if kind in _LLVM_TYPES:
            yield name, kind
