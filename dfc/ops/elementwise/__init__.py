"""Ops whose result at a point depends on their operands at this point alone."""
