"""The graph: typed, located SSA with regions. Knows no op's meaning: ops are named, their records live in `dfc.ops`.

In: what elaboration and passes build. Out: graphs that `verify` has looked at. Read first: `graph`, then `types`,
`regions` and `verify`.
"""
