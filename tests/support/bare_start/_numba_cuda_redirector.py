"""In the place of the module that numba-cuda has every interpreter import at its start, for `numba.cuda` to be its own.

That module takes half of the start of an interpreter, and a job of two ranks starts four. Processes that do not compile
for GPUs find this one before it: its folder is the first of `tests.support.mpi.PATHS`.
"""
