"""`record_files`, `csv_files`, `parquet_files` and their like: readers, a position each.

    var files = record_files("data/train-*.rec", passes = 10, shuffle = true, seed = 3)

is a variable called `files`, i64[2]: how many elements of the stream are behind the reader, and how many of them were
damaged. All else of a reader is known when the program is compiled. Assumes a declaration whose name is free.
Guarantees that nothing but its `next` moves a reader, and that no two bodies that run at the same time do (E0706).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from dfc.diagnostics.diagnostic import Diagnostic, error
from dfc.diagnostics.source import Span
from dfc.elaborate.context import Argument, Context, Expected
from dfc.elaborate.expressions.arguments import ExpectedArgument, arguments_of, assign_arguments
from dfc.elaborate.mistakes import mistake
from dfc.elaborate.state.declaration import Declaration, register
from dfc.elaborate.state.variables import Variable
from dfc.elaborate.types.entities import Entity, LiteralTensor, ReaderValue
from dfc.ir import walk
from dfc.ir.attributes import Literal
from dfc.ir.graph import Entry, Graph, Node, ResourceKind
from dfc.ops.effects.records import POSITION, RecordAttributes
from dfc.syntax.tree import tree

FUNCTIONS = {
    "record_files": "records",
    "line_files": "lines",
    "csv_files": "tables",
    "array_files": "arrays",
    "tar_files": "archives",
    "image_files": "folders",
    "parquet_files": "parquet",
    "arrow_files": "arrow",
}
"""The formats that they read, by their names (`dfc_runtime.records.formats`)."""
COMMON = (
    "const passes: int = 1, const shuffle = false, const seed: int = 0, "
    'const on_error: str = "fail", const part: int = 0, const parts: int = 1'
)
WRITTEN = "const head = true, const separator: str"
ROOM = "const longest: int = 1_048_576"
SIGNATURES = {
    "record_files": f"record_files(const pattern: str, {COMMON}, {ROOM})",
    "line_files": f"line_files(const pattern: str, {COMMON}, {ROOM})",
    "csv_files": f"csv_files(const pattern: str, const fields, {COMMON}, {ROOM}, {WRITTEN})",
    "array_files": f"array_files(const pattern: str, const fields, {COMMON})",
    "tar_files": f"tar_files(const pattern: str, const fields, {COMMON}, {ROOM})",
    "image_files": f"image_files(const pattern: str, {COMMON}, {ROOM})",
    "parquet_files": f"parquet_files(const pattern: str, const fields, {COMMON}, {ROOM})",
    "arrow_files": f"arrow_files(const pattern: str, const fields, {COMMON}, {ROOM})",
}


def declare_reader(
    declaration: Declaration,
    context: Context,
    item: tree.ParamItem | tree.VarItem,
    name: str,
    *,
    container: str,
    saved: bool,
) -> ReaderValue:
    """The reader that an item declares."""
    value = item.value
    assert isinstance(value, tree.Call) and isinstance(value.function, tree.Name)
    function = value.function.text
    names = [part.split("=")[0].split(":")[0].split()[-1] for part in SIGNATURES[function].split(", ")]
    expected = [ExpectedArgument(each, each in ("pattern", "fields")) for each in names]
    arguments = assign_arguments(function, expected, arguments_of(value), value.span, SIGNATURES[function])
    if "fields" not in names:
        _refuse_fields(function, arguments)
    from dfc.elaborate.state.reader_arguments import ReaderArguments  # most programs read no files

    attributes, fields = ReaderArguments(context, function, FUNCTIONS[function], arguments).attributes(name)
    span, doc = item.name.span, item.documentation
    variable = Variable(name, ResourceKind.VARIABLE, POSITION, False, span, container, saved, doc)
    literal = LiteralTensor(Literal(np.zeros(2, np.int64)), POSITION)
    declaration.program.first_values[variable] = lambda _context: literal
    register(declaration, variable)
    return ReaderValue(variable, attributes, fields)


def _refuse_fields(function: str, arguments: Mapping[str, Argument]) -> None:
    """Its records have the same fields always, or are strings, of which `parse_example` says what is in them."""
    fields = next((each for each in arguments.values() if isinstance(each.expression, tree.Record)), None)
    if fields is not None:
        title = f"`{function}` takes no fields"
        notes = (SIGNATURES[function],)
        raise mistake("E0204", title, fields.span, "what its records have is not declared", notes=notes)


def refuse_reader(function: str) -> Callable[[Context, Mapping[str, Argument], Span, Expected], Entity]:
    """A call of that function anywhere but in a declaration."""

    def refuse(context: Context, arguments: Mapping[str, Argument], span: Span, expected: Expected) -> Entity:
        del context, arguments, expected
        helps = (f'declare it at the top of the file: `var files = {function}("data/*")`',)
        raise mistake("E0407", f"`{function}` makes a reader", span, "here is no reader", helps=helps)

    return refuse


# ----------------------------------------------------------------- sharing --


def shared_readers(graph: Graph) -> Iterator[Diagnostic]:
    """A message for each reader that bodies would move at the same time: which record comes to whom would be open."""
    users: dict[str, list[tuple[Entry, Node]]] = {}
    for entry in graph.entries.values():
        seen: set[str] = set()
        for node in walk.nodes(entry.block):
            if isinstance(node.attributes, RecordAttributes) and node.attributes.resource not in seen:
                seen.add(node.attributes.resource)
                users.setdefault(node.attributes.resource, []).append((entry, node))
    for name, uses in users.items():
        (first, node), *others = uses
        second = next(((each, at) for each, at in others if each.is_runner or first.is_runner), None)
        if second is not None:
            yield _shared(name, node, first, second)
        yield from (_concurrent(name, each, at) for each, at in uses if each.concurrent)


def _shared(name: str, node: Node, first: Entry, second: tuple[Entry, Node]) -> Diagnostic:
    other, at = second
    title = f"`{name}` is read by `{first.name}` and by `{other.name}`, at the same time"
    helps = (
        "read in one runner, and hand the records on in a queue",
        "or declare a second reader, with `part = 0, parts = 2` for the one and `part = 1, parts = 2` for the other",
    )
    return error("E0706", title, at.span, secondary=[(node.span, f"`{first.name}` reads here")], helps=helps)


def _concurrent(name: str, entry: Entry, node: Node) -> Diagnostic:
    title = f"`{name}` would be read by several calls of `{entry.name}` at the same time"
    helps = ("read in a runner, and take the records out of a queue", "or drop `concurrent = true`")
    return error("E0706", title, node.span, helps=helps)
