"""Who sends to whom when a chunk of a sum goes along a tree of tasks, and what is added where: a pure plan.

At level k, tasks stand in groups of 2**k neighbours; the last one may be smaller. Of each group one task, its leader,
has what its blocks add up to: the roots that lie wholly within them. Of two groups that make the next larger one, one
leader sends its roots to the other, who joins them with its own; the leader of all has the sum, which goes down again
the same way. Which of two leaders receives is a bit of `owner`, so that trees with different owners have different
inner nodes, and all tasks work alike for sums of several chunks; of a power of two of tasks the owner leads all.

Guarantees the additions of `reduction_plan`, because neighbours are joined with neighbours; and that no task has more
than log2(tasks) children, rounded up. A group may have several roots where blocks are not dealt in powers of two: as
many as twice the logarithm of the blocks, one in the usual case.
"""

from __future__ import annotations

from functools import lru_cache

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.distributed.reduce.reduction_plan import Node, dealt, joins, roots


@dataclass(frozen=True, slots=True)
class Child:
    """A task whose group joins: it sends `roots` of them. Operands are the roots of the left group, then those of the
    right one; `steps` are pairs of their numbers, the second to be added to the first, and `kept` those that are the
    roots of both groups together."""

    task: int
    roots: int
    is_left: bool
    steps: tuple[tuple[int, int], ...]
    kept: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """The part of one task in a tree: its children in the order in which they join, and to whom it sends what all of
    them have; None for the leader of all."""

    children: tuple[Child, ...]
    parent: int | None


@lru_cache(maxsize=4096)
def branch(blocks: int, tasks: int, task: int, owner: int) -> Branch:
    """What one task has to do."""
    children: list[Child] = []
    level = 0
    while 1 << level < tasks:
        group, sibling = task >> level, (task >> level) ^ 1
        if sibling << level < tasks:
            other = _leader(tasks, level, sibling, owner)
            if (owner >> level) & 1 != group & 1:
                return Branch(tuple(children), other)
            children.append(_child(blocks, tasks, level, group, sibling, other))
        level += 1
    return Branch(tuple(children), None)


def _leader(tasks: int, level: int, group: int, owner: int) -> int:
    """The task that has what a group adds up to."""
    while level:
        level -= 1
        right = 2 * group + 1
        group = right if (owner >> level) & 1 and right << level < tasks else 2 * group
    return group


def _child(blocks: int, tasks: int, level: int, group: int, sibling: int, task: int) -> Child:
    own, other = (_blocks(blocks, tasks, level, each) for each in (group, sibling))
    left, right = sorted((own, other))
    operands = (*roots(blocks, left), *roots(blocks, right))
    steps, kept = joins(roots(blocks, (left[0], right[1])), operands)
    return Child(task, len(roots(blocks, other)), sibling < group, steps, kept)


def _blocks(blocks: int, tasks: int, level: int, group: int) -> Node:
    """The blocks of a group of tasks."""
    last = min((group + 1) << level, tasks) - 1
    return dealt(blocks, tasks, group << level)[0], dealt(blocks, tasks, last)[1]
