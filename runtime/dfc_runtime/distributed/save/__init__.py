"""Checkpoints that all ranks write together. Read first: `saving`."""
