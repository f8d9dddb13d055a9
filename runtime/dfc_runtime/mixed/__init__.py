"""Programs that work on several devices of one task: a driver made of the drivers of its parts.

In: a bundle with a part for each device. Out: one driver. Read first: `driver`, then `parts` and `meeting`.
"""
