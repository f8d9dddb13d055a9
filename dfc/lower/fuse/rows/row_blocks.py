"""row blocks: kernels of an entry that go along the same rows become one, wherever that costs less.

Assumes the blocks of one entry. Guarantees the same values in the same memory, but for what only the joined kernels
touch, which has no memory any more. A chain that costs more as a whole stays apart as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from dfc.lower.fuse.fused import (
    FusedBlock,
    FusedCheck,
    FusedCheckpoint,
    FusedEffect,
    FusedEntry,
    FusedFor,
    FusedHostCall,
    FusedIf,
    FusedKernel,
    FusedMeasure,
    FusedNode,
    FusedPart,
    FusedWhile,
    blocks_of,
)
from dfc.lower.fuse.rows.chains import Chain, Steps, chain, seeds
from dfc.lower.fuse.rows.joining import Joined, joined
from dfc.lower.fuse.rows.phases import Phases, in_order, phase_numbers, phases
from dfc.lower.fuse.rows.runs import Run, RunUses, uses_of
from dfc.lower.storage import BufferView, Storage


def with_row_blocks(entry: FusedEntry) -> FusedEntry:
    """The entry with kernels joined."""
    uses = Counter(view.storage for view in entry.results)
    uses.update(view.storage for view in entry.arguments if view is not None)
    uses.update(view.storage for view in _views(entry.block))
    return replace(entry, block=_block(entry.block, uses))


def _block(block: FusedBlock, uses: Mapping[Storage, int]) -> FusedBlock:
    """It recurses into regions only, whose nesting the front end bounds."""
    parts: list[FusedPart] = []
    run: list[FusedKernel] = []
    for part in block:
        if isinstance(part, FusedKernel):
            run.append(part)
            continue
        parts += [*_run(run, uses), _node(part, uses)]
        run = []
    return (*parts, *_run(run, uses))


def _node(part: FusedNode, uses: Mapping[Storage, int]) -> FusedNode:
    match part:
        case FusedIf():
            return replace(part, then=_block(part.then, uses), otherwise=_block(part.otherwise, uses))
        case FusedWhile():
            return replace(part, condition=_block(part.condition, uses), body=_block(part.body, uses))
        case FusedFor():
            return replace(part, body=_block(part.body, uses))
        case _:
            return part


def _views(block: FusedBlock) -> Iterator[BufferView]:
    """The memory that parts of a block use, once for each use."""
    for part in block:
        match part:
            case FusedKernel():
                yield from part.views
            case FusedCheck() | FusedIf():
                yield part.condition
            case FusedMeasure():
                yield part.source
            case FusedWhile():
                yield part.test
            case FusedFor():
                yield from (part.index, part.start, part.stop)
            case FusedEffect():
                yield from (view for pair in part.copies for view in pair)
            case FusedHostCall():
                yield from (*part.inputs, *part.outputs)
            case FusedCheckpoint():
                pass
            case _:
                assert_never(part)
        for inner in blocks_of(part):
            yield from _views(inner)


def _run(run: Run, counts: Mapping[Storage, int]) -> Run:
    """Kernels with nothing between them: one chain after the other, by the number of what begins it."""
    tried: set[Storage] = set()
    steps: Steps = {}
    while True:
        before = run
        uses = uses_of(run, counts)
        known: Known = {}
        for seed in seeds(uses, tried):
            tried.add(seed)
            run = _with_chain(uses, seed, steps, known)
            if run is not before:
                break
        if run is before:
            return run


Known = dict[tuple[tuple[int, ...], tuple[Storage, ...]], Phases | Storage]
"""The phases of chains of a run, by their members and lines: most seeds of a chain lead to it."""


def _with_chain(uses: RunUses, seed: Storage, steps: Steps, known: Known) -> Run:
    """The run with the chain of a seed as one kernel for each phase; as it was, if that costs more."""
    kept: set[Storage] = set()
    while True:
        joint = chain(uses, seed, kept, steps)
        if joint is None:
            return uses.run
        key = tuple(joint.members), tuple(joint.lines)
        if key not in known:
            known[key] = phases(uses, joint)
        division = known[key]
        if not isinstance(division, Storage):
            break
        kept.add(division)
    groups = [
        one
        for phase in sorted({division.numbers[n] for n in joint.members})
        if (one := joined(uses.run, joint, division, phase))
    ]
    if _is_missed(uses.run, joint, groups):
        return uses.run
    return _replaced(uses, joint, groups)


def _is_missed(run: Run, joint: Chain, groups: Sequence[Joined]) -> bool:
    """Whether something reads a line in memory that only panels of a joined kernel have: a phase that is not joined,
    since one of its rows is too long for a cache."""
    covered = {number for group in groups for number in group.members}
    unwritten = {storage for storage, writer in joint.lines.items() if writer in covered}
    apart = (part for number, part in enumerate(run) if number not in covered)
    return any(view.storage in unwritten for part in (*apart, *(group.part for group in groups)) for view in part.views)


def _replaced(uses: RunUses, joint: Chain, groups: list[Joined]) -> Run:
    run = uses.run
    if not groups or any(group.decision.keeps for group in groups):
        return run
    members = [group.members for group in groups]
    order = in_order(uses, members, phase_numbers(uses, joint, max(map(max, members)) + 1))
    return [run[n] if n < len(run) else groups[n - len(run)].part for n in order]
