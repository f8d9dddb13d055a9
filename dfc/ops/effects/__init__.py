"""Ops that do something besides making values: state, the host, messages between tasks.

In: operands, and tokens of resources. Out: records of the ops, whose last results are tokens. Read first: `effects`,
then `state`.
"""
