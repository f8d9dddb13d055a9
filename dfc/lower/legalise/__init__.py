"""Meaning as kernel functions over `dfc.kernels.primitives`, written once for all targets.

In come names and element types (the elementary functions of f32 and f64), out come `dfc.kernels.functions.Function`s,
each made once a process. Read first: `formats`, then `exponential`.
"""
