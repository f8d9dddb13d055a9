"""Passes about loops: what can be computed before them."""
