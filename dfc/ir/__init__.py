"""The graph: typed, located SSA with regions. Knows no op's meaning: ops are named, their records live in `dfc.ops`."""
