"""Variables and random streams of a loaded program. Read first: `state`.

In: the resources of a manifest. Out: arrays by full name, and keys of random streams.
"""
