"""Scopes: which names are known where, and what each stands for.

One name space. A lookup goes from the innermost scope outwards: loop variables and `let`, parameters, block members,
file, imports, prelude. Items of a file and members of a block may be used before they are written: their bindings
are `Pending` until first use. Scopes hold entities, and entities hold scopes, so the classes stand together, in
`dfc.elaborate.types.entities`.
"""

from dfc.elaborate.names.roles import PROTECTED, BindingRole
from dfc.elaborate.types.entities import Binding, Pending, Scope

__all__ = ["PROTECTED", "Binding", "BindingRole", "Pending", "Scope"]
