"""Names are words of the field: those of `docs/GLOSSARY.md` that the code is rid of come back nowhere.

A name is what a definition gives: a function, a class, a parameter, a variable, a field, an alias, or a file or folder.
Of each the words count, `_found_memory` is `found` and `memory`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.support.source_code import code_of, code_of_file, python_files, text_of

INSTEAD = {
    "found made told tell telling tells said given wanted worth": "what it is: a match, a plan, arguments",
    "place places placed placing home homes": "an index, an offset, a span, a view of a buffer, a site",
    "slope slopes growth": "a gradient, a cotangent, a degree",
    "rounds": "iterations, trips, repeats",
    "wish wishes ruling rulings settle settled": "constraints, options, what is resolved",
    "cut cuts draft drafts spread away": "a split, an unfinished step, a variance, what is distributed",
    "ahead beside guard thin measuring": "precompiled, colocated, checks, elimination, size inference",
    "picking selecting choosing arranging": "gathered, top_k, select, layout",
}
"""Words that say nothing of what a thing is, and what to say instead."""
AVOIDED = frozenset(word for words in INSTEAD for word in words.split())

ALLOWED = {
    "in_place": "a result in the memory of an operand, as everybody calls it",
    "philox_rounds": "what the paper calls them",
}
"""Parts of names that are terms of the field."""

PLACEMENT = {
    *("build_place", "place", "place_command", "place_on_devices", "place_state", "place_statement"),
    *("placed", "placed_entry"),
}
"""Which device something runs on: the pass, the statement of a deployment, and what comes of them."""
PLACES_ON_DEVICES = ("dfc/cli/commands/", "dfc/distribute/", "dfc/driver/")

FOLDERS = ("bench/", "dfc/", "runtime/", "targets/", "tests/support/", "tools/")


def names_in(tree: ast.AST) -> Iterator[str]:
    """Every name that is defined; attributes where something is stored in them."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.alias(asname=str(name)):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case _:
                pass


def words_of(name: str) -> str:
    """A name with its words apart, in small letters: `PlacedEntry` and `_placed_entry` are `placed_entry`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_")


@cache
def avoided_in(name: str) -> set[str]:
    """The words of a name that are to be avoided."""
    plain = words_of(name)
    for term in ALLOWED:
        plain = plain.replace(term, "")
    return AVOIDED.intersection(plain.split("_"))


def offences(file: str, text: str, code: str | None = None) -> list[str]:
    """The names of a file with such a word, each as often as it is defined."""
    if not any(map(avoided_in, set(re.findall(r"[^\W\d]\w*", code_of(text) if code is None else code)))):
        return []  # nothing is called so, nor asks for it: most files need no reading as a tree
    is_placement = file.startswith(PLACES_ON_DEVICES)
    return [
        name
        for name in names_in(ast.parse(text))
        if avoided_in(name) and not (is_placement and words_of(name) in PLACEMENT)
    ]


def offences_in_path(file: str) -> list[str]:
    """The folders of a file, and it, that have such a name."""
    is_placement = file.startswith(PLACES_ON_DEVICES)
    return [
        name
        for name in file.removesuffix(".py").split("/")
        if avoided_in(name) and not (is_placement and words_of(name) in PLACEMENT)
    ]


def test_files_and_folders_are_words_of_the_field() -> None:
    files = [file for file in python_files() if file.startswith(FOLDERS)]
    assert {file: each for file in files if (each := offences_in_path(file))} == {}
    assert offences_in_path("dfc/ops/placing/measuring.py") == ["placing", "measuring"]


def test_names_are_words_of_the_field() -> None:
    files = (file for file in python_files() if file.startswith(FOLDERS))
    names = {file: offences(file, text_of(file), code_of_file(file)) for file in files}
    assert {file: each for file, each in names.items() if each} == {}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def found(): ...", ["found"]),
        ("class ToldOnce: ...", ["ToldOnce"]),
        ("def f(place, *, rounds=1): made = place", ["place", "rounds", "made"]),
        ("import os as beside", ["beside"]),
        ("match x:\n    case [*slopes] | {'a': slope}: ...", ["slope", "slopes"]),
        ("self._is_told = wishes[0]", ["_is_told"]),
        ("for cut, (home, _) in pairs: ...", ["cut", "home"]),
        ("foundation, replaced, in_place, is_in_place, _PHILOX_ROUNDS, shortcut = x", []),
        ("print(found.told, place=1)", []),
    ],
)
def test_every_kind_of_definition_is_looked_at(text: str, names: list[str]) -> None:
    assert sorted(offences("dfc/ir/x.py", text)) == sorted(names)


def test_placement_on_devices_is_a_term() -> None:
    text = "def place(graph): ...\nclass Placed: ...\nplaces = 1"
    assert offences("dfc/distribute/place/x.py", text) == ["places"]
    assert offences("dfc/ops/x.py", text) == ["place", "Placed", "places"]
