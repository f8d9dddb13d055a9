"""Text to tree: tokens, the automaton of both grammars, the nodes that each rule makes, limits of a text.

Read first: `parser`, then `automaton`.
"""
