"""Fuse: a block of graph nodes becomes items (what must be in memory, and effects), items join into groups, each group
becomes one kernel.

Before: `max`, `sub`, `exp`, `sum`, `div` nodes over [B, N].
After: one kernel with parallel axis B and three stages over N; only the last result has memory.

In: a graph after `expand`. Out: kernels over storage, and the nodes that are none (`fused`). Read first: `fuse`, then
`blocks`, which goes through the folders in their order: `rewrite`, `items`, `groups`, `emit`. `inline` and `indexing`
say how an element of a node is computed from elements of its operands; `scope` is what all blocks of an entry share.
"""
