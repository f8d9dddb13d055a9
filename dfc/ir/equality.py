"""Structural equality of graphs: what two printed forms of one program must agree on.

Compared: resources, entries, tests, signatures, checks on sizes, nodes in their order, operators, operands by position,
attributes, types and regions. Not compared: names of values and nodes, source spans, documentation, `source`, the
settings a program was compiled with, and the words that explain a check. Iterative.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dfc.ir.graph import Block, DimCheck, Entry, Graph, Node, Resource, Value


def equal(a: Graph, b: Graph) -> bool:
    """Whether two graphs say the same."""
    return difference(a, b) is None


def difference(a: Graph, b: Graph) -> str | None:
    """The first place where two graphs differ, in words; None if they are equal."""
    if list(a.resources) != list(b.resources):
        return f"resources {list(a.resources)} against {list(b.resources)}"
    for name, resource in a.resources.items():
        words = _resource_difference(resource, b.resources[name])
        if words:
            return f"resource {name}: {words}"
    for kind, mine, other in (("entry", a.entries, b.entries), ("test", a.tests, b.tests)):
        words = _entries_difference(mine, other)
        if words:
            return f"{kind} {words}"
    return None


def _entries_difference(a: Mapping[str, Entry], b: Mapping[str, Entry]) -> str | None:
    if list(a) != list(b):
        return f"names {list(a)} against {list(b)}"
    for name, entry in a.items():
        words = _first(
            _field_differences(_signature(entry), _signature(b[name])), _block_difference(entry.block, b[name].block)
        )
        if words:
            return f"{name}: {words}"
    return None


def _resource_difference(a: Resource, b: Resource) -> str | None:
    words = _field_differences(_declaration(a), _declaration(b))
    if words or a.initial is None or b.initial is None:
        return words
    return _block_difference(a.initial, b.initial)


def _declaration(r: Resource) -> dict[str, object]:
    return {
        "kind": r.kind,
        "type": r.type,
        "trained": r.trained,
        "has initial value": r.initial is not None,
        "container": r.container,
        "saved": r.saved,
    }


def _signature(e: Entry) -> dict[str, object]:
    return {
        "parameters": e.parameter_names,
        "results": e.result_names,
        "dims": e.dims,
        "dim feeds": e.dim_feeds,
        "checks": sorted(map(_check, e.checks)),
        "readonly": e.readonly,
        "concurrent": e.concurrent,
        "unnamed result": e.unnamed_result,
    }


def _check(check: DimCheck) -> str:
    return f"{check.left} {check.relation} {check.right}"


def _field_differences(a: Mapping[str, object], b: Mapping[str, object]) -> str | None:
    return next((f"{name} {a[name]} against {b[name]}" for name in a if a[name] != b[name]), None)


def _block_difference(a: Block, b: Block) -> str | None:
    same: dict[Value, Value] = {}
    pending = [(a, b)]
    while pending:
        mine, other = pending.pop()
        words = _first(_pair(mine.parameters, other.parameters, same), _nodes_difference(mine, other, same, pending))
        if words:
            return words
    return None


def _nodes_difference(a: Block, b: Block, same: dict[Value, Value], pending: list[tuple[Block, Block]]) -> str | None:
    for mine, other in zip(a.nodes, b.nodes, strict=False):
        words = _node_difference(mine, other, same)
        if words:
            return f"node {mine.name} against {other.name}: {words}"
        pending.extend(zip(mine.regions, other.regions, strict=True))
    if len(a.nodes) != len(b.nodes):
        return f"{len(a.nodes)} nodes against {len(b.nodes)}"
    return None if _matched(a.outputs, b.outputs, same) else "outputs"


def _node_difference(a: Node, b: Node, same: dict[Value, Value]) -> str | None:
    if a.op != b.op:
        return f"op {a.op} against {b.op}"
    if a.attributes != b.attributes:
        return f"attributes {a.attributes} against {b.attributes}"
    if not _matched(a.operands, b.operands, same):
        return "operands"
    if len(a.regions) != len(b.regions):
        return "regions"
    return _pair(a.results, b.results, same)


def _pair(a: Sequence[Value], b: Sequence[Value], same: dict[Value, Value]) -> str | None:
    mine, other = [v.type for v in a], [v.type for v in b]
    if mine != other:
        return f"types {', '.join(map(str, mine))} against {', '.join(map(str, other))}"
    same.update(zip(a, b, strict=True))
    return None


def _matched(a: Sequence[Value], b: Sequence[Value], same: Mapping[Value, Value]) -> bool:
    return len(a) == len(b) and all(same.get(x) is y for x, y in zip(a, b, strict=True))


def _first(*words: str | None) -> str | None:
    return next((each for each in words if each), None)
