"""The limit of a case as a system: a call on all threads that does nothing but multiply and add, or copy.

A copy has the size of the case's own data, so that where these fit into a cache, it is the cache that is measured.
"""

from __future__ import annotations

from bench.limits.processor import native_isa, thread_count
from bench.peers.prepared import Prepare, Prepared, Request
from dfc_target_cpu.limits import Limits


def version(system: str) -> str:
    return native_isa() or "below x86-64-v2"


def preparation(system: str, kind: str) -> Prepare | None:
    """Whatever the kind: the case itself says what limits it."""

    def prepare(request: Request) -> Prepared:
        isa = request.isa or native_isa()
        if request.case.limit is None:
            raise RuntimeError("nothing of the machine limits this case alone")
        if isa is None:
            raise RuntimeError("there are no loops for a processor below x86-64-v2")
        limits = Limits(isa, thread_count())
        of_copy = request.case.limit == "copy"
        call, amount = limits.copy_call(request.case.work(request.sizes).bytes) if of_copy else limits.fma_call()
        return Prepared(call, list, amount=amount)

    return prepare
