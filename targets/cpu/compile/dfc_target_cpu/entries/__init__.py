"""Entries as native functions: steps, frames, threads, locks. Read first: `program`."""
