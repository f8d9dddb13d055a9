"""Who adds what when blocks of a batch are summed over the tasks of a job: a pure plan.

The sum is a binary tree over block numbers: the node [a, b) is its left part plus its right part, cut at a plus the
largest power of two below b - a. Blocks are dealt to tasks contiguously. A task adds what lies wholly within its own
blocks, which leaves a few *roots*. An array is cut into chunks; for each chunk one task, its owner, gets the roots of
all others, adds them in the order of the tree, and sends the sum to everybody: all ranks add and all links are used.
Small arrays are exchanged instead, and each task adds for itself: one message each way, and no second one to wait for.

Guarantees that the same two operands are added for every element whatever the number of tasks, so that the bits of a
sum do not depend on it.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc_runtime.dataclasses import dataclass

Node = tuple[int, int]
"""Blocks from the first to below the second."""

CHUNK_BYTES = 1 << 20
EXCHANGED_BYTES = 32 << 10
"""Arrays of which a task would send no more than so many bytes in all are exchanged."""
_FEWEST_BYTES = 16 << 10
"""Chunks are not made smaller than this: a message costs as much as so many bytes."""


def dealt(blocks: int, tasks: int, task: int) -> Node:
    """The blocks of a task."""
    return task * blocks // tasks, (task + 1) * blocks // tasks


def split_point(node: Node) -> int:
    """Where a node of at least two blocks has its middle."""
    return node[0] + (1 << ((node[1] - node[0] - 1).bit_length() - 1))


def roots(blocks: int, within: Node) -> tuple[Node, ...]:
    """The largest nodes of the tree that lie wholly within these blocks, from left to right."""
    nodes: list[Node] = []
    open_ = [(0, blocks)]
    while open_:
        node = open_.pop()
        if within[0] <= node[0] and node[1] <= within[1]:
            nodes.append(node)
        elif node[0] < within[1] and within[0] < node[1]:
            middle = split_point(node)
            open_ += [(middle, node[1]), (node[0], middle)]
    return tuple(nodes)


def additions(blocks: int, operands: Sequence[Node]) -> tuple[tuple[int, int], ...]:
    """Pairs of numbers of operands, in an order that works: the second is added to the first, which then stands for
    both. The operands cover all blocks."""
    number = {node: index for index, node in enumerate(operands)}
    steps: list[tuple[int, int]] = []
    open_: list[tuple[Node, bool]] = [((0, blocks), False)]
    while open_:
        node, parts_done = open_.pop()
        if node in number:
            continue
        middle = split_point(node)
        left, right = (node[0], middle), (middle, node[1])
        if parts_done:
            number[node] = number[left]
            steps.append((number[left], number[right]))
        else:
            open_ += [(node, True), (right, False), (left, False)]
    return tuple(steps)


@dataclass(frozen=True, slots=True)
class Plan:
    """How arrays of one size are summed. `is_small` says that every task adds all of it, as one task always does; else
    `owner_of` has the owner of each chunk, and `chunks` its elements. `roots` are those of each task, and `steps` the
    additions over all of them in the order of the tasks."""

    blocks: int
    tasks: int
    is_small: bool
    chunks: tuple[Node, ...]
    owner_of: tuple[int, ...]
    roots: tuple[tuple[Node, ...], ...]
    steps: tuple[tuple[int, int], ...]

    def owned(self, task: int) -> list[int]:
        """The chunks that a task adds up."""
        return [chunk for chunk, owner in enumerate(self.owner_of) if owner == task]

    def first_root(self, task: int) -> int:
        """The number of a task's first root among those of all."""
        return sum(len(each) for each in self.roots[:task])


def make_plan(
    blocks: int, tasks: int, elements: int, item_size: int, first_owner: int = 0, chunk_bytes: int = CHUNK_BYTES
) -> Plan:
    """The plan for arrays of so many elements. What is too small to be cut belongs to the task `first_owner`: sums of
    different values have different ones, so that all tasks add."""
    size = elements * item_size
    is_small = size * (tasks - 1) <= EXCHANGED_BYTES
    per_task = 0 if is_small else min(-(-size // (tasks * chunk_bytes)), size // (tasks * _FEWEST_BYTES))
    count = tasks * per_task if per_task else 1
    borders = [number * elements // count for number in range(count + 1)]
    chunks = tuple((borders[i], borders[i + 1]) for i in range(count))
    by_task = tuple(roots(blocks, dealt(blocks, tasks, task)) for task in range(tasks))
    operands = [node for each in by_task for node in each]
    owners = tuple((number + first_owner) % tasks for number in range(count))
    return Plan(blocks, tasks, is_small, chunks, owners, by_task, additions(blocks, operands))
