"""The compile half of the target `cpu`: a scheduled program to code images.

Read first: `target`, then `entries/program`.

In: a `dfc.kernels.program.Program`. Out: an image for each instruction set.
"""
