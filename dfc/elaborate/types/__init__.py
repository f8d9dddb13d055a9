"""What an expression can be, types as authors write them, and making values fit declared types.

In: types of the tree. Out: declared types, and entities that fit them. Read first: `entities`, then `types` and
`fitting`.
"""
