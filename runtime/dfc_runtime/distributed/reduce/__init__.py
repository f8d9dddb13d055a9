"""Sums over ranks whose bits do not depend on their number. Read first: `reduction_plan`, then `reducer`."""
