"""The compiler as a whole: every stage in order (`pipeline`), for one rank, for many ranks and for several devices.

In: a source or a graph, and options. Out: a bundle. Read first: `api`, then `pipeline`.
"""
