"""What the machine can do at most: multiply-adds in registers, and copying; native loops for an instruction set.

In: an instruction set. Out: calls to time, in turns with the cases. Read `native.py` first.
"""
