"""Memory of variables: what comes together lies together, what is known stays where it is."""

from __future__ import annotations

from dfc_runtime.calls.memory import ALIGNMENT, address_of
from dfc_runtime.formats.manifest import DEFAULT_CONTAINER, SourceLocation, StateEntry
from dfc_runtime.state.containers import container


def variable(name: str, *shape: int) -> StateEntry:
    where = SourceLocation("here.dfg", 1, 1)
    return StateEntry(name, "variable", "f32", shape, True, DEFAULT_CONTAINER, True, "", where)


def test_variables_of_a_program_lie_behind_each_other() -> None:
    arrays = container(DEFAULT_CONTAINER).arrays([variable("a", 3), variable("b", 5, 7), variable("c")])
    a, b, c = (address_of(arrays[name]) for name in "abc")
    assert (b - a, c - b) == (ALIGNMENT, 3 * ALIGNMENT)


def test_what_another_program_has_brought_keeps_its_memory() -> None:
    shared = container(DEFAULT_CONTAINER)
    first = shared.arrays([variable("a", 3)])
    second = shared.arrays([variable("b", 2), variable("a", 3)])
    assert second["a"] is first["a"]
    assert list(second) == ["b", "a"]
