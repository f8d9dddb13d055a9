"""Scopes: which names are known where, and what each stands for.

One name space. A lookup goes from the innermost scope outwards: loop variables and `let`, parameters, block members,
file, imports, prelude. Items of a file and members of a block may be used before they are written: their bindings
are `Pending` until first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from dfc.diagnostics.source import Span
from dfc.elaborate.types.entities import Entity, Unknown


class Role(Enum):
    """How a name was introduced; messages and the rules of shadowing depend on it."""

    LET = "let"
    LOOP = "loop variable"
    PARAMETER = "parameter"
    REFERENCE = "reference"
    DIMENSION = "dimension"
    STATE = "variable"
    CONST = "constant"
    FUNCTION = "function"
    BLOCK = "block"
    TYPE = "type"
    ENTRY = "entry"
    IMPORT = "import"
    PRELUDE = "prelude"


PROTECTED = frozenset({Role.STATE, Role.FUNCTION, Role.BLOCK, Role.IMPORT, Role.DIMENSION})


@dataclass(frozen=True, slots=True)
class Pending:
    """An item that is elaborated when it is first used."""

    resolve: Callable[[], Entity]


@dataclass(slots=True, eq=False)
class Binding:
    name: str
    entity: Entity | Pending
    span: Span
    role: Role
    level: int = 0  # loop variables: how many loops surround it

    @property
    def value(self) -> Entity:
        """What the name stands for; resolves an item at its first use."""
        entity = self.entity
        if isinstance(entity, Pending):
            entity = entity.resolve()
            if isinstance(self.entity, Pending):
                self.entity = entity
        return entity

    @property
    def is_resolved(self) -> bool:
        return not isinstance(self.entity, Pending)


class Scope:
    """A set of names inside another one."""

    __slots__ = ("names", "parent")

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.names: dict[str, Binding] = {}

    def bind(self, name: str, entity: Entity | Pending, span: Span, role: Role, level: int = 0) -> Binding:
        binding = Binding(name, entity, span, role, level)
        self.names[name] = binding
        return binding

    def find(self, name: str) -> Binding | None:
        scope: Scope | None = self
        while scope is not None:
            binding = scope.names.get(name)
            if binding is not None:
                return binding
            scope = scope.parent
        return None

    def own(self, name: str) -> Binding | None:
        return self.names.get(name)

    @property
    def outermost(self) -> Scope:
        """The prelude."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def bindings(self) -> Iterator[Binding]:
        """All visible names, inner ones first."""
        seen: set[str] = set()
        scope: Scope | None = self
        while scope is not None:
            for name, binding in scope.names.items():
                if name not in seen:
                    seen.add(name)
                    yield binding
            scope = scope.parent

    def forget(self, name: str, span: Span) -> None:
        """Binds a name whose statement was given up, so that its uses are not reported."""
        self.bind(name, Unknown(), span, Role.LET)
