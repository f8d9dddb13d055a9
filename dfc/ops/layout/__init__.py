"""Ops that move elements and change none of them.

In: tensors. Out: records of the ops. Read first: `shape`.
"""
