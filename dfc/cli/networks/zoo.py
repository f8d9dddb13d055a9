"""The networks that can be measured, by the names of the guide, and the files they lie in."""

from __future__ import annotations

from pathlib import Path

from dfc.deferred.dataclasses import dataclass

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Network:
    """`file` lies in the zoo; `image` is the side of the images that it is made for, `channels` the fewest of a
    layer."""

    file: str
    image: int = 224
    channels: int = 64


NETWORKS = {
    "alexnet": Network("alexnet.dfg"),
    "googlenet": Network("googlenet.dfg", channels=16),
    "inception3": Network("inception_v3.dfg", 299, 32),
    "overfeat": Network("overfeat.dfg", 231),
    "resnet50": Network("resnet50.dfg"),
    "vgg11": Network("vgg_a.dfg"),
    "vgg16": Network("vgg_16.dfg"),
}


def program_of(network: Network) -> Path:
    """The program of a network."""
    return in_zoo(network.file)


def in_zoo(file: str) -> Path:
    """A file of the zoo, in the repository or in the installed package."""
    folders = (HERE.parents[2] / "samples" / "zoo", HERE.parents[1] / "zoo")
    return next(folder / file for folder in folders if (folder / file).exists())
