"""Fuse: a block of graph nodes becomes items (what must be in memory, and effects), items join into groups, each group
becomes one kernel.

Before: `max`, `sub`, `exp`, `sum`, `div` nodes over [B, N].
After: one kernel with parallel axis B and three stages over N; only the last result has memory.

The order of the modules: prepare, collect (with inline), absorb, analyse, join, homes, emit.
"""
