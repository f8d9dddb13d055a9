"""The formats of files: bundles and checkpoints. The compiler imports them from here, never the reverse.

Assumes nothing of the bytes it reads. Guarantees that reading is parsing only: nothing is executed or mapped.
"""
