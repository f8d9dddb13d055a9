"""Routines of linear algebra as native loops: f64 matrices, row-major, one at a time; a launch goes through a stack.

`notation` is what they are written in, `vectors`, `matrices` and `reflectors` are their common parts, then a module for
each family. Read `cholesky` first. `launch` finds operands and shares out stacks; `library` has the texts that programs
are linked with.

In: a routine by its name. Out: LLVM functions.
"""
