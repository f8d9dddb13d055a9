"""From syntax tree to typed graph: names, types, sizes, effects; every declaration expanded where it is used.

In: parsed modules. Out: a verified `dfc.ir` graph, or diagnostics. Read first: `build` (the public entry), `context`
(where elaboration stands), `types/entities` (what an expression can be).
"""
