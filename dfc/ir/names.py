"""Names: full names stay unique within an entry, and become legal identifiers in printed text.

Assumes full names as the front end makes them: parts joined by `/` and `.`, results of one node told apart by `:n`.
Guarantees that what existed before a pass keeps its name and that new names are a function of the old text alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dfc.ir import walk
from dfc.ir.graph import Block, Node, Value

_WORDS = """
after and as assert block const dfg each else emit entry false fn for from gradient if import in let loop new not or
param proc queue readonly ref return runner test then true type var where while with yield
"""
KEYWORDS = frozenset(_WORDS.split())
_ILLEGAL = re.compile(r"[^A-Za-z0-9_]+")
_LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class NameSet:
    """The names taken so far in one scope."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    @property
    def taken(self) -> frozenset[str]:
        return frozenset(self._taken)

    def __contains__(self, name: str) -> bool:
        return name in self._taken

    def fresh(self, name: str) -> str:
        """The name itself if it is free, else the first free one of `name_1`, `name_2` ..; it is taken from now on."""
        chosen = name
        number = self._next.get(name, 0)
        while chosen in self._taken:
            number += 1
            chosen = f"{name}_{number}"
        self._next[name] = number
        self._taken.add(chosen)
        return chosen


def is_identifier(name: str) -> bool:
    """Whether a name can be written as it is."""
    return bool(_LEGAL.fullmatch(name)) and name not in KEYWORDS and name != "_"


def identifier(name: str) -> str:
    """A legal identifier that resembles a full name."""
    text = _ILLEGAL.sub("_", name).strip("_") or "x"
    text = f"_{text}" if text[0].isdigit() else text
    return f"{text}_" if text in KEYWORDS else text


def escape(word: str) -> str:
    """A word that may be a keyword, as it stands behind a point or before `=`."""
    return f"{word}_" if word in KEYWORDS else word


def name_nodes(block: Block, before: Block) -> Block:
    """Gives unique names to the nodes that a pass added (not in `before`), changing only these; returns `block`."""
    if block is before:
        return block
    old = {id(node) for node in walk.nodes(before)}
    added = [node for node in walk.nodes(block) if id(node) not in old]
    if added:
        added_ids = {id(node) for node in added}
        names = NameSet(node.name for node in walk.nodes(block) if id(node) not in added_ids)
        for node in added:
            rename(node, names.fresh(node.name or node.op))
    return block


def hand_over(old: Sequence[Value], new: Sequence[Value], new_nodes: Sequence[Node]) -> None:
    """Gives the names of replaced values to the nodes made for them, so that full names stay what they were."""
    fresh = {id(node) for node in new_nodes}
    for before, after in zip(old, new, strict=True):
        node = after.node
        if node is not None and id(node) in fresh and len(node.results) == 1:
            rename(node, before.name)


def rename(node: Node, name: str) -> None:
    """Renames a node that nobody else has seen yet."""
    if node.name == name:
        return
    node.name = name
    many = len(node.results) > 1
    for value in node.results:
        value.name = f"{name}:{value.index}" if many else name
