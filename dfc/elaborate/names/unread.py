"""Names that are bound and never read, and a `let` that hides a name from further out.

Assumes the tree of a file that was read without mistakes of syntax. Guarantees that nothing is said of names that begin
with `_`, which are there on purpose, and that what is reported follows from this file alone.

A `let` at the end of whose braces the outer name has its old value again is hardly ever meant:

    each l in layers { let x = l(x) }    # x is what it was
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import Diagnostic, warning
from dfc.diagnostics.fixes import Help, alone, replacing
from dfc.diagnostics.source import Span
from dfc.elaborate.names.later import unused_parameters
from dfc.syntax.tree import tree

Names = dict[str, "Bound"]
Function = tree.FunctionItem | tree.ProcedureItem
SUITES = (tree.If, tree.For, tree.Loop, tree.EachStatement, tree.EachMap)


@dataclass(slots=True, eq=False)
class Bound:
    """A name of a function, and whether anything reads it."""

    span: Span
    what: str  # `value`: a `let`; anything else is never reported as unread here
    read: bool = False
    one_of_several: bool = False  # `let a, b = ...`: the others need its place


def remarks(module: tree.Module, *, broken: bool = False) -> Iterator[Diagnostic]:
    """All warnings about the names of a file, in no order; of one with mistakes, what does not follow from them."""
    yield from unused_parameters(module)
    if broken:
        return
    yield from _unused_imports(module)
    constants = _constants(module.items)
    for item in module.items:
        if isinstance(item, tree.BlockItem):
            inner = constants | _constants(item.members)
            for member in item.members:
                yield from _of_item(member, inner)
        else:
            yield from _of_item(item, constants)


def _constants(items: Iterable[tree.Node]) -> Names:
    constants = [item for item in items if isinstance(item, tree.ConstItem)]
    return {item.name.text: Bound(item.name.span, "constant") for item in constants}


def _of_item(item: tree.Node, constants: Names) -> Iterator[Diagnostic]:
    match item:
        case tree.FunctionItem() | tree.ProcedureItem() | tree.EntryItem():
            yield from Walk(constants).function(item)
        case tree.TestItem() | tree.RunnerItem():
            yield from Walk(constants).body(item.body)
        case _:
            pass


class Walk:
    """Goes through one function in the order of its lines."""

    def __init__(self, constants: Names) -> None:
        self.scopes: list[Names] = [dict(constants), {}]
        self.diagnostics: list[Diagnostic] = []

    def function(self, item: Function | tree.EntryItem) -> Iterator[Diagnostic]:
        own = self.scopes[-1]
        for parameter in item.parameters:
            self.read(parameter.type)
            own[parameter.name.text] = Bound(parameter.name.span, "parameter")
        parameters = dict(own)
        for condition in item.where:
            self.read(condition)
        if isinstance(item, tree.FunctionItem) and item.gradient is not None:
            self.nested(item.gradient.body, {name.text: Bound(name.span, "gradient") for name in item.gradient.names})
        yield from self.body(item.body)
        if not isinstance(item, tree.EntryItem):
            yield from _unread_parameters(item, parameters)

    def body(self, body: tree.Body) -> Iterator[Diagnostic]:
        if isinstance(body, tree.ShortBody):
            self.value(body.value)
        else:
            self.suite(body)
        self.close(self.scopes[-1])
        yield from self.diagnostics

    def nested(self, body: tree.Body, names: Names) -> None:
        self.scopes.append(names)
        if isinstance(body, tree.ShortBody):
            self.value(body.value)
        else:
            self.suite(body)
        self.close(self.scopes.pop())

    def suite(self, suite: tree.Suite) -> None:
        for statement in suite.statements:
            self.statement(statement)
        for value in suite.final.values if suite.final is not None else ():
            self.value(value)

    def statement(self, statement: tree.Statement) -> None:
        if isinstance(statement, SUITES):
            self.value(statement)
        elif isinstance(statement, tree.Let | tree.Rebind | tree.Update):
            self.value(statement.value)
            for path in statement.after:
                self.read(path)
            for target in () if isinstance(statement, tree.Let) else statement.targets:
                self.read(target)
            if isinstance(statement, tree.Let):
                self.let(statement)
        else:
            self.read(statement)

    def let(self, statement: tree.Let) -> None:
        fresh = {name.text for name in statement.fresh}
        for name in statement.fresh:
            self.scopes[-1][name.text] = Bound(name.span, "size")
        for binder in statement.binders:
            if binder.type is not None:
                self.read(binder.type)
            name = binder.name
            outer = next((scope[name.text] for scope in reversed(self.scopes[:-1]) if name.text in scope), None)
            if outer is not None and not name.text.startswith("_") and outer.what != "size":
                self.diagnostics.append(_hides(name, outer))
            earlier = self.scopes[-1].get(name.text)
            if earlier is not None:
                self.close({name.text: earlier})
            self.scopes[-1][name.text] = Bound(name.span, "value", one_of_several=len(statement.binders) > 1)
            if binder.type is not None and fresh & set(_names_in(binder.type)):
                self.scopes[-1][name.text].read = True  # it says which axis a size is

    def value(self, value: tree.RightHandSide | tree.EachStatement) -> None:
        match value:
            case tree.If():
                for branch in value.branches:
                    self.read(branch.condition)
                    self.nested(branch.body, {})
                if value.otherwise is not None:
                    self.nested(value.otherwise, {})
            case tree.For():
                self.settings(value.settings)
                self.nested(value.body, self.bindings(value.bindings))
            case tree.Loop():
                self.loop(value)
            case tree.EachStatement():
                self.nested(value.body, self.bindings(value.bindings))
            case tree.EachMap():
                self.nested(tree.ShortBody(value.value), self.bindings(value.bindings))
            case _:
                self.read(value)

    def loop(self, loop: tree.Loop) -> None:
        self.settings(loop.settings)
        carried: Names = {}
        for carry in loop.carries:
            if carry.type is not None:
                self.read(carry.type)
            self.read(carry.value)
            carried[carry.name.text] = Bound(carry.name.span, "loop variable")
        head = loop.head
        names = Names() if isinstance(head, tree.WhileHead) else self.bindings(head.bindings)
        self.scopes.append(carried)
        if isinstance(head, tree.WhileHead):
            self.read(head.condition)
        self.nested(loop.body, names)
        self.scopes.pop()

    def settings(self, settings: Sequence[tree.Setting]) -> None:
        for setting in settings:
            self.read(setting.value)

    def bindings(self, bindings: Sequence[tree.Binding]) -> Names:
        for binding in bindings:
            self.read(binding.start)
            if binding.stop is not None:
                self.read(binding.stop)
        return {binding.name.text: Bound(binding.name.span, "element") for binding in bindings}

    def read(self, node: tree.Node) -> None:
        for name in _names_in(node):
            bound = next((scope[name] for scope in reversed(self.scopes) if name in scope), None)
            if bound is not None:
                bound.read = True

    def close(self, names: Names) -> None:
        """The end of what can read these names."""
        for name, bound in names.items():
            if bound.what == "value" and not bound.read and not name.startswith("_"):
                self.diagnostics.append(_unread(name, bound))


def _names_in(node: tree.Node) -> Iterator[str]:
    for each in tree.walk(node):
        if isinstance(each, tree.Name):
            yield each.text
        elif isinstance(each, tree.Path):
            yield each.parts[0].text


def _unread(name: str, bound: Bound) -> Diagnostic:
    helps: list[Help] = ["delete it, or see whether another name stands where this one is meant"]
    if bound.one_of_several:
        helps = [replacing("to leave out this one of the values, write `_`", bound.span, "_")]
    helps.append(replacing(f"if it is there on purpose, call it `_{name}`", bound.span, f"_{name}"))
    return warning("W0202", f"`{name}` is never read", bound.span, helps=helps)


def _hides(name: tree.Identifier, outer: Bound) -> Diagnostic:
    text = name.text
    return warning(
        "W0201",
        f"this `{text}` is forgotten at the end of these braces",
        name.span,
        "a new name, that hides the other one",
        secondary=[(outer.span, f"this `{text}` stays what it is")],
        helps=(
            f"to change it in each iteration, carry it: `loop {text} = {text} ...`, and write `{text} = ...` here",
            "for a value that is needed in these braces only, choose another name",
        )
        if outer.what != "constant"
        else ("choose another name",),
    )


def _unread_parameters(item: Function, parameters: Names) -> Iterator[Diagnostic]:
    """But for those whose types alone decide what a generic name is."""
    types = {each.name.text: set(_names_in(each.type)) for each in item.parameters}
    generic = {each.name.text for each in item.generics}
    for name, bound in parameters.items():
        decided = set[str]().union(*(types[other] for other, known in parameters.items() if known.read))
        if bound.read or name.startswith("_") or (types[name] & generic) - decided:
            continue
        title = f"the parameter `{name}` of `{item.name.text}` is never read"
        helps = (f"delete it here and in the calls, or call it `_{name}` if it is there on purpose",)
        yield warning("W0202", title, bound.span, helps=helps)


# ------------------------------------------------------------------ imports --


def _unused_imports(module: tree.Module) -> Iterator[Diagnostic]:
    used = set(_names_in(module)) | set(_dotted(module))
    for item in module.items:
        if isinstance(item, tree.ImportItem):
            name = item.alias.text if item.alias is not None else item.module.text.lstrip(".")
            if name not in used and not name.startswith("_"):
                yield _unused(name, item, item.span, alone(item.span))
        elif isinstance(item, tree.FromItem):
            unused = [each for each in item.names if _own(each) not in used and not _own(each).startswith("_")]
            for each in unused:
                yield _unused(_own(each), item, each.span, _span_of(item, each))


def _own(name: tree.ImportedName) -> str:
    return (name.alias or name.name).text


def _dotted(module: tree.Module) -> Iterator[str]:
    """What stands before the last point of members and paths: `std.nn` of `std.nn.Dense`."""
    for node in tree.walk(module):
        if isinstance(node, tree.Member):
            yield "".join(node.span.text.split())
            yield "".join(node.operand.span.text.split())
        elif isinstance(node, tree.Path):
            parts = [part.text for part in node.parts]
            yield from (".".join(parts[:count]) for count in range(1, len(parts)))


def _span_of(item: tree.FromItem, name: tree.ImportedName) -> Span:
    """The name with its comma; the whole line if it is the only one."""
    if len(item.names) == 1:
        return alone(item.span)
    position = next(number for number, each in enumerate(item.names) if each is name)
    if position:
        return Span(name.span.file, item.names[position - 1].span.end, name.span.end)
    return Span(name.span.file, name.span.start, item.names[1].span.start)


def _unused(name: str, item: tree.ImportItem | tree.FromItem, span: Span, name_span: Span) -> Diagnostic:
    title = f"the import `{name}` is never used"
    if item.module.text.startswith("std."):
        return warning("W0202", title, span, helps=(replacing("delete it", name_span, ""),))
    words = f"delete it, or write `as _{name.rpartition('.')[2]}` behind it if the module is here for its state"
    return warning("W0202", title, span, helps=(words,))
