"""Tree to text: the inverse of the reader (`printer`), and the one layout of programs (`formatter`).

In: a tree, or a text. Out: text that is read as the same tree. Read first: `printer`, then `printing`.
"""
