"""The formats of files: bundles and checkpoints. The compiler imports them from here, never the reverse.

Assumes nothing of the bytes it reads. Guarantees that reading is parsing only: nothing is executed or mapped.

In: bytes of a file. Out: its manifest and tensors; and back. Read first: `bundle`, then `manifest` and `tensors`.
"""
