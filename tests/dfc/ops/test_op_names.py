"""What is to be known of an op is in its record: outside `dfc/ops` no line asks for the name of one.

Counted are string literals that are the name of an op. Not counted: structural ops (`dfc.ir.structural`), whose
meaning is the graph's own; the name of a node that is being made (`builder.apply("mul", ..)`): that says what a
pass makes, and nothing about an op that it meets. `dfc/kernels`, what works on kernels (`dfc/lower/legalise`,
`dfc/lower/threads`, `dfc/lower/fuse/rows`) and the targets are no part of this: their words are those of scalar
instructions, which share some names with ops.

`op_names_elsewhere.txt` says how many a file may have, and why. It can only shrink: a file that has fewer fails, too,
until `pytest --bless` has taken that down.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from dfc.ir.structural import STRUCTURAL
from dfc.ops.registry import all_records, find

ROOT = Path(__file__).resolve().parents[3]
MAKING = frozenset(
    {"apply", "node", "add", "infer", "Node", "make", "record", "deferred", "OperationSpans", "call_prelude"}
)
MAKING = MAKING | {"_append", "append_node", "_append_view", "_talk", "_through"}
"""Functions that make a node, look up the record of what they will make, or say where in the text it comes from."""
OF_INSTRUCTIONS = ("dfc/ops/", "dfc/kernels/", "dfc/lower/legalise/", "dfc/lower/threads/", "dfc/lower/fuse/rows/")
LIST = Path(__file__).with_name("op_names_elsewhere.txt")


def op_names(source: str, names: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Line and text of the literals that are counted."""
    if names.isdisjoint(re.findall(r"(?<=[\"'])\w+(?=[\"'])", source)):
        return  # most files need no reading as a tree
    tree = ast.parse(source)
    made = {
        id(argument)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and _last_name(call.func) in MAKING
        for argument in call.args
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value in names
            and id(node) not in made
        ):
            yield node.lineno, node.value


def _last_name(function: ast.expr) -> str:
    """Of `a.b.c` the c."""
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def counted() -> dict[str, list[tuple[int, str]]]:
    names = frozenset(record.name for record in all_records()) - STRUCTURAL
    found: dict[str, list[tuple[int, str]]] = {}
    for path in sorted((ROOT / "dfc").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(OF_INSTRUCTIONS):
            found[name] = sorted(op_names(path.read_text(), names))
    return {name: literals for name, literals in found.items() if literals}


def allowed() -> dict[str, tuple[int, str]]:
    """How many literals a file may have, and the reason."""
    lines = [line.split(maxsplit=2) for line in LIST.read_text().splitlines() if line]
    return {name: (int(count), reason) for name, count, reason in lines}


def lowered(found: dict[str, list[tuple[int, str]]]) -> None:
    """Takes down what has become less; never what has become more."""
    kept = {name: (min(count, len(found.get(name, ()))), reason) for name, (count, reason) in allowed().items()}
    LIST.write_text("".join(f"{name} {count} {reason}\n" for name, (count, reason) in kept.items() if count))


def test_no_file_asks_for_more_ops_by_name_than_it_may(bless: bool) -> None:
    found = counted()
    if bless:
        lowered(found)
    may = {name: count for name, (count, _) in allowed().items()}
    wrong = [name for name in sorted({*found, *may}) if len(found.get(name, ())) != may.get(name, 0)]
    assert not wrong, "\n".join(f"{name}: may have {may.get(name, 0)}, has {found.get(name, [])}" for name in wrong)


def test_structural_ops_are_ops() -> None:
    assert [name for name in STRUCTURAL if find(name) is None] == []


def test_a_table_and_a_comparison_are_counted_and_a_node_that_is_made_is_not() -> None:
    text = 'T = {"mul": 1}\nif node.op == "neg":\n    y = b.apply("add", x, x)\nif node.op == "while":\n    pass\n'
    names = frozenset({"mul", "neg", "add"})
    assert list(op_names(text, names)) == [(1, "mul"), (2, "neg")]
