"""Variables while a program is elaborated, and collecting them out of instances, tuples and lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dfc.diagnostics.source import Span
from dfc.elaborate.types.entities import Entity, Instance, ListValue, TupleValue, VariableValue
from dfc.ir.graph import ResourceKind
from dfc.ir.types import TensorType

if TYPE_CHECKING:
    from dfc.elaborate.context import Context


@dataclass(eq=False, slots=True)
class Variable:
    """One resource. `initial` elaborates its first value where the context stands, None if it has none of its own."""

    name: str
    kind: ResourceKind
    type: TensorType
    trained: bool
    span: Span
    initial: Callable[[Context], Entity] | None
    container: str = "default"
    saved: bool = True
    doc: str = ""

    @property
    def short_name(self) -> str:
        return self.name.rsplit(".", 1)[-1]


def variables_in(entity: Entity) -> Iterator[Variable]:
    """Every variable inside, in the order of declaration."""
    match entity:
        case VariableValue(variable):
            yield variable
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
