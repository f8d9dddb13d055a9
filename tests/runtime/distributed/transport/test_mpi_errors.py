"""Errors of MPI in words."""

from __future__ import annotations

from dfc_runtime.distributed.transport.mpi_errors import in_words

STACK = """Other MPI error, error stack:
internal_Test(109).....: MPI_Test(request=0x7f91f244b710, flag=0x7f91f1699790, status=0x7f91f4827f10) failed
MPIDI_IPC_rndv_cb(176).:
MPIDI_CMA_copy_data(68):
copy_iovs(224).........: process_vm_readv failed (errno 3)"""


def test_a_sender_that_is_gone_is_named() -> None:
    assert in_words(STACK, 2) == "rank 2 has died: a message between it and this rank stopped half-way"


def test_any_other_error_is_told_as_it_is() -> None:
    other = STACK.replace("errno 3", "errno 1")  # not allowed
    assert in_words(other, 2) == f"MPI: {other}"
