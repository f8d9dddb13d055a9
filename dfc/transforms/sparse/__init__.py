"""Gradients that are zero but for some rows, and updates that touch these rows only. Read first: `sparse`."""
