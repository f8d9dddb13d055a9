"""Checkpoints: the state of a program in files, published whole or not at all, never at the cost of the one before."""
