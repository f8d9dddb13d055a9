"""Loop kernels: schedules, loops, bodies, and the elementary functions. Read first: `kernels`, then `loop_schedule`.

In: loop kernels. Out: LLVM functions.
"""
