"""Graph to graph, so that fusion sees fewer kinds of nodes, and each where it can join others.

In: the block of an entry. Out: a block of the same meaning, that no other stage sees. Read first: `prepare`; then
`hoist`, `flatten` and `gathers`, which may be left out without harm.
"""
