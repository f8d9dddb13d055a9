"""Trees of tasks: every task sends once, and what is added are the nodes of the tree over blocks."""

from __future__ import annotations

import pytest

from dfc_runtime.distributed.reduce.reduction_plan import Node, dealt, roots, split_point
from dfc_runtime.distributed.reduce.task_tree import branch


def joined(blocks: int, tasks: int, owner: int) -> tuple[int, list[Node], list[tuple[Node, Node]]]:
    """The leader of all, the nodes that it has in the end, and all additions."""
    added: list[tuple[Node, Node]] = []

    def nodes_of(task: int) -> list[Node]:
        own = list(roots(blocks, dealt(blocks, tasks, task)))
        for child in branch(blocks, tasks, task, owner).children:
            others = nodes_of(child.task)
            assert len(others) == child.roots
            operands = [*others, *own] if child.is_left else [*own, *others]
            for left, right in child.steps:
                added.append((operands[left], operands[right]))
                operands[left] = (operands[left][0], operands[right][1])
            own = [operands[number] for number in child.kept]
        return own

    (leader,) = (task for task in range(tasks) if branch(blocks, tasks, task, owner).parent is None)
    return leader, nodes_of(leader), added


@pytest.mark.parametrize("tasks", [1, 2, 3, 5, 8, 11, 16, 33])
def test_the_leader_has_the_whole_tree_over_blocks(tasks: int) -> None:
    for blocks in (tasks, tasks + 1, 2 * tasks, 3 * tasks + 2):
        for owner in {0, 1, tasks // 2, tasks - 1}:
            _, nodes, added = joined(blocks, tasks, owner)
            assert nodes == [(0, blocks)]
            for left, right in added:
                assert split_point((left[0], right[1])) == left[1] == right[0]


@pytest.mark.parametrize("tasks", [2, 7, 8, 100])
def test_parents_and_children_know_each_other(tasks: int) -> None:
    for owner in range(0, tasks, 3):
        branches = [branch(tasks, tasks, task, owner) for task in range(tasks)]
        expected = {(child.task, parent) for parent, each in enumerate(branches) for child in each.children}
        assert {(task, each.parent) for task, each in enumerate(branches) if each.parent is not None} == expected
        assert max(len(each.children) for each in branches) <= (tasks - 1).bit_length()


def test_owners_lead_and_their_trees_have_different_inner_nodes() -> None:
    assert [joined(16, 16, owner)[0] for owner in range(16)] == list(range(16))
    work = [sum(len(branch(16, 16, task, owner).children) for owner in range(16)) for task in range(16)]
    assert set(work) == {15}


def test_one_root_a_message_where_blocks_are_dealt_in_powers_of_two() -> None:
    for blocks in (64, 128):
        children = [child for task in range(64) for child in branch(blocks, 64, task, 5).children]
        assert {child.roots for child in children} == {1}
        assert len(children) == 63
