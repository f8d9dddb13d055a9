"""Entities in words, for messages."""

from __future__ import annotations

from dfc.elaborate.types.entities import (
    AliasValue,
    BlockClass,
    Constant,
    ElementType,
    Entity,
    EntryValue,
    Instance,
    ListValue,
    LiteralTensor,
    ModuleValue,
    Nothing,
    Opaque,
    Pack,
    PreludeFunction,
    PreludeModule,
    ProgramValue,
    QueueMethod,
    QueueValue,
    ReaderMethod,
    ReaderValue,
    RngMethod,
    Routine,
    RunnerValue,
    Size,
    SizeCondition,
    SpecialType,
    StringValue,
    Tensor,
    Text,
    TupleValue,
    TypeValue,
    Untyped,
    VariableValue,
)


def describe(entity: Entity) -> str:
    """What an entity is, in words for a message."""
    match entity:
        case Tensor(value):
            return str(value.type)
        case Constant(bool()):
            return "a bool"
        case Constant(int()):
            return "a whole number"
        case Constant(float()) | Untyped():
            return "a number"
        case Constant() | Text() | StringValue():
            return "a string"
        case Opaque(kind):
            return f"a constant {kind}"
        case Size():
            return "i64"
        case SizeCondition():
            return "bool"
        case LiteralTensor(_, type_) | TypeValue(type_):
            return str(type_)
        case VariableValue(variable):
            return str(variable.type)
        case TupleValue(items):
            return f"({', '.join(map(describe, items))})"
        case _:
            return _DESCRIPTIONS.get(type(entity), "a value")


_DESCRIPTIONS: dict[type[object], str] = {
    ListValue: "a list",
    Routine: "a function",
    PreludeFunction: "a function",
    RngMethod: "a function",
    QueueValue: "a queue",
    QueueMethod: "a function",
    ReaderValue: "a reader",
    ReaderMethod: "a function",
    BlockClass: "a block",
    Instance: "an instance of a block",
    EntryValue: "an entry",
    RunnerValue: "a runner",
    ModuleValue: "a module",
    PreludeModule: "a module",
    ElementType: "an element type",
    SpecialType: "a type",
    AliasValue: "a type",
    Pack: "a shape",
    ProgramValue: "the program",
    Nothing: "nothing",
}
