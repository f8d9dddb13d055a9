"""The compile half of the target `cuda`: kernels, machine code, plans. Read first: `target`."""
