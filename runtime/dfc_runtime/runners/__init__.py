"""Queues and runners of a loaded program: who starts them, what becomes of their errors, who waits for whom.

Read first: `native` (what a driver offers), then `crew` (the threads).

In: the runners of a bundle. Out: threads that fill its queues, and their errors where somebody takes.
"""
