"""Kernel text to PTX and machine code, and what is kept on disk of it. Read first: `compile`.

In: a text of a kernel. Out: PTX and machine code of it.
"""
