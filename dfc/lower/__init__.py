"""From a graph to a program: kernels, steps, buffers.

In: a graph after `expand`. Out: a `dfc.kernels.program.Program`. Each folder is a stage; read first: `fuse`, then
`schedule` and `buffers`.
"""
