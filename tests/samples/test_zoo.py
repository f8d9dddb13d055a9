"""The networks of `samples/zoo`: as many parameters as in the literature at full size, and narrow ones learn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import dfc as compiler
import dfc_runtime
from dfc.driver import api
from dfc.syntax.reader.reading import read_source
from tests.support.command_line import Command, command
from tests.support.corpus import ROOT
from tests.support.sweeping import few

ZOO = ROOT / "samples" / "zoo"
CLASSES = 4


@dataclass(frozen=True, slots=True)
class Network:
    """`parameters` as published; the smallest image that it takes; how many steps until it knows a batch, with channels
    divided by `narrow`."""

    parameters: int
    image: int
    steps: int = 60
    narrow: int = 16


NETWORKS = {
    "overfeat": Network(145_920_872, 71, narrow=32),  # "145 million", table 4 of Sermanet and others 2013
    "resnet50": Network(25_557_032, 32),  # torchvision
    "googlenet": Network(6_998_552, 32, 200),  # Szegedy and others 2014 without side exits, with biases
    "vgg_a": Network(132_863_336, 32),  # "133 million", table 2 of Simonyan and Zisserman 2014; torchvision
    "alexnet": Network(61_100_840, 63),  # one tower; torchvision
    "vgg_16": Network(138_357_544, 32),  # "138 million", the same table; torchvision
    "inception_v3": Network(23_834_568, 75),  # torchvision without the side exit
}
"""The first one is the cheapest to compile."""


@pytest.fixture
def dfc(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return command(monkeypatch, capsys)


def test_no_network_is_forgotten() -> None:
    others = {"layers", "inception_layers", "distortions"}
    assert {path.stem for path in ZOO.glob("*.dfg")} - others == set(NETWORKS)


@pytest.mark.parametrize("name", few(NETWORKS, 4))
def test_the_full_network_has_as_many_parameters_as_in_the_literature(name: str, dfc: Command) -> None:
    ended = dfc("params", ZOO / f"{name}.dfg")
    (total,) = [line.split()[2] for line in ended.out.splitlines() if line.startswith("trained, total")]
    assert total == f"{NETWORKS[name].parameters:,}"


@pytest.mark.parametrize("path", few(sorted(ZOO.glob("*.dfg"), reverse=True), 3), ids=lambda path: path.stem)
def test_a_file_is_checked_without_a_remark(path: Path) -> None:
    assert api.check(read_source(path), {}) == []


@pytest.mark.parametrize("name", few(NETWORKS, 1))
def test_a_narrow_network_learns_a_batch_by_heart(name: str) -> None:
    network, rng = NETWORKS[name], np.random.default_rng(0)
    side = network.image
    settings = {"IMAGE": side, "NARROW": network.narrow, "CLASSES": CLASSES, "RATE": 0.02}
    model = dfc_runtime.loads(compiler.compile(ZOO / f"{name}.dfg", settings=settings).to_bytes(), threads=1)
    x = rng.standard_normal((8, side, side, 3), dtype=np.float32)
    labels = np.arange(8, dtype=np.int32) % CLASSES
    losses = [model.train(x=x, labels=labels).loss for _ in range(network.steps)]
    assert np.mean(losses[-5:]) < 0.3 * losses[0]
    scores = model.infer(x=x).scores
    assert scores.shape == (8, CLASSES)
    assert (scores.argmax(1) == labels).all()
