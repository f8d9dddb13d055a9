"""Queues and runners of a loaded program: who starts them, what becomes of their errors, who waits for whom.

Read first: `native` (what a driver offers), then `crew` (the threads).
"""
