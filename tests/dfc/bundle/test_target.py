"""Targets: one that lacks a package says which extra brings it; code is generated, then linked."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint

import pytest

from dfc.bundle import target
from dfc.bundle.target import INCOMPLETE, Lowered, generate, installed_targets, load_target, preparing
from dfc.ir.options import TargetOptions
from dfc.kernels.program import Program
from dfc.lower.program import lower_graph
from dfc_runtime.errors import UnsupportedError
from tests.support.building import graph_of
from tests.support.command_line import Command, command

TEXT = """dfg 1
entry e[B](x: f32[B]) -> f32[B] { return exp(x) }
"""


class AtOnce:
    """Of another package, from before there was a step between."""

    name = "at_once"

    def lower(self, program: Program, options: TargetOptions) -> Lowered:
        return Lowered("at_once", (), program.name.encode(), (), {}, ("what it made",))


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


def test_a_target_that_is_installed_later_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    (point,) = (each for each in target.offered() if each.name == "cpu")
    later = EntryPoint("later", point.value, point.group)
    with pytest.raises(UnsupportedError, match="no target 'later'"):
        load_target("later")
    monkeypatch.setattr(target, "entry_points", lambda group: (later,))
    try:
        assert load_target("later").name == "cpu"
        assert installed_targets() == ["later"]
    finally:
        target.offered.cache_clear()


def test_a_target_that_two_packages_offer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    (point,) = (each for each in target.offered() if each.name == "cpu")
    monkeypatch.setattr(target, "offered", lambda: (point, point))
    with pytest.raises(UnsupportedError, match="more than once"):
        load_target("cpu")


@pytest.mark.parametrize(("name", "variant", "word"), [("cpu", "x86-64-v3", "define"), ("cuda", "simulator", "def ")])
def test_what_is_generated_is_text_and_links_to_what_lower_gives(name: str, variant: str, word: str) -> None:
    program = lower_graph(graph_of(TEXT))
    target = load_target(name)
    generated = generate(target, program, TargetOptions((variant,)))
    assert word in generated.text()
    assert generated.link() == target.lower(program, TargetOptions((variant,)))


def test_a_target_that_only_lowers_is_generated_and_linked_at_once() -> None:
    generated = generate(AtOnce(), Program("p"), TargetOptions())
    assert generated.text() == "what it made"
    assert generated.link().constants == b"p"


class Slow(AtOnce):
    """Has something to get ready."""

    def __init__(self, log: list[str]) -> None:
        self._log = log

    @contextmanager
    def prepare(self, program: str, options: TargetOptions) -> Iterator[None]:
        self._log.append(f"{program} {options.isas}")
        try:
            yield
        finally:
            self._log.append("done")


def test_a_target_gets_ready_while_a_program_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    monkeypatch.setattr(target, "load_target", lambda _: Slow(log))
    with pytest.raises(KeyError), preparing("slow", "a text", TargetOptions(("sm_80",))):
        log.append("read")
        raise KeyError
    assert log == ["a text ('sm_80',)", "read", "done"]


def test_a_target_that_is_not_there_is_told_of_where_it_is_asked_for_code() -> None:
    with preparing("no_such_target", "", TargetOptions()), preparing("cpu", "", TargetOptions()):
        pass
    with preparing("cuda", "", TargetOptions(("no_such_variant",))):
        pass
