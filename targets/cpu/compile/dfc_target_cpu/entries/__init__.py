"""Entries as native functions: steps, frames, threads, locks. Read first: `program`.

In: the steps of a program. Out: one LLVM function for each entry.
"""
