"""The compile half of the target `cuda`: kernels, machine code, plans. Read first: `target`.

In: a `dfc.kernels.program.Program`. Out: code for each architecture, and a plan.
"""
