"""Kernel text to PTX and machine code, and what is kept on disk of it. Read first: `compile`."""
