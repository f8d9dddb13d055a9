"""Programs with a few words changed: each gives messages, or a graph that is well formed and survives printing."""

from __future__ import annotations

import random
import re

import pytest

from dfc.diagnostics.diagnostic import CompileError, render
from dfc.diagnostics.source import SourceFile
from dfc.elaborate.build import build, check
from dfc.ir.equality import difference
from dfc.ir.names import KEYWORDS
from dfc.ir.verify import verify
from dfc.ops.check import check_node
from dfc.ops.spelling import show
from tests.support.corpus import CORPUS
from tests.support.sweeping import few

WORD = re.compile(r'"[^"\n]*"|[A-Za-z_]\w*|\d[\w.]*|\s+|[^\w\s]')
NUMBERS = ("0", "1", "2", "-1", "3", "0.5", "1e30", "99999999999999999999", "N", '"x"')
SIGNS = ("+", "-", "*", "/", "//", "@", "%", "**", "<", "==", "and", "or", ",", "|>", ":=", "+=")
TEXTS = [path.read_text() for path in CORPUS if not path.name.startswith(("07", "09"))]


def mutant(seed: int) -> str:
    rng = random.Random(seed)
    words = WORD.findall(rng.choice(TEXTS))
    names = [word for word in words if word[0].isalpha() and word not in KEYWORDS]
    places = [n for n, word in enumerate(words) if not word.isspace() and word not in KEYWORDS]
    for _ in range(rng.choice((1, 1, 2, 3))):
        place = rng.choice(places)
        word = words[place]
        if word[0].isalpha():
            words[place] = rng.choice(names)
        elif word[0].isdigit():
            words[place] = rng.choice(NUMBERS)
        elif word in "+-*/@%":
            words[place] = rng.choice(SIGNS)
    return "".join(words)


@pytest.mark.parametrize("seed", few(range(20), 3))
def test_mutants_are_refused_in_words_or_well_formed(seed: int) -> None:
    for number in few(range(10), 5):
        source = SourceFile("samples/language/mutant.dfg", mutant(10 * seed + number))
        found = check(source)
        assert all(render(diagnostic).isascii() for diagnostic in found)
        try:
            graph = build(source)
        except CompileError:
            assert any(diagnostic.is_error for diagnostic in found)
            continue
        verify(graph, check_node)
        assert difference(graph, build(SourceFile("printed.dfg", show(graph)))) is None
