"""Which argument of a call belongs to which parameter (E0204), and elaborating arguments."""

from __future__ import annotations

from collections.abc import Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import Span
from dfc.diagnostics.suggestions import closest, did_you_mean
from dfc.elaborate.context import Argument, Context, Expected
from dfc.elaborate.mistakes import mistake
from dfc.elaborate.types.entities import Entity
from dfc.syntax.tree import tree

SYNONYMS = {
    "window": "size",
    "kernel_size": "size",
    "pool_size": "size",
    "strides": "stride",
    "padding": "pad",
    "dim": "axis",
    "axes": "axis",
    "keepdim": "keep_dims",
    "keepdims": "keep_dims",
    "dtype": "into",
    "lr": "rate",
    "learning_rate": "rate",
    "eps": "epsilon",
    "p": "share",
    "rng": "dice",
}


@dataclass(frozen=True, slots=True)
class ExpectedArgument:
    """A parameter as far as calls are concerned."""

    name: str
    required: bool
    by_name_only: bool = False


def assign_arguments(
    function: str,
    expected_parameters: Sequence[ExpectedArgument],
    arguments: Sequence[Argument],
    span: Span,
    signature: str,
) -> dict[str, Argument]:
    """Arguments by the name of their parameter."""
    by_name: dict[str, Argument] = {}
    positional = [w for w in expected_parameters if not w.by_name_only]
    named = False
    for argument in arguments:
        if argument.name:
            named = True
            _check_name(function, expected_parameters, argument, by_name, signature)
            by_name[argument.name] = argument
            continue
        if named:
            title = "an argument without a name follows one with a name"
            raise mistake("E0204", title, argument.span, notes=(signature,))
        position = sum(not a.name for a in by_name.values())
        if position >= len(positional):
            raise _too_many(function, len(positional), argument, signature)
        by_name[positional[position].name] = argument
    missing = [w.name for w in expected_parameters if w.required and w.name not in by_name]
    if missing:
        title = f"`{function}` needs the argument `{missing[0]}`"
        raise mistake("E0204", title, span, "not given", notes=(signature,))
    return by_name


def _too_many(function: str, most: int, argument: Argument, signature: str) -> Exception:
    takes = "takes no arguments" if most == 0 else f"takes at most {most} argument{'s' if most > 1 else ''}"
    return mistake("E0204", f"`{function}` {takes}", argument.span, "one too many", notes=(signature,))


def _check_name(
    function: str,
    expected_parameters: Sequence[ExpectedArgument],
    argument: Argument,
    by_name: dict[str, Argument],
    signature: str,
) -> None:
    names = [w.name for w in expected_parameters]
    if argument.name not in names:
        synonym = SYNONYMS.get(argument.name, "")
        near = synonym if synonym in names else closest(argument.name, names)
        title = f"`{function}` has no argument `{argument.name}`"
        raise mistake("E0204", title, argument.name_span, did_you_mean(near), notes=(signature,))
    if argument.name in by_name:
        raise mistake("E0204", f"the argument `{argument.name}` is given twice", argument.name_span)


def arguments_of(node: tree.Call) -> list[Argument]:
    """The arguments of a call as they are written."""
    collected: list[Argument] = []
    for each in node.arguments:
        if isinstance(each, tree.NamedArgument):
            collected.append(Argument(each.name.text, each.value.span, each.name.span, each.value))
        else:
            collected.append(Argument("", each.span, each.span, each))
    return collected


def value_of(context: Context, argument: Argument, expected: Expected = None) -> Entity:
    if argument.entity is not None:
        return argument.entity
    assert argument.expression is not None
    return context.engine.evaluate(context.operand(), argument.expression, expected)
