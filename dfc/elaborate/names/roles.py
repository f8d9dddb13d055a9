"""How a name was introduced."""

from __future__ import annotations

from enum import Enum


class BindingRole(Enum):
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

    @property
    def one(self) -> str:
        """With its article."""
        return f"an {self.value}" if self.value[0] in "aeiou" else f"a {self.value}"


PROTECTED = frozenset(
    {BindingRole.STATE, BindingRole.FUNCTION, BindingRole.BLOCK, BindingRole.IMPORT, BindingRole.DIMENSION}
)
