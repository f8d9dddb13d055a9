"""Ops whose result at a point depends on their operands at this point alone.

In: operands that broadcast. Out: records of the ops. Read first: `unary`, then `arithmetic`.
"""
