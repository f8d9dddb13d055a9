"""What each op means: one record each. Knows no pass and no target.

In: a node, or the arguments of a call. Out: types, values, gradients, scalar code, rules. Read first: `record`, then
`registry` and a family.
"""
