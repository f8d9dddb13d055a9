"""Figures of dfc alone, which no peer has beside it.

In: programs of `programs/`. Out: dictionaries for the report (`figures`: compile time, size, loading, memory), or
lines of text: `compiling` compiles large programs, `cpu_kernels` measures kernels with no program around them. Read
`figures` first.
"""
