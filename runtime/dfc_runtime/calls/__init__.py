"""Calls of entries: arguments in, native code, results out. Read first: `calls`, then `sizes` and `hosts`."""
