"""`record_files`, `line_files`: readers of records, whose position is state.

    var files = record_files("data/train-*.rec", passes = 10, shuffle = true, seed = 3)

is a variable called `files`, i64[2]: how many elements of the stream are behind the reader, and how many of them were
damaged. All else of a reader is known when the program is compiled. Assumes a declaration whose name is free.
Guarantees that nothing but its `next` moves a reader, and that no two bodies that run at the same time do (E0706).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import Diagnostic, error
from dfc.diagnostics.source import Span
from dfc.elaborate.context import Argument, Context, Expected
from dfc.elaborate.expressions.arguments import ExpectedArgument, arguments_of, assign_arguments, value_of
from dfc.elaborate.mistakes import mistake
from dfc.elaborate.state.declaration import Declaration, register
from dfc.elaborate.state.variables import Variable
from dfc.elaborate.types.convert import constant_of
from dfc.elaborate.types.entities import Entity, LiteralTensor, ReaderValue
from dfc.ir import walk
from dfc.ir.attributes import Literal
from dfc.ir.graph import Entry, Graph, Node, ResourceKind
from dfc.ops.effects.records import POSITION, RecordAttributes
from dfc.syntax.tree import tree
from dfc_runtime.records.formats import FORMATS

FUNCTIONS = {form.function: name for name, form in FORMATS.items()}
"""The formats that they read, by their names."""
SIGNATURES = {
    function: f"{function}(const pattern: str, const passes: int = 1, const shuffle = false, const seed: int = 0, "
    'const on_error: str = "fail", const part: int = 0, const parts: int = 1, const longest: int = 1_048_576)'
    for function in FUNCTIONS
}
ARGUMENTS = ("pattern", "passes", "shuffle", "seed", "on_error", "part", "parts", "longest")
ORDERS = {False: "", True: "files", "files": "files", "records": "records"}
"""What `shuffle` says, and what is shuffled then."""
MOST_PASSES = 2**31
MOST_PARTS = 2**20
LARGEST_RECORD = 2**30
LONGEST = 1 << 20
"""Room for a record, where the program says nothing."""


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
    expected = [ExpectedArgument(each, each == "pattern") for each in ARGUMENTS]
    arguments = assign_arguments(function, expected, arguments_of(value), value.span, SIGNATURES[function])
    attributes = _Constants(context, function, arguments).attributes(name)
    span, doc = item.name.span, item.documentation
    variable = Variable(name, ResourceKind.VARIABLE, POSITION, False, span, container, saved, doc)
    literal = LiteralTensor(Literal(np.zeros(2, np.int64)), POSITION)
    declaration.program.first_values[variable] = lambda _context: literal
    register(declaration, variable)
    return ReaderValue(variable, attributes)


def refuse_reader(function: str) -> Callable[[Context, Mapping[str, Argument], Span, Expected], Entity]:
    """A call of that function anywhere but in a declaration."""

    def refuse(context: Context, arguments: Mapping[str, Argument], span: Span, expected: Expected) -> Entity:
        del context, arguments, expected
        helps = (f'declare it at the top of the file: `var files = {function}("data/*")`',)
        raise mistake("E0407", f"`{function}` makes a reader", span, "here is no reader", helps=helps)

    return refuse


@dataclass(frozen=True, slots=True)
class _Constants:
    """The arguments of a declaration, which are known when the program is compiled."""

    context: Context
    function: str
    arguments: Mapping[str, Argument]

    def attributes(self, name: str) -> RecordAttributes:
        """The reader of that name."""
        parts = self._number("parts", 1, (1, MOST_PARTS))
        return RecordAttributes(
            name,
            self._text("pattern", ""),
            self._number("passes", 1, (1, MOST_PASSES)),
            self._order(),
            self._number("seed", 0, (-(2**63), 2**63 - 1)),
            self._on_error(),
            self._number("part", 0, (0, parts - 1)),
            parts,
            self._number("longest", LONGEST, (1, LARGEST_RECORD)),
            FUNCTIONS[self.function],
        )

    def _constant(self, argument: Argument, name: str) -> bool | int | float | str:
        what = f"the argument `{name}` of `{self.function}`"
        return constant_of(self.context, value_of(self.context, argument), argument.span, what)

    def _number(self, name: str, default: int, bounds: tuple[int, int]) -> int:
        argument, (least, most) = self.arguments.get(name), bounds
        if argument is None:
            return default
        value = self._constant(argument, name)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            title = f"the argument `{name}` of `{self.function}` is a whole number from {least} to {most}"
            raise mistake("E0315", title, argument.span)
        return value

    def _text(self, name: str, default: str) -> str:
        argument = self.arguments.get(name)
        if argument is None:
            return default
        value = self._constant(argument, name)
        if not isinstance(value, str) or not value or "\0" in value:
            title = f"the argument `{name}` of `{self.function}` is a text"
            raise mistake("E0315", title, argument.span, helps=('such as `"data/train-*.rec"`',))
        return value

    def _order(self) -> str:
        argument = self.arguments.get("shuffle")
        if argument is None:
            return ""
        value = self._constant(argument, "shuffle")
        if not isinstance(value, bool | str) or value not in ORDERS:
            title = f'the argument `shuffle` of `{self.function}` is `true`, `false`, `"files"` or `"records"`'
            notes = ("`true` means `files`: their names in another order in each pass",)
            raise mistake("E0315", title, argument.span, notes=notes)
        return ORDERS[value]

    def _on_error(self) -> str:
        value = self._text("on_error", "fail")
        if value not in ("fail", "skip"):
            title = f'the argument `on_error` of `{self.function}` is `"fail"` or `"skip"`'
            notes = ("a damaged record is an error, or it is left out and counted",)
            raise mistake("E0315", title, self.arguments["on_error"].span, notes=notes)
        return value


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
