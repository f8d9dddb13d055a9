"""`param`, `var` and `queue`: variables, generators of random numbers, and instances of blocks."""

from __future__ import annotations

import math
from collections.abc import Callable

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.source import Span
from dfc.diagnostics.suggestions import closest, did_you_mean
from dfc.elaborate.context import Context
from dfc.elaborate.expressions.recomputing import SETTING as RECOMPUTE
from dfc.elaborate.expressions.recomputing import mark_instances
from dfc.elaborate.mistakes import Abandoned, mistake, unsupported
from dfc.elaborate.names.declarations import static_context
from dfc.elaborate.names.scope import Scope
from dfc.elaborate.state.declaration import Declaration, register
from dfc.elaborate.state.mutexes import declare_mutex
from dfc.elaborate.state.queues import declare_queue, refuse_queue_as_type
from dfc.elaborate.state.randomness import RNG_TYPE
from dfc.elaborate.state.readers import FUNCTIONS as READERS
from dfc.elaborate.state.readers import declare_reader
from dfc.elaborate.state.variables import Variable
from dfc.elaborate.types.convert import constant_of, is_operand, tensor
from dfc.elaborate.types.declared import DeclaredType, ResourceType, TupleType
from dfc.elaborate.types.descriptions import describe
from dfc.elaborate.types.entities import Entity, Instance, ListValue, Nothing, TupleValue, Unknown, VariableValue
from dfc.elaborate.types.types import LARGEST_SIZE, resolve_type
from dfc.ir.dtypes import DType
from dfc.ir.graph import ResourceKind
from dfc.ir.types import TensorType
from dfc.syntax.tree import tree

SETTINGS = ("container", "saved", "name", "kind")


@dataclass(frozen=True, slots=True)
class Settings:
    container: str = "default"
    saved: bool = True
    name: str = ""
    kind: str = ""


def declare_state(declaration: Declaration, item: tree.ParamItem | tree.VarItem | tree.QueueItem) -> Entity:
    """The variables, instance or queue that an item declares."""
    if isinstance(item, tree.QueueItem):
        return declare_queue(declaration, item)
    context = static_context(
        declaration.program,
        Scope(declaration.scope),
        "state",
        item.name.text,
        item.name.span,
        generic=declaration.generic,
    )
    settings = read_settings(context, item)
    name = settings.name or f"{declaration.prefix}{item.name.text}"
    program = declaration.program
    program.resolving.add(item.name.text)
    try:
        if item.type is None:
            return _untyped(declaration, context, item, name, settings)
        _refuse_recompute(item)
        refuse_queue_as_type(context, item, item.type)
        declared = resolve_type(context, item.type)
        if (isinstance(declared, ResourceType) and declared.name == "rng") or settings.kind == "rng":
            return _rng(declaration, item, name, settings)
        if isinstance(declared, ResourceType) and declared.name == "mutex":
            return declare_mutex(declaration, item, name)
        return _variables(declaration, item, declared, name, settings, lambda entity: entity)
    finally:
        program.resolving.discard(item.name.text)


def read_settings(context: Context, item: tree.ParamItem | tree.VarItem) -> Settings:
    settings: dict[str, bool | str] = {}
    for setting in item.settings:
        name = setting.name.text
        if name not in SETTINGS:
            if name in ("copies", "exclusive", "sparse"):
                raise unsupported(f"the setting `{name}` is", setting.span)
            if name == RECOMPUTE:
                continue  # of instances, which are not known yet
            near = did_you_mean(closest(name, SETTINGS))
            raise mistake("E0204", f"a variable has no setting `{name}`", setting.name.span, near)
        entity = context.engine.evaluate(context, setting.value)
        value = constant_of(context, entity, setting.value.span, f"the setting `{name}`")
        if isinstance(value, bool) != (name == "saved") or not isinstance(value, bool | str):
            expected = "`true` or `false`" if name == "saved" else "a string"
            raise mistake("E0315", f"the setting `{name}` must be {expected}", setting.value.span)
        settings[name] = value
    return Settings(
        container=str(settings.get("container", "default")),
        saved=bool(settings.get("saved", True)),
        name=str(settings.get("name", "")),
        kind=str(settings.get("kind", "")),
    )


# ---------------------------------------------------------------- variables --


def _variables(
    declaration: Declaration,
    item: tree.ParamItem | tree.VarItem,
    declared: DeclaredType,
    name: str,
    settings: Settings,
    pick: Callable[[Entity], Entity],
) -> Entity:
    """One variable, or one for each field of a tuple; `pick` finds the field in the initial value."""
    match declared:
        case TensorType():
            return VariableValue(_variable(declaration, item, declared, name, settings, pick))
        case TupleType(fields, names):
            shown = names or tuple(str(n) for n in range(len(fields)))
            items = [
                _variables(declaration, item, field, f"{name}.{part}", settings, _field(pick, number, len(fields)))
                for number, (field, part) in enumerate(zip(fields, shown, strict=True))
            ]
            return TupleValue(tuple(items), names)
        case ResourceType("string"):
            raise unsupported("strings are", item.span)
        case _:
            span = (item.type or item).span
            raise mistake("E0316", f"a variable cannot be of type {declared}", span)


def _field(pick: Callable[[Entity], Entity], number: int, count: int) -> Callable[[Entity], Entity]:
    def inner(entity: Entity) -> Entity:
        whole = pick(entity)
        if isinstance(whole, TupleValue) and len(whole.items) == count:
            return whole.items[number]
        return whole

    return inner


def _check_extent(type_: TensorType, span: Span) -> None:
    """No machine addresses more, and a bundle cannot say it."""
    sizes = [size.constant for size in type_.shape]
    width = type_.dtype.size if isinstance(type_.dtype, DType) else 1
    if width * math.prod(each for each in sizes if each is not None) > LARGEST_SIZE:
        raise mistake("E0309", f"a variable of {type_} is too large", span, "more than 2**62 bytes")


def _variable(
    declaration: Declaration,
    item: tree.ParamItem | tree.VarItem,
    type_: TensorType,
    name: str,
    settings: Settings,
    pick: Callable[[Entity], Entity],
) -> Variable:
    for size in type_.shape:
        if size.constant is None and not declaration.generic:
            span = (item.type or item).span
            raise mistake("E0309", "the shape of a variable is known when the program is compiled", span)
    _check_extent(type_, (item.type or item).span)
    trained = isinstance(item, tree.ParamItem)
    if trained and not type_.dtype.is_float:
        span = (item.type or item).span
        raise mistake(
            "E0316",
            f"`{item.name.text}` cannot be trained: {type_.dtype} has no gradient",
            span,
            helps=(f"declare it with `var {item.name.text}`",),
        )
    value = item.value

    def initial(context: Context) -> Entity:
        inner = context.changed(scope=Scope(declaration.scope))
        return pick(inner.engine.right_hand_side(inner, value, type_))

    variable = Variable(
        name,
        ResourceKind.VARIABLE,
        type_,
        trained,
        item.name.span,
        settings.container,
        settings.saved,
        item.documentation,
    )
    if not _is_unset(value):
        declaration.program.first_values[variable] = initial
    register(declaration, variable)
    return variable


def _is_unset(value: tree.RightHandSide) -> bool:
    """`graph.unset()`: printed graphs say so of a variable without a first value."""
    return isinstance(value, tree.Call) and value.span.text == "graph.unset()"


def _rng(declaration: Declaration, item: tree.ParamItem | tree.VarItem, name: str, settings: Settings) -> Entity:
    value = item.value

    def initial(context: Context) -> Entity:
        inner = context.changed(scope=Scope(declaration.scope))
        return inner.engine.right_hand_side(inner, value, RNG_TYPE)

    variable = Variable(
        name,
        ResourceKind.RNG,
        RNG_TYPE,
        False,
        item.name.span,
        settings.container,
        settings.saved,
        item.documentation,
    )
    if not _is_unset(value):
        declaration.program.first_values[variable] = initial
    register(declaration, variable)
    return VariableValue(variable)


def _untyped(
    declaration: Declaration, context: Context, item: tree.ParamItem | tree.VarItem, name: str, settings: Settings
) -> Entity:
    """`var net = Dense[784, 10]()`, or a variable whose type follows from its first value."""
    value = item.value
    if isinstance(value, tree.Call) and isinstance(value.function, tree.Name) and value.function.text == "philox":
        return _rng(declaration, item, name, settings)
    if isinstance(value, tree.Call) and isinstance(value.function, tree.Name) and value.function.text in READERS:
        _refuse_recompute(item)
        return declare_reader(declaration, context, item, name, container=settings.container, saved=settings.saved)
    context.instance = name
    entity = context.engine.right_hand_side(context, value)
    context.instance = ""
    if isinstance(entity, Unknown):
        raise Abandoned
    if _holds_instances(entity):
        _set_instances(context, item, entity)
        return entity
    _refuse_recompute(item)
    if isinstance(entity, Instance | Nothing) or not is_operand(entity):
        raise mistake("E0316", f"a variable cannot hold {describe(entity)}", value.span)
    type_ = tensor(context, entity, value.span).tensor
    return VariableValue(_variable(declaration, item, type_, name, settings, lambda initial: initial))


def _set_instances(context: Context, item: tree.ParamItem | tree.VarItem, entity: Entity) -> None:
    """`with recompute = true` behind instances."""
    for setting in item.settings:
        if setting.name.text != RECOMPUTE:
            raise unsupported(f"the setting `{setting.name.text}` of an instance is", setting.span)
        setting_value = context.engine.evaluate(context, setting.value)
        value = constant_of(context, setting_value, setting.value.span, "the setting `recompute`")
        if not isinstance(value, bool):
            title = "the setting `recompute` of an instance must be `true` or `false`"
            raise mistake("E0315", title, setting.value.span, f"this is {setting.value.span.text}")
        if value:
            mark_instances(entity)


def _refuse_recompute(item: tree.ParamItem | tree.VarItem) -> None:
    for setting in item.settings:
        if setting.name.text == RECOMPUTE:
            helps = ("set it behind an instance of a block: `var net = Net() with recompute = true`",)
            raise mistake("E0204", "a variable has no setting `recompute`", setting.name.span, helps=helps)


def _holds_instances(entity: Entity) -> bool:
    match entity:
        case Instance():
            return True
        case ListValue(items) | TupleValue(items):
            return all(_holds_instances(item) for item in items)
        case _:
            return False
