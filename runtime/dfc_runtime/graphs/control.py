"""The few kernels that a device brings itself: guarded copies, checks, and what decides about conditional nodes.

`dfc_check(condition, error, code)`             reports `code` if the truth value is false
`dfc_copy(target, source, bytes, error)`        copies, unless a fault was reported
`dfc_set(handle, condition, wanted, error)`     the node of the handle runs if the truth value is `wanted`
`dfc_begin_T(handle, start, stop, counter, index, error)`   before a loop: index = start, if there are iterations
`dfc_next_T(handle, counter, index, error)`                 after an iteration: the next index, if there is one more

All parameters have 8 bytes. T is the integer type of the index; `counter` are two i64 that no kernel of a program sees.
Nothing goes on once a fault is reported: `error` points to the word that says so.
"""

from __future__ import annotations

from dfc_runtime.plans.plan import INDICES

CHECK, COPY, SET = "dfc_check", "dfc_copy", "dfc_set"
BEGIN, NEXT = "dfc_begin_", "dfc_next_"
COPY_THREADS, COPY_BLOCKS, COPY_STEP = 256, 1024, 16
"""How copies are launched, and the bytes that a thread moves at a time."""

PLAIN = (CHECK, COPY)
CONDITIONAL = (SET, *(head + kind for kind in INDICES for head in (BEGIN, NEXT)))
"""Those that only programs with control flow need."""
