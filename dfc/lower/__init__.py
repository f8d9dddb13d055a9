"""From a graph to a scheduled program: kernels, steps, buffers.

In: a graph after `expand`. Out: a `dfc.kernels.program.Program`. Read first: `program`, then `fuse`, `schedule`,
`buffers`.
"""
