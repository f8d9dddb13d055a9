"""Items of a file and members of a block: what each name stands for, found out when it is first used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dfc.diagnostics.source import Span
from dfc.elaborate.context import Context, Frame, Program, Root
from dfc.elaborate.mistakes import Abandoned, Mistake, mistake
from dfc.elaborate.names.scope import BindingRole, Pending, Scope
from dfc.elaborate.statements.regions import Region
from dfc.elaborate.types.convert import array_of, number_of
from dfc.elaborate.types.declared import ConstType, Signature
from dfc.elaborate.types.descriptions import describe
from dfc.elaborate.types.entities import (
    UNKNOWN,
    AliasValue,
    BlockClass,
    Constant,
    Entity,
    EntryValue,
    Instance,
    LiteralTensor,
    Routine,
    RunnerValue,
    Size,
    Tensor,
    Unknown,
    Untyped,
)
from dfc.elaborate.types.fitting import fit
from dfc.elaborate.types.generics import bind_generics
from dfc.elaborate.types.types import CONST_KINDS, resolve_type
from dfc.ir.attributes import Literal
from dfc.ir.dtypes import ALL, DType
from dfc.ir.facts import NO_FACTS
from dfc.ir.types import TensorType
from dfc.ops.attributes import ConstantAttributes
from dfc.syntax.tree import tree

Declared = (
    tree.ConstItem
    | tree.TypeItem
    | tree.FunctionItem
    | tree.ProcedureItem
    | tree.BlockItem
    | tree.EntryItem
    | tree.ParamItem
    | tree.VarItem
    | tree.QueueItem
    | tree.RunnerItem
)
StateItem = tree.ParamItem | tree.VarItem | tree.QueueItem
ROLES: dict[type[tree.Node], BindingRole] = {
    tree.ConstItem: BindingRole.CONST,
    tree.TypeItem: BindingRole.TYPE,
    tree.FunctionItem: BindingRole.FUNCTION,
    tree.ProcedureItem: BindingRole.FUNCTION,
    tree.BlockItem: BindingRole.BLOCK,
    tree.EntryItem: BindingRole.ENTRY,
    tree.ParamItem: BindingRole.STATE,
    tree.VarItem: BindingRole.STATE,
    tree.QueueItem: BindingRole.STATE,
    tree.RunnerItem: BindingRole.FUNCTION,
}


def static_context(
    program: Program, scope: Scope, kind: str, name: str, span: Span, *, generic: bool = False
) -> Context:
    """A place outside every entry, whose nodes are thrown away."""
    root = Root(name, generic=generic)
    return Context(program, Frame(kind, name, name, span, root), Region(), scope, NO_FACTS)


def declare(program: Program, scope: Scope, item: Declared, state: Callable[[StateItem], Entity]) -> None:
    """Binds the name of an item; `state` makes the variables of a declaration."""
    known = scope.own(item.name.text)
    if item.name.text in ALL:
        raise mistake("E0205", f"`{item.name.text}` is an element type", item.name.span)
    if known is not None:
        raise mistake(
            "E0205",
            f"`{item.name.text}` is declared twice",
            item.name.span,
            secondary=[(known.span, "the first time")],
        )
    scope.bind(item.name.text, _meaning(program, scope, item, state), item.name.span, ROLES[type(item)])


def _meaning(program: Program, scope: Scope, item: Declared, state: Callable[[StateItem], Entity]) -> Entity | Pending:
    match item:
        case tree.FunctionItem() | tree.ProcedureItem():
            return Routine(item, scope)
        case tree.BlockItem():
            return BlockClass(item, scope)
        case tree.EntryItem():
            return EntryValue(item, scope)
        case tree.TypeItem():
            return AliasValue(item, scope)
        case tree.ConstItem():
            return Pending(once(program, item.name, lambda: constant_value(program, scope, item)))
        case tree.ParamItem() | tree.VarItem():
            return Pending(once(program, item.name, lambda: state(item)))
        case tree.QueueItem():
            return Pending(once(program, item.name, lambda: state(item)))
        case tree.RunnerItem():
            return RunnerValue(item)


def once(program: Program, name: tree.Identifier, make: Callable[[], Entity]) -> Callable[[], Entity]:
    """Elaborates an item; a mistake is reported once, and then its value is unknown. Circles are E0209."""
    busy = False

    def resolve() -> Entity:
        nonlocal busy
        if busy:
            title = f"`{name.text}` is declared by means of itself"
            raise mistake("E0209", title, name.span)
        busy = True
        try:
            return make()
        except Mistake as problem:
            program.reporter.report(problem.diagnostic)
        except Abandoned:
            pass
        finally:
            busy = False
        return UNKNOWN

    return resolve


# ---------------------------------------------------------------- constants --


def constant_value(program: Program, scope: Scope, item: tree.ConstItem) -> Entity:
    """The value of `const NAME: type = ...`"""
    context = static_context(program, Scope(scope), "const", item.name.text, item.name.span)
    declared = resolve_type(context, item.type, const=True) if item.type is not None else None
    if isinstance(declared, ConstType) and declared.kind not in CONST_KINDS:
        declared = None
    expected = declared if isinstance(declared, TensorType) else None
    entity = context.engine.evaluate(context, item.value, expected)
    if isinstance(entity, Unknown):
        raise Abandoned
    if isinstance(declared, ConstType):
        if isinstance(entity, Untyped) and not declared.is_list:
            entity = number_of(context, entity, f"`{item.name.text}`")
        return _of_kind(entity, declared, item)
    if isinstance(declared, TensorType) and isinstance(declared.dtype, DType) and isinstance(entity, Untyped):
        literal = Literal(array_of(context, entity, declared.dtype))
        entity = LiteralTensor(literal, declared.with_shape(entity.shape))
    if declared is not None:

        def complain(expected: str, got: str) -> Exception:
            return mistake("E0307", f"`{item.name.text}` is declared as {expected}, but this is {got}", item.value.span)

        entity = fit(context, entity, declared, item.value.span, complain, fill=True)
    return _frozen(entity, item)


def _of_kind(entity: Entity, declared: ConstType, item: tree.ConstItem) -> Entity:
    if declared.is_list:
        return entity
    match declared.kind, entity:
        case "int", Constant(bool()):
            pass
        case "int", Constant(int()) | Size():
            return entity
        case "float", Constant(int() | float() as value) if not isinstance(value, bool):
            return Constant(float(value))
        case "bool", Constant(bool()):
            return entity
        case "str", Constant(str()):
            return entity
        case _:
            pass
    title = f"`{item.name.text}` is declared as {declared}, but this is {describe(entity)}"
    raise mistake("E0307", title, item.value.span)


def _frozen(entity: Entity, item: tree.ConstItem) -> Entity:
    """A tensor becomes a literal, which can be used in any block."""
    if not isinstance(entity, Tensor):
        return entity
    node = entity.value.node
    if node is None or not isinstance(node.attributes, ConstantAttributes):
        raise mistake(
            "E0309",
            "a `const` is known when the program is compiled",
            item.value.span,
            "this is computed",
            helps=(
                'write a number, a list of numbers or `load("...")`',
                f"or make it a variable: `var {item.name.text}`",
            ),
        )
    return LiteralTensor(node.attributes.value, entity.type)


# ------------------------------------------------------------------- blocks --


def rigid_scope(program: Program, scope: Scope, generics: tuple[tree.Generic, ...], context: Context) -> Scope:
    """A scope in which generic names stand for themselves."""
    inner = Scope(scope)
    signature = Signature(generics, (), (), None, rigid=True)
    bind_generics(inner, signature, context.changed(program=program), rigid=True)
    return inner


def owner_methods(instance: Instance) -> None:
    """Lets the functions of an instance know which one they belong to."""
    for binding in instance.scope.names.values():
        entity = binding.entity
        if isinstance(entity, Routine):
            binding.entity = replace(entity, owner=instance)
