"""No two modules of the targets say of themselves that they are the same thing: what two targets share stands once."""

import ast
from collections import defaultdict
from pathlib import Path

TARGETS = Path(__file__).parents[2] / "targets"


def first_sentence(path: Path) -> str:
    told = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(told.split()).partition(". ")[0].rstrip(".").lower()


def test_every_module_opens_with_a_sentence_of_its_own() -> None:
    opening: dict[str, list[str]] = defaultdict(list)
    for path in sorted(TARGETS.rglob("*.py")):
        opening[first_sentence(path)].append(str(path.relative_to(TARGETS)))
    assert len(opening) > 100 and "" not in opening, opening.get("")
    assert {sentence: paths for sentence, paths in opening.items() if len(paths) > 1} == {}
