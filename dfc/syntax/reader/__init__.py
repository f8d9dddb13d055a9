"""Text to tree: lark on both grammars, the nodes that each rule makes, limits of a text, going on after a mistake.

Read first: `parser`, then `language`. `tables` makes the JSON of the grammars and runs only after one was changed.
"""
