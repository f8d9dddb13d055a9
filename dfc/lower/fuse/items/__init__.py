"""A block as items: what must be in memory, and effects. All other nodes are computed inside the items that use them.

In: a prepared block. Out: items in an order of execution, each with what it reads and where. Read first: `items`, then
`collect` (what is an item whatever fusion decides), `materialise` (which other values get memory), `analyse`.
"""
