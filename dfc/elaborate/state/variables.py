"""Collecting variables out of what holds them: instances, tuples and lists."""

from __future__ import annotations

from collections.abc import Iterator

from dfc.elaborate.types.entities import Entity, Instance, ListValue, QueueValue, ReaderValue, TupleValue, VariableValue
from dfc.elaborate.types.variable import Variable

__all__ = ["Variable", "trained_in", "variables_in"]


def variables_in(entity: Entity) -> Iterator[Variable]:
    """Every variable inside, in the order of declaration."""
    match entity:
        case VariableValue(variable) | ReaderValue(variable):
            yield variable
        case QueueValue(variable, _, _, order):
            yield variable
            if order is not None:
                yield order
        case TupleValue(items) | ListValue(items):
            for item in items:
                yield from variables_in(item)
        case Instance():
            for member in entity.state.values():
                yield from variables_in(member)
        case _:
            return


def trained_in(entity: Entity) -> Iterator[Variable]:
    return (variable for variable in variables_in(entity) if variable.trained)
