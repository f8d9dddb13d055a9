"""The programs of the benchmark compute what NumPy does, and the networks are those of the literature."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import dfc
import dfc_runtime
from bench.cases import CASES, networks
from bench.comparison.results import compare
from bench.peers import dfc_peer, numpy_peer
from bench.peers.prepared import Request
from dfc.driver.api import graph, read

COUNTS = {
    "alexnet": 61_100_840,
    "overfeat": 145_920_872,
    "googlenet": 6_998_552,
    "vgg_a": 132_863_336,
    "resnet50": 25_557_032,
}
COMPARED = [
    "mlp_train", "embed", "eltwise", "softmax", "layernorm", "heat", "matmul", "matmul_nt", "matmul_tn",
    "matmul_batched", "matmul_batched_odd", "lstm", "xf", "attention_1024",
    "solve_batched", "eigh", "svd", "nbody", "fft",
]  # fmt: skip


def request_of(name: str) -> Request:
    case = CASES[name]
    sizes = case.at(is_small=True)
    return Request(case, sizes, case.data(sizes))


@pytest.mark.parametrize("name", COMPARED)
def test_a_program_computes_what_numpy_does(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_here(request: Request) -> tuple[object, dict[str, float]]:
        file = dfc_peer.write_program(request, tmp_path)
        settings = dict(request.case.settings(request.sizes))
        return dfc_runtime.loads(dfc.compile(file, settings=settings).to_bytes(), threads=1), {}

    monkeypatch.setattr(dfc_peer, "compiled", compile_here)
    results: list[list[np.ndarray]] = []
    for module in (dfc_peer, numpy_peer):
        prepare = module.preparation("", CASES[name].kind)
        assert prepare is not None
        results.append([np.array(value) for value in prepare(request_of(name)).results()])
    agreement = compare(*results, CASES[name].tolerance)
    assert agreement.agrees, agreement.reason


@pytest.mark.parametrize("name", COUNTS)
def test_networks_have_as_many_parameters_as_in_the_literature(name: str) -> None:
    """The lists of layers that peers build from; `tests/samples/test_zoo.py` counts those of the programs."""
    layers = networks.network_of(CASES[name].sizes).layers
    assert networks.parameter_count(layers) == COUNTS[name]


@pytest.mark.parametrize("name", ["alexnet", "resnet50", "gpt_2_train", "gpt_2_token"])
def test_state_has_the_names_and_shapes_of_the_program(name: str) -> None:
    """What a run sets is what the program declares."""
    case = CASES[name]
    sizes = case.at(is_small=True)
    declared = declared_state(dfc_peer.PROGRAMS / case.program, case.settings(sizes))
    state = {key: value.shape for key, value in case.data(sizes).state.items()}
    missing = {key for key in declared.keys() - state.keys() if not key.startswith("adam.")}
    assert {key: declared.get(key) for key in state} == state
    assert all(key.endswith((".keys", ".values")) for key in missing), missing


def declared_state(path: Path, settings: Mapping[str, float]) -> dict[str, tuple[int, ...]]:
    resources = graph(read(path), settings).resources
    return {name: tuple(int(str(size)) for size in resource.type.shape) for name, resource in resources.items()}


def test_other_entries_of_a_program_are_left_out() -> None:
    text = "dfg 1\n\nvar a: f32 = 0\n\nentry f() -> (x: f32) {\n  return a\n}\n\nreadonly entry g() {\n  a\n}\n"
    assert dfc_peer.one_entry(text, "g") == "dfg 1\n\nvar a: f32 = 0\n\n\nreadonly entry g() {\n  a\n}\n"
    assert "entry f()" in dfc_peer.one_entry(text, "f") and "entry g()" not in dfc_peer.one_entry(text, "f")


def test_every_program_has_the_entry_of_its_case() -> None:
    for case in CASES.values():
        text = (dfc_peer.PROGRAMS / case.program).read_text(encoding="utf-8")
        assert f"entry {case.entry}[" in text or f"entry {case.entry}(" in text, case.name
