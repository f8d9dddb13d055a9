"""One program on many ranks: messages, edges, sums over ranks, calls, and waiting that never hangs in silence.

In: a bundle for many ranks, and a transport. Out: a module whose calls all ranks make together. Read first:
`loading`, then `transport` and `calls`.
"""
