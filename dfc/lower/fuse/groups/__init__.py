"""Items join into groups, each of which becomes one kernel, and values that others read get memory.

In: analysed items. Out: groups in an order of execution. Read first: `groups`, then `join`,
`dependencies`, `fit`, `memory`.
"""
