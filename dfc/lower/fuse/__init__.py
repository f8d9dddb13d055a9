"""Fuse: a block of graph nodes becomes items (what must be in memory, and effects), items join into groups, each group
becomes one kernel.

Before: `max`, `sub`, `exp`, `sum`, `div` nodes over [B, N].
After: one kernel with parallel axis B and three stages over N; only the last result has memory.

In: a graph after `expand`. Out: kernels over places, and the nodes that are none (`fused`). Read first: `fuse`, then
`blocks`. The order of the modules behind them: hoist, prepare, flatten, collect (with inline), absorb (with factors),
analyse, join, homes, emit (products).
"""
