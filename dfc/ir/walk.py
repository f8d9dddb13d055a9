"""Iterative walks over blocks, nodes and uses.

Assumes nothing about validity: a graph that `dfc.ir.verify` would refuse can be walked too.
Guarantees that no walk recurses, so neither long chains nor deeply nested regions overflow the stack.
"""

from __future__ import annotations

from collections.abc import Iterator

from dfc.ir.graph import Block, Entry, Graph, Node, Value


def blocks(block: Block) -> Iterator[Block]:
    """The block, then every block nested in it, outer before inner, in program order."""
    pending = [block]
    while pending:
        current = pending.pop()
        yield current
        inner = [region for node in current.nodes for region in node.regions]
        pending.extend(reversed(inner))


def nodes(block: Block) -> Iterator[Node]:
    """Every node in program order; a node comes before the nodes of its regions."""
    pending = [iter(block.nodes)]
    while pending:
        for node in pending[-1]:
            yield node
            if node.regions:
                pending.extend([iter(region.nodes) for region in reversed(node.regions)])
                break
        else:
            pending.pop()


def used_values(block: Block) -> set[Value]:
    """Every value that an operand or an output refers to, nested regions included."""
    used: set[Value] = set()
    for current in blocks(block):
        used.update(current.outputs)
        for node in current.nodes:
            used.update(node.operands)
    return used


def use_counts(block: Block) -> dict[Value, int]:
    """How many operands and outputs refer to each value, nested regions included."""
    counts: dict[Value, int] = {}
    for current in blocks(block):
        for node in current.nodes:
            for value in node.operands:
                counts[value] = counts.get(value, 0) + 1
        for value in current.outputs:
            counts[value] = counts.get(value, 0) + 1
    return counts


def defined_values(block: Block) -> set[Value]:
    """Every parameter and result, nested regions included."""
    defined: set[Value] = set()
    for current in blocks(block):
        defined.update(current.parameters)
        for node in current.nodes:
            defined.update(node.results)
    return defined


def free_values(block: Block) -> tuple[Value, ...]:
    """The values a region captures from outside, in the order of their first use."""
    defined = defined_values(block)
    free: dict[Value, None] = {}
    for current in blocks(block):
        for node in current.nodes:
            free.update((value, None) for value in node.operands if value not in defined)
        free.update((value, None) for value in current.outputs if value not in defined)
    return tuple(free)


def inputs(node: Node) -> tuple[Value, ...]:
    """Everything a node depends on: its operands, then what its regions capture."""
    if not node.regions:
        return node.operands
    captured = dict.fromkeys(node.operands)
    for region in node.regions:
        captured.update(dict.fromkeys(free_values(region)))
    return tuple(captured)


def entries(graph: Graph) -> Iterator[Entry]:
    """Every entry, then every test."""
    yield from graph.entries.values()
    yield from graph.tests.values()


def graph_blocks(graph: Graph) -> Iterator[tuple[str, Block]]:
    """The outermost blocks with a name for each: initialisers, entries, tests."""
    for resource in graph.resources.values():
        if resource.initial is not None:
            yield f"initial value of {resource.name}", resource.initial
    for entry in graph.entries.values():
        yield entry.name, entry.block
    for test in graph.tests.values():
        yield f"test {test.name}", test.block


def node_count(graph: Graph) -> int:
    return sum(1 for _, block in graph_blocks(graph) for _ in nodes(block))
