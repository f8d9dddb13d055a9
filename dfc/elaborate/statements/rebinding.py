"""Giving loop variables their next value with `=`, and what is said when something else is meant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dfc.diagnostics.fixes import Fix, Help, replacing
from dfc.diagnostics.source import Span
from dfc.elaborate.context import Context
from dfc.elaborate.mistakes import Abandoned, Mistake, mistake
from dfc.elaborate.names.scope import Binding, BindingRole
from dfc.elaborate.statements import inserting
from dfc.elaborate.statements.carrying import carrying, crossed, giving, outermost, path_to, rebound
from dfc.elaborate.types.convert import default_type, snapshot
from dfc.elaborate.types.declared import DeclaredType, TupleType
from dfc.elaborate.types.descriptions import describe
from dfc.elaborate.types.entities import (
    NOTHING,
    Constant,
    Entity,
    ListValue,
    Size,
    Tensor,
    TupleValue,
    Unknown,
    VariableValue,
)
from dfc.elaborate.types.fitting import fit
from dfc.elaborate.types.promises import can_be_promised
from dfc.ir.types import TensorType
from dfc.syntax.tree import tree
from dfc_runtime.errors import counted


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


def _loop_variable(context: Context, target: tree.Target, statement: tree.Rebind) -> Binding:
    if not isinstance(target, tree.Name):
        raise _no_name(context, target, statement)
    name = target.text
    binding = context.scope.find(name)
    if binding is not None and binding.role in (BindingRole.STATE, BindingRole.REFERENCE):
        raise _equals_sign(binding, target, statement)
    if binding is not None and isinstance(binding.entity, Unknown):
        raise Abandoned
    if binding is None or binding.role is not BindingRole.LOOP:
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


def _no_name(context: Context, target: tree.Target, statement: tree.Rebind) -> Mistake:
    """`x[i] = v`, `net.w = v`: a variable is written with `:=`; parts of other values cannot be written."""
    entity = _root(context, target)
    if isinstance(entity, Unknown):
        return mistake("E0404", "only a loop variable is given a value with `=`", target.span)
    if isinstance(target, tree.Index) and isinstance(entity, Tensor | TupleValue | ListValue | Constant):
        return never_changes(target, entity)
    helps: list[Help] = []
    if isinstance(entity, VariableValue) and isinstance(target, tree.Index | tree.Member):
        value = statement.value.span.text
        between = statement.span.file.text[target.span.end : statement.value.span.start]
        offset = target.span.end + between.index("=")
        sign = Span(target.span.file, offset, offset + 1)
        helps = [replacing(f"write `{target.span.text} := {value}`", sign, ":=")] if "\n" not in value else []
    label = "`=` gives a new value to a loop variable"
    return mistake("E0404", "variables are written with `:=`", target.span, label, helps=helps)


def never_changes(target: tree.Index, entity: Entity) -> Mistake:
    """Elements of what is no variable are written to."""
    name = target.operand.span.text
    return mistake(
        "E0404",
        f"`{name}` is a value, and values never change",
        target.span,
        f"this is {describe(entity)}",
        helps=(
            "to make it element by element, collect it: `let ... = for ... { emit ... }`",
            f"to change some elements, make a new one: `select(mask, ..., {name})`",
            "what changes in place is declared at the top of the file: `var ... = ...`",
        ),
    )


def _root(context: Context, target: tree.Expression) -> Entity:
    """What the name at the bottom of `x[i].y[j]` stands for; the member where it is one."""
    while isinstance(target, tree.Index):
        target = target.operand
    if isinstance(target, tree.Call):
        return NOTHING
    try:
        return context.engine.evaluate(context.operand(), target)
    except (Mistake, Abandoned):
        return Unknown()


def _equals_sign(binding: Binding, target: tree.Name, statement: tree.Rebind) -> Mistake:
    value = statement.value.span.text
    start = statement.span.text.find("=", target.span.end - statement.span.start)
    offset = statement.span.start + start
    written = replacing(f"write `{target.text} := {value}`", Span(target.span.file, offset, offset + 1), ":=")
    helps: list[Help] = [written] if "\n" not in value else []
    for sign in ("+", "-", "*"):
        prefix = f"{target.text} {sign} "
        if value.startswith(prefix) and "\n" not in value and _simple(value[len(prefix) :], sign):
            text = f"{target.text} {sign}= {value[len(prefix) :]}"
            helps.append(replacing(f"or shorter: `{text}`", target.span.to(statement.value.span), text))
    return mistake(
        "E0404",
        "variables are written with `:=`",
        Span(target.span.file, offset, offset + 1),
        "`=` gives a new value to a loop variable",
        secondary=[(binding.span, f"`{target.text}` is a variable")],
        helps=helps,
    )


def _simple(rest: str, sign: str) -> bool:
    """Whether `w - rest` means the same as `w -= rest`."""
    return sign == "+" or not any(f" {other} " in rest for other in "+-") or rest.startswith("(")


def _no_loop_variable(context: Context, target: tree.Name, statement: tree.Rebind, binding: Binding | None) -> Mistake:
    name = target.text
    if binding is None or binding.role is BindingRole.PRELUDE:
        label = "a new name is introduced with `let`"
        helps = _with_let(context, statement, name)
        return mistake("E0405", f"there is no loop variable `{name}`", target.span, label, helps=helps)
    label = f"{'a name' if binding.role is BindingRole.LET else binding.role.one} keeps its value"
    return mistake(
        "E0405",
        f"`{name}` is not a loop variable",
        target.span,
        label,
        secondary=[(binding.span, "defined here")] if not binding.span.is_nowhere else [],
        helps=_with_new_value(context, statement, binding),
    )


def _function(context: Context) -> tree.Node | None:
    """The function or entry that is being elaborated."""
    routine = context.frame.routine
    return routine.item if routine is not None else context.frame.root.entry


def _let(statement: tree.Rebind) -> list[Help]:
    if not all(isinstance(target, tree.Name) for target in statement.targets):
        return []
    left = ", ".join(target.span.text for target in statement.targets)
    value = statement.value.span.text
    shown = value if "\n" not in value else "..."
    start = Span(statement.span.file, statement.span.start, statement.span.start)
    return [replacing(f"write `let {left} = {shown}`", start, "let ")]


def _with_let(context: Context, statement: tree.Rebind, name: str) -> list[Help]:
    """A new name lives to the end of the braces it is made in; nothing is offered where it is used behind them."""
    item = _function(context)
    path = path_to(item, statement) if item is not None else []
    suites = [node for node in path if isinstance(node, tree.Suite)]
    if item is None or not suites:
        return _let(statement)
    inside = suites[-1].span
    uses = [node.span for node in tree.walk(item) if isinstance(node, tree.Name) and node.text == name]
    if all(inside.start <= use.start < inside.end for use in uses):
        return _let(statement)
    context.frame.root.lost.add(name)
    return giving(crossed(path, name, is_outside=True), name)


def _with_new_value(context: Context, statement: tree.Rebind, binding: Binding) -> list[Help]:
    """A `let` where it hides the name for all lines that follow; otherwise what carries the value out."""
    item = _function(context)
    path = path_to(item, statement) if item is not None else []
    if not path or binding.role not in (BindingRole.LET, BindingRole.PARAMETER):
        return []
    below = crossed(path, binding.name, binding.role is BindingRole.PARAMETER)
    construct = outermost(below)
    if construct is None:
        return [replace(each, help=f"{each.help}: a new name may hide an old one") for each in _fixes(_let(statement))]
    if _is_counted(construct, binding):
        return []
    helps = carrying(below, lambda each: _carried_type(context, statement, construct, each))
    for each in rebound(construct):  # one message for all that is carried, and none about what follows from it
        other = context.scope.find(each)
        if other is not None and other.role in (BindingRole.LET, BindingRole.PARAMETER):
            other.entity = Unknown()
    return helps


def _fixes(helps: Sequence[Help]) -> list[Fix]:
    return [each for each in helps if isinstance(each, Fix)]


def _is_counted(construct: tree.Node, binding: Binding) -> bool:
    """The name is what a `for` goes over: it has a new value in every iteration anyway."""
    return any(isinstance(node, tree.Binding) and node.name.span == binding.span for node in tree.walk(construct))


def _carried_type(context: Context, statement: tree.Rebind, construct: tree.Node, name: str) -> str | None:
    """What stands behind a carried name: the type of its next value if the first one is a number of no type yet."""
    binding = context.scope.find(name)
    first = binding.value if binding is not None and binding.role in (BindingRole.LET, BindingRole.PARAMETER) else None
    rebinds = [node for node in tree.walk(construct) if isinstance(node, tree.Rebind)]
    values = [node.value for node in rebinds if [target.span.text for target in node.targets] == [name]]
    if first is None or not values:
        return None
    following = _type_of(context, statement.value if statement.value in values else values[0])
    if isinstance(first, Tensor):
        return "" if following is None or following == str(first.value.tensor) else None
    if isinstance(first, Constant | Size):
        return f": {following}" if following is not None else None
    return None


def _type_of(context: Context, value: tree.RightHandSide) -> str | None:
    """The type of an expression; None if it is wrong, or only known with another name's next value."""
    try:
        entity = context.engine.right_hand_side(context.operand(), value, None)
    except (Mistake, Abandoned):
        return None
    if isinstance(entity, Constant) and isinstance(entity.value, int | float):
        return None if isinstance(entity.value, bool) else str(default_type(entity))
    return str(entity.value.tensor) if isinstance(entity, Tensor) else None


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

    def complain(expected: str, got: str) -> Exception:
        helps: list[Help] = ["collect results with `for x in xs { emit ... }`; the loop stacks them for you"]
        first = inserting.started_as(binding.name, binding.span, got) if can_be_promised(context, got) else None
        return mistake(
            "E0601",
            f"`{binding.name}` must keep its type from one iteration to the next",
            span,
            f"{got} after the first iteration",
            secondary=[(binding.span, f"{expected} before it")],
            helps=helps if first is None else [first, *helps] if "[" in got else [first],
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
            raise mistake("E0316", f"{counted(count, 'name')} for {counted(len(items), 'value')}", span)
        case _:
            raise mistake("E0316", f"{counted(count, 'name')} for one value", span, describe(entity))
