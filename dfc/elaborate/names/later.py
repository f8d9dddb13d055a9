"""Names that are used in the wrong order, or never: what is said about them.

Assumes the tree of a file that was read without mistakes of syntax.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dfc.diagnostics.diagnostic import Diagnostic, Label, warning
from dfc.syntax.tree import tree


def defined_later(diagnostic: Diagnostic, following: Sequence[tree.Node]) -> Diagnostic:
    """The message, or a better one if a name nobody knows here is defined by one of the statements that follow."""
    name = diagnostic.span.text
    later = next((each for each in following if name in (own.text for own in _names(each))), None)
    if diagnostic.code != "E0201" or later is None:
        return diagnostic
    own = next(each for each in _names(later) if each.text == name)
    line = own.span.line
    return replace(
        diagnostic,
        title=f"`{name}` is used before it is defined",
        labels=(
            Label(diagnostic.span, f"used here, defined in line {line}", primary=True),
            Label(own.span, "defined here"),
        ),
        notes=("statements run from top to bottom",),
        helps=(f"move line {line} above line {diagnostic.span.line}",),
    )


def _names(statement: tree.Node) -> list[tree.Identifier]:
    return [binder.name for binder in statement.binders] if isinstance(statement, tree.Let) else []


def unused_parameters(module: tree.Module) -> Iterator[Diagnostic]:
    """Parameters of a program that none of its lines names. A file without entries serves others, which may."""
    if not any(isinstance(item, tree.EntryItem) for item in module.items):
        return
    used = {node.text for node in tree.walk(module) if isinstance(node, tree.Name)}
    used |= {node.parts[0].text for node in tree.walk(module) if isinstance(node, tree.Path)}
    for item in module.items:
        if isinstance(item, tree.ParamItem) and item.name.text not in used and not item.name.text.startswith("_"):
            title = f"the parameter `{item.name.text}` is never used"
            helps = ("delete the line, or see whether another name stands where this one is meant",)
            yield warning("W0408", title, item.name.span, helps=helps)
