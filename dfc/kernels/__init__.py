"""Fused groups as target-neutral kernels: index space, index maps, scalar instructions, reductions, contractions."""
