"""Who adds what when blocks of a batch are summed over the tasks of a job: a pure plan.

The sum is a binary tree over block numbers: the node [a, b) is its left part plus its right part, cut at a plus the
largest power of two below b - a. Blocks are dealt to tasks contiguously. A task adds what lies wholly within its own
blocks, which leaves a few *roots*. An array is cut into chunks; for each chunk one task, its owner, gets the roots of
all others, adds them in the order of the tree, and sends the sum to everybody: all ranks add and all links are used.
Small arrays are exchanged instead, and each task adds for itself: one message each way, and no second one to wait for.
Among many tasks, what is too small to have a chunk for each of them goes along trees of tasks (`task_tree`), a tree for
each chunk: the messages of a task grow with the logarithm of their number, not with the number.

Guarantees that the same two operands are added for every element whatever the number of tasks, so that the bits of a
sum do not depend on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from dfc_runtime.dataclasses import dataclass

Node = tuple[int, int]
"""Blocks from the first to below the second."""

CHUNK_BYTES = 1 << 20
EXCHANGED_BYTES = 32 << 10
"""Arrays of which a task would send no more than so many bytes in all are exchanged."""
FEWEST_BYTES = 16 << 10
"""Chunks are not made smaller than this: a message costs as much as so many bytes."""
FEWEST_TREE_TASKS = 8
"""Below, the two messages to and from an owner are there before the four and more of a way up a tree and down."""
MOST_EXCHANGING_TASKS = 16
"""Above, as many messages as there are other tasks take longer than twice the height of the tree."""

Manner = Literal["exchange", "owners", "trees"]
EXCHANGE: Manner = "exchange"
OWNERS: Manner = "owners"
TREES: Manner = "trees"
MANNERS = (EXCHANGE, OWNERS, TREES)


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
    return joins(((0, blocks),), operands)[0]


def joins(targets: Sequence[Node], operands: Sequence[Node]) -> tuple[tuple[tuple[int, int], ...], tuple[int, ...]]:
    """Likewise for several nodes of the tree that the operands make up; and the number of the operand that stands for
    each of them in the end."""
    number = {node: index for index, node in enumerate(operands)}
    steps: list[tuple[int, int]] = []
    open_: list[tuple[Node, bool]] = [(target, False) for target in reversed(targets)]
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
    return tuple(steps), tuple(number[target] for target in targets)


@dataclass(frozen=True, slots=True)
class Plan:
    """How arrays of one size are summed. With `EXCHANGE` every task adds all of it, as one task always does; else
    `owner_of` has the task that has the sum of each chunk first, and `chunks` its elements. `roots` are those of each
    task, and `steps` the additions over all of them in the order of the tasks."""

    blocks: int
    tasks: int
    how: Manner
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
    blocks: int,
    tasks: int,
    elements: int,
    item_size: int,
    first_owner: int = 0,
    chunk_bytes: int = CHUNK_BYTES,
    how: Manner | None = None,
) -> Plan:
    """The plan for arrays of so many elements. What is too small to be cut belongs to the task `first_owner`: sums of
    different values have different ones, so that all tasks add. `how` is decided here, but for who compares."""
    size = elements * item_size
    how = how or _manner(size, tasks)
    count = 1
    if how == OWNERS:
        count = max(1, tasks * min(-(-size // (tasks * chunk_bytes)), size // (tasks * FEWEST_BYTES)))
    elif how == TREES:
        count = max(1, size // FEWEST_BYTES)
    borders = [number * elements // count for number in range(count + 1)]
    chunks = tuple((borders[i], borders[i + 1]) for i in range(count))
    by_task = tuple(roots(blocks, dealt(blocks, tasks, task)) for task in range(tasks))
    operands = [node for each in by_task for node in each]
    owners = tuple((number + first_owner) % tasks for number in range(count))
    return Plan(blocks, tasks, how, chunks, owners, by_task, additions(blocks, operands))


def _manner(size: int, tasks: int) -> Manner:
    if size * (tasks - 1) <= EXCHANGED_BYTES and (tasks <= MOST_EXCHANGING_TASKS or not size):
        return EXCHANGE
    return TREES if tasks >= FEWEST_TREE_TASKS and size < tasks * FEWEST_BYTES else OWNERS
