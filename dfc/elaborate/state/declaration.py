"""Where a piece of state is declared, and entering it among the state of the program."""

from __future__ import annotations

from dfc.deferred.dataclasses import dataclass
from dfc.elaborate.context import Program
from dfc.elaborate.mistakes import mistake
from dfc.elaborate.names.scope import Scope
from dfc.elaborate.state.variables import Variable


@dataclass(frozen=True, slots=True)
class Declaration:
    """Where a state item stands: its scope, the prefix of its full name, and whether it is only being checked."""

    program: Program
    scope: Scope
    prefix: str
    generic: bool = False


def register(declaration: Declaration, variable: Variable) -> None:
    """Enters a variable into the program; two of one name are a mistake (E0205)."""
    program = declaration.program
    if declaration.generic:
        return
    known = program.variables.get(variable.name)
    if known is not None:
        raise mistake(
            "E0205",
            f"two variables have the name `{variable.name}`",
            variable.span,
            secondary=[(known.span, "the first one")],
        )
    program.variables[variable.name] = variable
