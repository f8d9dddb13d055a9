"""What a grammar says by itself, for tests of what was made of it."""

from __future__ import annotations

from lark import Lark


def nodes_of(parser: Lark) -> set[str]:
    """The names of the rules that make a node: all but those that only choose, and those that lark adds."""
    rules = [rule for rule in parser.rules if rule.alias or not rule.options.expand1]
    return {name for rule in rules if not (name := str(rule.alias or rule.origin.name)).startswith("_")}
