"""Who passes a call on to whom: a pure plan.

Parts of an entry that stand in a row, get the same message and give no results are a run. Rank 0 sends the message to
the first part of each of at most `FAN_OUT` equal pieces of a run; whoever gets it is said the piece that he is to see
to, `begin` to before `end` of `EntryPlan.other_tasks`, of which the first part is his own; the rest he cuts into pieces
likewise. All ranks know the entry, so that two numbers say it all.

Guarantees that nobody sends or awaits more than `FAN_OUT` messages for a run, and that a message passes through at most
log(parts) ranks, to the base `FAN_OUT`, rounded up. A run of up to `FAN_OUT` parts is called as if there were no tree.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.distributed.calls.entry_plan import EntryPlan, TaskPart
from dfc_runtime.distributed.transport.comm import Bytes

FAN_OUT = 8
_PIECE = struct.Struct("<II")

Piece = tuple[int, int]
"""The first of the parts, and the one behind the last."""


def pieces(begin: int, end: int) -> list[Piece]:
    """At most `FAN_OUT` pieces of a row of parts, none empty, of sizes that differ by one at most."""
    count = min(FAN_OUT, end - begin)
    bounds = [begin + (end - begin) * number // count for number in range(count + 1)] if count else []
    return list(pairwise(bounds))


def addressed(message: bytearray | bytes, piece: Piece) -> bytearray:
    """A message with the piece that its receiver is to see to."""
    return bytearray(message) + _PIECE.pack(*piece)


def piece_of(message: Bytes) -> tuple[bytes, Piece]:
    """Such a message without the piece, and the piece."""
    content = message.tobytes()
    begin, end = _PIECE.unpack(content[-_PIECE.size :])
    return content[: -_PIECE.size], (begin, end)


@dataclass(frozen=True, slots=True)
class Route:
    """How rank 0 calls an entry: `direct` are the parts that it sends messages of their own, `runs` those that pass one
    on. `awaited` are the ranks that answer when all is well, and `below` those that one of them answers for, himself
    included. `silent` ranks answer only if they fail."""

    direct: Sequence[TaskPart]
    runs: Sequence[Piece]
    awaited: frozenset[int]
    below: Mapping[int, Sequence[int]]
    silent: frozenset[int]


def route(plan: EntryPlan, silent: frozenset[int], *, along_trees: bool = True) -> Route:
    """The route of a call; without trees if a message that nobody awaited may still be under way to somebody."""
    direct: list[TaskPart] = []
    runs: list[Piece] = []
    position = 0
    for can_pass_on, row in groupby(plan.others, lambda part: _message_of(plan, part, silent)):
        parts = list(row)
        end = position + len(parts)
        if can_pass_on is not None and along_trees and len(parts) > FAN_OUT:
            runs.append((position, end))
        else:
            direct += parts
        position = end
    below = {
        plan.others[begin].task.rank: [part.task.rank for part in plan.others[begin:end]]
        for run in runs
        for begin, end in pieces(*run)
    }
    answering = frozenset(part.task.rank for part in direct) - silent
    return Route(direct, runs, answering | below.keys(), below, silent)


def _message_of(plan: EntryPlan, part: TaskPart, silent: frozenset[int]) -> tuple[int, ...] | None:
    """What makes the message of a part, if it can be passed on: the numbers of its feeds, none of which is an array."""
    passes_on = part.down.only_scalars and not part.results and plan.split.update is None
    return part.feeds if passes_on and part.task.rank not in silent else None
