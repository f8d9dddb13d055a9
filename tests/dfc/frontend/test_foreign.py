"""Names that are known elsewhere."""

from __future__ import annotations

import re

import pytest

from dfc.frontend.foreign import FOREIGN_NAMES, known_elsewhere
from dfc.ops import registry
from tests.support.building import codes, messages


@pytest.mark.parametrize("name", FOREIGN_NAMES)
def test_a_foreign_name_has_a_remedy(name: str) -> None:
    told = messages(f"entry f(x: f32[3]) -> f32 {{\n  let y = {name}(x)\n  return x[0]\n}}\n")
    assert "error[E0201]" in told
    assert f"= help: {FOREIGN_NAMES[name]}" in told


@pytest.mark.parametrize("name", FOREIGN_NAMES)
def test_the_functions_of_a_remedy_exist(name: str) -> None:
    written = re.findall(r"`(\w+)\(", FOREIGN_NAMES[name])
    prelude = {record.name for record in registry.all_records() if record.in_prelude}
    assert set(written) <= prelude | {"debug"}


@pytest.mark.parametrize(("use", "module"), [("softplus(x)", "std.activations"), ("mse(x, x)", "std.losses")])
def test_a_name_of_the_library_says_where_it_is(use: str, module: str) -> None:
    text = f"entry f(x: f32[3]) -> f32 {{\n  let y = {use}\n  return sum(y)\n}}\n"
    name = use.split("(")[0]
    assert f"= help: write `from {module} import {name}` at the top of the file" in messages(text)
    assert codes(f"from {module} import {name}\n{text}") == []


def test_what_nobody_knows_is_not_explained() -> None:
    assert known_elsewhere("frobnicate") == ""


def test_where_of_numpy_is_select() -> None:
    told = messages("fn f(x: f32[3]) -> f32[3] = where(x > 0, x, 0)\n")
    assert "`where` is a keyword" in told
    assert "= help: to choose element by element, write `select(mask, a, b)`" in told
