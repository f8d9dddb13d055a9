"""Text to tree: lark on both grammars, the nodes that each rule makes, limits of a text, going on after a mistake.

Read first: `parser`, then `language`. `tables` makes the JSON of the grammars and runs only after one was changed.

In: a `SourceFile`. Out: a tree, or messages.
"""

from dfc.deferred.modules import defer

defer("interegular")  # lark imports it where it is installed, to compare the terminals of grammars without tables
