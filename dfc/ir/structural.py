"""Structural ops: those whose meaning is the graph's own, so that passes may know them by name.

Control flow, state and the order of effects, sizes, literals, conditions, and requests for derivatives: each of them
has regions, tokens or attributes that the graph itself gives a meaning (`dfc.ir.graph`, `dfc.ir.measured`, the verifier
and the printer). Of all other ops a pass knows what their records say (`dfc.ops.record`), and nothing by name.
"""

from __future__ import annotations

CONTROL = frozenset({"if", "for", "while"})
"""Nodes with regions."""
STATE = frozenset({"read", "assign", "draw", "checkpoint_save", "checkpoint_restore"})
"""Nodes that take and give the token of a resource."""
SIZES = frozenset({"dim", "range"})
"""A size as a number, and a number that becomes a size."""
LITERALS = frozenset({"constant"})
CONDITIONS = frozenset({"assert"})
DERIVATIVES = frozenset({"grad", "jacobian", "custom", "cotangent", "stop_gradient"})
"""What `autodiff` replaces, or looks for in the backward pass."""
STRUCTURAL = CONTROL | STATE | SIZES | LITERALS | CONDITIONS | DERIVATIVES
