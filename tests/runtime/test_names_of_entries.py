"""Entries that are called like something that a loaded program has."""

from __future__ import annotations

from pathlib import Path

import dfc_runtime
from dfc_runtime import Module
from tests.support.bundles import Sketch, entry
from tests.support.natives import program


def test_an_entry_hides_a_method_of_its_name(tmp_path: Path) -> None:
    model = dfc_runtime.loads(program().to_bytes())
    model.save(path=tmp_path / "there")
    model.state["count"] = 9
    model.restore(tmp_path / "there")
    assert model.state["count"] == 0
    assert Module.save(model, tmp_path / "there").name == "step-2"


def test_an_entry_hides_nothing_that_a_module_works_with() -> None:
    names = ("state", "entries", "name", "_close", "_saver", "close")
    model = dfc_runtime.loads(Sketch([(entry(name, {}), "nothing") for name in names]).to_bytes())
    assert [each.name for each in model.entries.values()] == [*names]
    model.close()
    assert not model.state.is_closed, "an entry was called"
    Module.close(model)
    assert model.state.is_closed
