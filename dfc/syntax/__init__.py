"""From text to syntax tree and back, for programs.

In: a `SourceFile`. Out: the tree of `tree/tree.py`, or one message a syntax error. Read first: `reader/parser.py`.
"""
