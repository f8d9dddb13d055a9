"""Storages in the arena at offsets of their own, where slots would leave too much unused.

Before: `a` of 2 MB dies, then `b` and `c` of 1 MB live beside `d` of 2 MB: slots of 2, 2 and 1 MB.
After: `b` and `c` both lie where `a` was: 4 MB.

The large ones come first, and each takes the smallest gap between those that live at the same time ("greedy by size",
Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020). Gaps are found with typical
sizes. What is kept is only which of two lies below the other: the offset of a storage is the largest end of those below
it, a formula. So storages that live at one time lie apart for all sizes, and the arena is tight for typical ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import ZERO, Dim, Symbol, collected, maximum
from dfc.lower.buffers.liveness import Life
from dfc.lower.storage import Storage, typical

ALIGNMENT = 64
MOST_ALTERNATIVES = 4
"""Of an offset, which is the largest of them: each call computes it."""
SAMPLES = (1, 64)
"""Values of sizes for which two alternatives are compared with one in their place."""


@dataclass(slots=True)
class _Block:
    """A storage, how many bytes it takes from `start` on for typical sizes, and those that live at the same time."""

    storage: Storage
    life: Life
    size: int
    start: int = 0
    neighbours: list[_Block] = field(default_factory=list["_Block"])


def pack(tenants: Mapping[Storage, Life], sizes: Mapping[Storage, Dim]) -> tuple[dict[Storage, Dim], Dim] | None:
    """Offsets and the size of the arena; None if some size is no polynomial. Takes time with the square of the number
    of storages."""
    if not all(map(_is_polynomial, sizes.values())):
        return None
    rounded = {storage: _rounded(sizes[storage]) for storage in tenants}
    blocks: list[_Block] = []
    for storage in sorted(tenants, key=lambda s: (-typical(rounded[s]), tenants[s].first)):
        block = _Block(storage, tenants[storage], typical(rounded[storage]))
        life = block.life
        block.neighbours = [b for b in blocks if b.life.first <= life.last and life.first <= b.life.last]
        for other in block.neighbours:
            other.neighbours.append(block)
        block.start = _smallest_gap(block)
        blocks.append(block)
    return _formulas(blocks, rounded)


def _is_polynomial(d: Dim) -> bool:
    return all(isinstance(atom, Symbol) for monomial, _ in d.terms for atom in monomial)


def _rounded(size: Dim) -> Dim:
    """No less than the size, and a multiple of the alignment whatever the sizes in it are. Unlike a size that is
    rounded up in the call it can be compared with others now."""
    return collected((monomial, -(-factor // ALIGNMENT) * ALIGNMENT) for monomial, factor in size.terms)


def _smallest_gap(block: _Block) -> int:
    """Where the block fits with the least left over, else above all that live at the same time."""
    best: tuple[int, int] | None = None
    reached = 0
    for other in sorted(block.neighbours, key=lambda b: b.start):
        gap = other.start - reached
        if gap >= block.size and (best is None or gap < best[0]):
            best = gap, reached
        reached = max(reached, other.start + other.size)
    return reached if best is None else best[1]


def _formulas(blocks: list[_Block], sizes: Mapping[Storage, Dim]) -> tuple[dict[Storage, Dim], Dim]:
    """Each block begins where all have ended that live at the same time and come before it in the order of starts."""
    order = sorted(blocks, key=lambda b: (b.start, b.start + b.size))
    ranks = {block.storage: rank for rank, block in enumerate(order)}
    ends: dict[Storage, list[Dim]] = {}
    lower_neighbours: dict[Storage, set[Storage]] = {}
    offsets: dict[Storage, Dim] = {}
    covered: set[Storage] = set()
    for rank, block in enumerate(order):
        below = sorted((n for n in (ranks[b.storage] for b in block.neighbours) if n < rank), reverse=True)
        starts: list[Dim] = [ZERO]
        touched: list[set[Storage]] = []
        for other in (order[n].storage for n in below):
            if not any(other in each for each in touched):  # else another one lies between
                starts = _largest(starts, ends[other])
                touched.append(lower_neighbours[other])
            covered.add(other)
        lower_neighbours[block.storage] = {order[n].storage for n in below}
        offsets[block.storage] = _maximum(starts)
        ends[block.storage] = [start + sizes[block.storage] for start in starts]
    total = [ZERO]
    for storage, end in ends.items():
        if storage not in covered:
            total = _largest(total, end)
    return offsets, _maximum(total)


def _maximum(alternatives: list[Dim]) -> Dim:
    result = alternatives[0]
    for each in alternatives[1:]:
        result = maximum(result, each)
    return result


def _largest(a: list[Dim], b: list[Dim]) -> list[Dim]:
    """Alternatives none of which is known to be below another. There are few, so that their largest may be a bound."""
    kept = list(a)
    for each in b:
        if not any(_at_least(other, each) for other in kept):
            kept = [*(other for other in kept if not _at_least(each, other)), each]
    while len(kept) > MOST_ALTERNATIVES:
        pairs = [(_bound(one, other), one, other) for n, one in enumerate(kept) for other in kept[:n]]
        bound, one, other = min(pairs, key=lambda pair: _loss(*pair))
        kept = [*(each for each in kept if each not in (one, other) and not _at_least(bound, each)), bound]
    return kept


def _at_least(a: Dim, b: Dim) -> bool:
    """Whether no sizes make `a` less than `b`, as far as that shows: sizes are not negative."""
    return all(factor >= 0 for _, factor in (a - b).terms)


def _bound(a: Dim, b: Dim) -> Dim:
    """The least polynomial that shows to be no less than both."""
    factors, others = dict(a.terms), dict(b.terms)
    return collected((m, max(factors.get(m, 0), others.get(m, 0))) for m in {**factors, **others})


def _loss(bound: Dim, one: Dim, other: Dim) -> float:
    """How much more memory the bound takes than the larger one, as a share."""
    loss = 0.0
    for sample in SAMPLES:
        values = dict.fromkeys(bound.symbols(), sample)
        larger = max(one.evaluate(values), other.evaluate(values))
        loss += bound.evaluate(values) / max(larger, 1) - 1
    return loss
