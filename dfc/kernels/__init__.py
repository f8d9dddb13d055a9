"""Fused groups as target-neutral kernels: index space, index maps, scalar instructions, reductions, contractions.

In: what fusion makes. Out: what targets turn into code: a `Program`. Read first: `form`, then `body` and `program`.
"""
