"""What the machine can do at most, as a system beside the others: timed in turns with the cases.

In: an instruction set. Out: calls to time. The loops are those of `dfc_target_cpu.limits`.
"""
