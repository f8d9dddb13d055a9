"""Giving loop variables their next value with `=`, and what is said when something else is meant."""

from __future__ import annotations

from collections.abc import Sequence

from dfc.frontend.context import Context
from dfc.frontend.convert import snapshot
from dfc.frontend.fitting import fit
from dfc.frontend.mistakes import Abandoned, Mistake, mistake
from dfc.frontend.scope import Binding, Role
from dfc.frontend.syntax import tree
from dfc.frontend.types import DeclaredType, TupleType
from dfc.frontend.values import (
    Entity,
    ListValue,
    Tensor,
    TupleValue,
    Unknown,
    describe,
)
from dfc.ir.types import TensorType
from dfc.source import Span


def run_rebind(context: Context, statement: tree.Rebind) -> None:
    targets = [_loop_variable(context, target, statement) for target in statement.targets]
    if len(targets) == 1:
        name = targets[0].name
        context.label = f"{context.frame.path}/{name}"
    span = statement.value.span
    entity = snapshot(context, context.engine.right_hand_side(context, statement.value, _expected(targets)), span)
    parts = [entity] if len(targets) == 1 else split(entity, len(targets), statement.value.span)
    for binding, part in zip(targets, parts, strict=True):
        _give_next(context, binding, part, statement.value.span)


def _expected(targets: Sequence[Binding]) -> TensorType | None:
    value = targets[0].value if len(targets) == 1 else None
    return value.type if isinstance(value, Tensor) else None


def _loop_variable(context: Context, target: tree.Place, statement: tree.Rebind) -> Binding:
    if not isinstance(target, tree.Name):
        place = target.operand.span if isinstance(target, tree.Index | tree.Member) else target.span
        raise mistake(
            "E0404",
            "variables are written with `:=`",
            target.span,
            "`=` gives a new value to a loop variable",
            helps=(f"write `{target.span.text} := {statement.value.span.text}`",) if place is not target.span else (),
        )
    name = target.text
    binding = context.scope.find(name)
    if binding is not None and binding.role in (Role.STATE, Role.REFERENCE):
        raise _equals_sign(binding, target, statement)
    if binding is not None and isinstance(binding.entity, Unknown):
        raise Abandoned
    if binding is None or binding.role is not Role.LOOP:
        raise _no_loop_variable(context, target, statement, binding)
    if context.loop is None or context.loop.carries.get(name) is not binding:
        raise mistake(
            "E0405",
            f"`{name}` belongs to a loop further out",
            target.span,
            secondary=[(binding.span, "carried by this loop")],
            helps=(f"carry it through the inner loop too: `loop {name} = {name} for ...`",),
        )
    return binding


def _equals_sign(binding: Binding, target: tree.Name, statement: tree.Rebind) -> Mistake:
    value = statement.value.span.text
    start = statement.span.text.find("=", target.span.end - statement.span.start)
    place = statement.span.start + start
    helps = [f"write `{target.text} := {value}`"] if "\n" not in value else []
    for sign in ("+", "-", "*"):
        prefix = f"{target.text} {sign} "
        if value.startswith(prefix) and "\n" not in value and _simple(value[len(prefix) :], sign):
            helps.append(f"or shorter: `{target.text} {sign}= {value[len(prefix) :]}`")
    return mistake(
        "E0404",
        "variables are written with `:=`",
        Span(target.span.file, place, place + 1),
        "`=` gives a new value to a loop variable",
        secondary=[(binding.span, f"`{target.text}` is a variable")],
        helps=helps,
    )


def _simple(rest: str, sign: str) -> bool:
    """Whether `w - rest` means the same as `w -= rest`."""
    return sign == "+" or not any(f" {other} " in rest for other in "+-") or rest.startswith("(")


def _no_loop_variable(context: Context, target: tree.Name, statement: tree.Rebind, binding: Binding | None) -> Mistake:
    name, value = target.text, statement.value.span.text
    helps = [f"write `let {name} = {value}`"] if "\n" not in value else [f"write `let {name} = ...`"]
    if binding is None or binding.role is Role.PRELUDE:
        label = "a new name is introduced with `let`"
        return mistake("E0405", f"there is no loop variable `{name}`", target.span, label, helps=helps)
    if context.loop is not None:
        helps = [f"carry it through the loop: `loop {name} = {name} for ...`, or `loop {name} = {name} while ...`"]
    else:
        helps = [f"{helps[0]}: a new name may hide an old one"]
    label = f"a {binding.role.value} keeps its value" if binding.role is not Role.LET else "a name keeps its value"
    return mistake(
        "E0405",
        f"`{name}` is not a loop variable",
        target.span,
        label,
        secondary=[(binding.span, "defined here")] if not binding.span.is_nowhere else [],
        helps=helps,
    )


def declared_of(entity: Entity) -> DeclaredType:
    """The type of what a loop variable holds."""
    match entity:
        case Tensor(value):
            return value.tensor
        case TupleValue(items, names):
            return TupleType(tuple(declared_of(item) for item in items), names)
        case _:
            raise Abandoned


def _give_next(context: Context, binding: Binding, entity: Entity, span: Span) -> None:
    declared = declared_of(binding.value)

    def complain(wanted: str, got: str) -> Exception:
        return mistake(
            "E0601",
            f"`{binding.name}` must keep its type from one round to the next",
            span,
            f"{got} after the first round",
            secondary=[(binding.span, f"{wanted} before it")],
            helps=("collect results with `for x in xs { emit ... }`; the loop stacks them for you",),
        )

    binding.entity = fit(context, entity, declared, span, complain)
    assert context.loop is not None
    context.loop.rebound.add(binding.name)


def split(entity: Entity, count: int, span: Span) -> Sequence[Entity]:
    match entity:
        case TupleValue(items) | ListValue(items) if len(items) == count:
            return items
        case Unknown():
            raise Abandoned
        case TupleValue(items) | ListValue(items):
            raise mistake("E0316", f"{count} names for {len(items)} values", span)
        case _:
            raise mistake("E0316", f"{count} names for one value", span, describe(entity))
