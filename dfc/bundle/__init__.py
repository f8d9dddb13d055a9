"""What is written: bundles, the protocol of targets, and how targets are found.

In: a lowered program. Out: the bytes of a bundle. Read first: `target`, then `writing`.
"""
