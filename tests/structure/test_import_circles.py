"""Modules import each other in one direction: no module reaches itself through its imports, hidden ones included."""

from __future__ import annotations

import pytest

from tests.support.module_graph import PACKAGES, circles, import_graph, imports_of, modules


def test_no_module_reaches_itself() -> None:
    assert [" <-> ".join(group) for group in circles(import_graph())] == []


def test_all_packages_are_looked_at() -> None:
    graph = import_graph()
    assert {name.split(".")[0] for name in graph} == set(PACKAGES)
    assert "dfc_runtime.one_rank" in graph["dfc_runtime.loading"]
    assert sum(map(len, graph.values())) > 3 * len(graph) > 1000


HIDDEN = """
from typing import TYPE_CHECKING
import a.top
if TYPE_CHECKING:
    from a import typed
def f():
    from a.late import g
    import elsewhere
"""


def test_imports_are_found_wherever_they_stand() -> None:
    known = dict.fromkeys(["a", "a.top", "a.typed", "a.late", "a.self"])
    assert imports_of("a.self", HIDDEN, known) == {"a.top", "a.typed", "a.late"}


@pytest.mark.parametrize(
    ("edges", "groups"),
    [
        ("ab bc", []),
        ("ab ba", [["a", "b"]]),
        ("ab bc ca", [["a", "b", "c"]]),
        ("ab ba bc cd dc", [["c", "d"], ["a", "b"]]),
        ("ab ac bd cd", []),
        ("ab bc cb ca de ed", [["a", "b", "c"], ["d", "e"]]),
    ],
)
def test_circles_are_found(edges: str, groups: list[list[str]]) -> None:
    names = sorted({*edges} - {" "})
    graph = {name: frozenset(edge[1] for edge in edges.split() if edge[0] == name) for name in names}
    assert list(circles(graph)) == groups


def test_the_root_of_the_compiler_holds_its_doors_only() -> None:
    packages = {name for name, path in modules().items() if path.name == "__init__.py"}
    loose = {name for name in modules() if name.count(".") == 1 and name.startswith("dfc.")} - packages
    assert loose == {"dfc.__main__", "dfc.version"}
