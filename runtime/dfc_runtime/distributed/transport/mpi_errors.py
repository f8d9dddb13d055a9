"""What an error of MPI means, where that is known."""

from __future__ import annotations

import re

_GONE = re.compile(r"process_vm_\w+ failed \(errno 3\)")
"""Large messages between ranks of a machine are copied out of the memory of the sender, which has gone with it."""


def in_words(text: str, rank: int) -> str:
    """A message about an error of MPI in what is exchanged with a rank."""
    if _GONE.search(text):
        return f"rank {rank} has died: a message between it and this rank stopped half-way"
    return f"MPI: {text}"
