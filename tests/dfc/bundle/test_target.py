"""Targets as they are found: one that lacks a package says which extra brings it."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points

import pytest

from dfc.bundle import target
from dfc.bundle.target import INCOMPLETE, installed_targets, load_target
from dfc_runtime.errors import UnsupportedError
from tests.support.command_line import Command, command

dfc = pytest.fixture(name="dfc")(command)


@pytest.fixture
def without_its_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a plain installation, which has no dfc-driver-cuda."""
    for name in [name for name in sys.modules if name.startswith(("dfc_target_cuda", "dfc_driver_cuda"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dfc_driver_cuda", None)


@pytest.mark.usefixtures("without_its_driver")
def test_a_target_without_its_packages_names_the_extra() -> None:
    with pytest.raises(UnsupportedError, match=r"needs the package dfc_driver_cuda.*: pip install 'dfc\[cuda\]'$") as e:
        load_target("cuda")
    assert e.value.code == INCOMPLETE


@pytest.mark.usefixtures("without_its_driver")
def test_the_list_of_ops_has_no_column_for_it(dfc: Command) -> None:
    assert dfc("ops").out.splitlines()[-1].count("; cpu: where it runs;") == 1


def test_all_targets_that_are_installed_load() -> None:
    assert installed_targets() == ["cpu", "cuda"]
    assert [load_target(name).name for name in installed_targets()] == ["cpu", "cuda"]


def test_a_target_that_two_packages_offer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    (point,) = (each for each in entry_points(group="dfc.targets") if each.name == "cpu")
    monkeypatch.setattr(target, "entry_points", lambda group: [point, point])
    with pytest.raises(UnsupportedError, match="more than once"):
        load_target("cpu")
