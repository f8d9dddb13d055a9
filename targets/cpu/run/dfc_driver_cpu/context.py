"""Memory that generated code and its host share: the context of a call, and the pool of threads.

Assumes both halves are of one ABI version. Guarantees one definition of every offset: the compile half writes
addresses from `ctypes` field offsets of these structures, the run half fills the same structures in.
"""

import ctypes
from collections.abc import Iterator

# 2: contexts have limits and counts of waiting, queues their fullest bucket. 3: contexts know whether they are counted
# among the users of the pool. Structures grow at their ends alone.
ABI_VERSION = 3
OLDEST_QUEUES = 2
"""The oldest version in which queues lie as they do now."""
ERROR_PAYLOAD = 4
CACHE_LINE = 64
LARGE_PAGE = 2 << 20
"""Scratch memory of this size and more begins at a multiple of it: systems hand out such pages whole."""


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
        ("leave", ctypes.c_int64),  # not 0: the call is stopping, and kernels need not end; 2: it did nothing
        ("caller", ctypes.c_int64),  # the thread that runs the call, as `thread_pointer` tells
        ("waiting", ctypes.c_int64),  # 0, or what the call waits for: 1 + 2 * queue + (1 to put), or -1 - turn
        ("needed", ctypes.c_int64),  # how many elements a take waits for; of a put, the capacity
        ("waiting_fault", ctypes.c_int64),  # the fault site that stands for the line which waits
        ("iteration", ctypes.c_int64),  # of a runner
        ("runner", ctypes.c_void_p),  # a RunnerGroup, or null in the call of an entry
        ("wake_seconds", ctypes.c_int64),  # not 0: waiting for a queue is limited, and native code is to call `poll`
        ("wake_nanoseconds", ctypes.c_int64),  # at this time of the monotonic clock: with the field before, a timespec
        ("waits", ctypes.c_void_p),  # null, or two i64 for each fault site: nanoseconds of waiting, and how many times
        ("records", ctypes.c_void_p),  # table of pointers, one per variable: to the block of a reader, or null
        ("uses_pool", ctypes.c_int32),  # whether the call is among the `users` of the pool
        ("_pad", ctypes.c_int32),
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


class QueueHeader(ctypes.Structure):
    """The head of a queue's memory (`dfc.ir.queues`). All zeros is an empty queue. Everything is read and written under
    the lock, but that sleepers watch the two futex words and the run side looks at the numbers.

    `put` and `taken` count the elements so far. `closed` is one of the states in `dfc_runtime.runners.native`.
    """

    _fields_ = (
        ("lock", Lock),
        ("arrivals", ctypes.c_int32),  # changes when those who sleep to take are woken
        ("departures", ctypes.c_int32),  # likewise, to put
        ("takers", ctypes.c_int32),  # how many sleep
        ("putters", ctypes.c_int32),
        ("put", ctypes.c_int64),
        ("taken", ctypes.c_int64),
        ("closed", ctypes.c_int64),
        ("needed", ctypes.c_int64),  # the least that one of the sleeping takers waits for
        ("fullest", ctypes.c_int64),  # how many elements the fullest bucket has; 0 where there are none
        ("acquired", ctypes.c_int64),  # of a mutex: 1 + the fault site of the line that acquired it last; 0: none did
    )


class RunnerGroup(ctypes.Structure):
    """The copies of one runner. `turns` lines of the structure `Turn` lie behind it."""

    _fields_ = (
        ("next", ctypes.c_int64),  # the next iteration that a copy begins
        ("ended", ctypes.c_int64),  # the first iteration that did not end well; `NEVER` at first
        ("stop", ctypes.c_int64),  # not 0: no copy begins another iteration, nor waits for its turn
        ("turns", ctypes.c_int64),
        ("turn_wait", ctypes.c_int64),  # nanoseconds of waiting for turns, where that is measured
        ("hold", ctypes.c_int64),  # not 0: no copy begins another iteration, and those that have begun end
        ("retreated", ctypes.c_int64),  # iterations that were left before they did anything, as the runner is held
        ("drawn", ctypes.c_int64),  # those among them that have drawn for their take
    )


class Turn(ctypes.Structure):
    """Whose turn it is to use one object of a runner: iteration `next`. Iteration i sleeps on the word i modulo their
    number, so that one who is done wakes few others."""

    _fields_ = (
        ("next", ctypes.c_int64),
        ("sleepers", ctypes.c_int32),
        ("_pad", ctypes.c_int32),
        ("words", ctypes.c_int32 * 16),
        ("_line0", ctypes.c_char * 48),
    )


TURN_WORDS = 16
NEVER = (1 << 63) - 1


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
        ("users", ctypes.c_int32),  # calls that compute, and have something to compute on several threads
        ("_line5", ctypes.c_char * 20),
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
