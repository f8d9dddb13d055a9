"""Fuse: a block of graph nodes becomes items (what must be in memory, and effects), items join into groups, each group
becomes one kernel.

In: a graph after `expand`. Out: kernels over places, and the nodes that are none (`fused`). Read first: `fuse`, then
`blocks`. The order of the modules behind them: hoist, prepare, flatten, collect (with inline), absorb, analyse, join,
homes, emit.
"""
