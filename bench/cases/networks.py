"""Convolutional networks of the literature as lists of layers, from which each peer builds its own.

Images are laid out as [batch, height, width, channel] and kernels as [height, width, in, out], as in dfc. Layers have
the names of the instances in dfc's programs, `samples/zoo`, so that the same weights go everywhere. Sources: AlexNet,
the one-tower form of Krizhevsky 2014; OverFeat, the fast model of Sermanet and others 2013; VGG-A of Simonyan and
Zisserman 2014; GoogLeNet of Szegedy and others 2014 without its two side exits; ResNet-50 of He and others 2015,
strides on the 3 x 3 convolutions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from bench.cases.case import F32, Case, Data, Sizes, Target, Work, integers, normal, ones, zeros

CLASSES = 1000
ZOO = "../../samples/zoo"


@dataclass(frozen=True, slots=True)
class Conv:
    """A convolution. With `norm` it has no bias and is followed by batch normalisation."""

    name: str
    inputs: int
    outputs: int
    size: int
    stride: int = 1
    pad: int = 0
    norm: bool = False
    relu: bool = True


@dataclass(frozen=True, slots=True)
class Pool:
    size: int
    stride: int
    pad: int = 0


@dataclass(frozen=True, slots=True)
class Inception:
    """Four branches side by side, joined along the channels: 1; 1 then 3; 1 then 5; pool then 1."""

    branches: tuple[tuple[Conv, ...], ...]


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """Three convolutions around which the input goes, through a projection where the shape changes."""

    path: tuple[Conv, ...]
    projection: Conv | None


@dataclass(frozen=True, slots=True)
class Average:
    """The mean of each channel; the result has no places any more."""


@dataclass(frozen=True, slots=True)
class Flatten:
    pass


@dataclass(frozen=True, slots=True)
class Dense:
    name: str
    inputs: int
    outputs: int
    relu: bool


Layer = Conv | Pool | Inception | Bottleneck | Average | Flatten | Dense
EPSILON, MOMENTUM, RATE = 1e-5, 0.1, 1e-4
"""Of batch normalisation, and of the training step."""


class Builder:
    """Adds layer after layer and keeps count of the shape and of the operations."""

    def __init__(self, image: int, narrow: int) -> None:
        self.layers: list[Layer] = []
        self.side, self.channels, self.flops = image, 3, 0.0
        self.narrow = narrow

    def conv(self, name: str, outputs: int, size: int, stride: int = 1, pad: int = 0) -> None:
        self.layers.append(self._conv(name, outputs // self.narrow, size, stride, pad))

    def _conv(
        self, name: str, outputs: int, size: int, stride: int = 1, pad: int = 0, norm: bool = False, relu: bool = True
    ) -> Conv:
        layer = Conv(name, self.channels, outputs, size, stride, pad, norm, relu)
        self.side, self.channels = (self.side + 2 * pad - size) // stride + 1, outputs
        self.flops += 2.0 * self.side**2 * layer.inputs * outputs * size**2
        return layer

    def pool(self, size: int, stride: int, pad: int = 0) -> None:
        self.layers.append(Pool(size, stride, pad))
        self.side = (self.side + 2 * pad - size) // stride + 1

    def inception(self, name: str, *outputs: int) -> None:
        """Channels of the paper's table: 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, pool proj."""
        one, reduce3, three, reduce5, five, pooled = (count // self.narrow for count in outputs)
        inputs, branches = self.channels, []
        for parts in (
            [("one", one, 1, 0)],
            [("reduce3", reduce3, 1, 0), ("three", three, 3, 1)],
            [("reduce5", reduce5, 1, 0), ("five", five, 5, 2)],
            [("pooled", pooled, 1, 0)],
        ):
            self.channels = inputs
            branches.append(tuple(self._conv(f"{name}.{part}", n, size, 1, pad) for part, n, size, pad in parts))
        self.channels = one + three + five + pooled
        self.layers.append(Inception(tuple(branches)))

    def bottleneck(self, name: str, width: int, stride: int) -> None:
        width //= self.narrow
        inputs, side = self.channels, self.side
        path = (
            self._conv(f"{name}.reduce", width, 1, norm=True),
            self._conv(f"{name}.middle", width, 3, stride, 1, norm=True),
            self._conv(f"{name}.expand", 4 * width, 1, norm=True, relu=False),
        )
        projection = None
        if inputs != 4 * width:
            self.channels, self.side = inputs, side
            projection = self._conv(f"{name}.project", 4 * width, 1, stride, norm=True, relu=False)
        self.layers.append(Bottleneck(path, projection))

    def flatten(self) -> None:
        self.layers.append(Flatten())
        self.channels, self.side = self.channels * self.side**2, 1

    def average(self) -> None:
        self.layers.append(Average())
        self.side = 1

    def dense(self, name: str, outputs: int, relu: bool = True) -> None:
        self.layers.append(Dense(name, self.channels, outputs, relu))
        self.flops += 2.0 * self.channels * outputs
        self.channels = outputs


def alexnet(b: Builder) -> None:
    b.conv("conv1", 64, 11, 4, 2)
    b.pool(3, 2)
    b.conv("conv2", 192, 5, 1, 2)
    b.pool(3, 2)
    for number, channels in ((3, 384), (4, 256), (5, 256)):
        b.conv(f"conv{number}", channels, 3, 1, 1)
    b.pool(3, 2)
    _head(b, 4096, 4096)


def overfeat(b: Builder) -> None:
    b.conv("conv1", 96, 11, 4)
    b.pool(2, 2)
    b.conv("conv2", 256, 5)
    b.pool(2, 2)
    for number, channels in ((3, 512), (4, 1024), (5, 1024)):
        b.conv(f"conv{number}", channels, 3, 1, 1)
    b.pool(2, 2)
    _head(b, 3072, 4096)


def vgg_a(b: Builder) -> None:
    number = 0
    for channels, count in ((64, 1), (128, 1), (256, 2), (512, 2), (512, 2)):
        for _ in range(count):
            number += 1
            b.conv(f"conv{number}", channels, 3, 1, 1)
        b.pool(2, 2)
    _head(b, 4096, 4096)


def _head(b: Builder, first: int, second: int) -> None:
    b.flatten()
    b.dense("dense1", first // b.narrow)
    b.dense("dense2", second // b.narrow)
    b.dense("dense3", CLASSES, relu=False)


def googlenet(b: Builder) -> None:
    b.conv("conv1", 64, 7, 2, 3)
    b.pool(3, 2, 1)
    b.conv("conv2", 64, 1)
    b.conv("conv3", 192, 3, 1, 1)
    b.pool(3, 2, 1)
    b.inception("inception3a", 64, 96, 128, 16, 32, 32)
    b.inception("inception3b", 128, 128, 192, 32, 96, 64)
    b.pool(3, 2, 1)
    b.inception("inception4a", 192, 96, 208, 16, 48, 64)
    b.inception("inception4b", 160, 112, 224, 24, 64, 64)
    b.inception("inception4c", 128, 128, 256, 24, 64, 64)
    b.inception("inception4d", 112, 144, 288, 32, 64, 64)
    b.inception("inception4e", 256, 160, 320, 32, 128, 128)
    b.pool(3, 2, 1)
    b.inception("inception5a", 256, 160, 320, 32, 128, 128)
    b.inception("inception5b", 384, 192, 384, 48, 128, 128)
    b.average()
    b.dense("dense", CLASSES, relu=False)


def resnet50(b: Builder) -> None:
    b.layers.append(b._conv("conv1", 64 // b.narrow, 7, 2, 3, norm=True))
    b.pool(3, 2, 1)
    for stage, (width, count) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), 2):
        for number in range(count):
            b.bottleneck(f"stage{stage}_{number + 1}", width, 2 if number == 0 and stage > 2 else 1)
    b.average()
    b.dense("dense", CLASSES, relu=False)


NETWORKS: dict[str, Callable[[Builder], None]] = {
    "alexnet": alexnet,
    "overfeat": overfeat,
    "googlenet": googlenet,
    "vgg_a": vgg_a,
    "resnet50": resnet50,
}
IMAGES = {"alexnet": 224, "overfeat": 231, "googlenet": 224, "vgg_a": 224, "resnet50": 224}
BATCHES = {"alexnet": 16, "overfeat": 16, "googlenet": 16, "vgg_a": 8, "resnet50": 16}


def build(name: str, image: int, narrow: int) -> Builder:
    """A network for images of one side, with channels divided by `narrow`."""
    builder = Builder(image, narrow)
    NETWORKS[name](builder)
    return builder


def convolutions(layers: list[Layer]) -> Iterator[Conv]:
    for layer in layers:
        match layer:
            case Conv():
                yield layer
            case Inception(branches):
                for branch in branches:
                    yield from branch
            case Bottleneck(path, projection):
                yield from path
                if projection:
                    yield projection
            case _:
                pass


def state_of(layers: list[Layer]) -> dict[str, F32]:
    """Weights that keep the size of what goes through (He and others 2015), statistics as of normal images."""
    state: dict[str, F32] = {}
    for conv in convolutions(layers):
        name, shape = conv.name, (conv.size, conv.size, conv.inputs, conv.outputs)
        scale = (2 / (conv.inputs * conv.size**2)) ** 0.5
        state[f"{name}.kernel"] = normal(f"{name}.kernel", *shape, scale=scale)
        if conv.norm:
            state[f"{name}.scale"] = ones(conv.outputs) * np.float32(1 if conv.relu else 0.25)
            state[f"{name}.shift"] = zeros(conv.outputs)
            state[f"{name}.running_mean"] = normal(f"{name}.running_mean", conv.outputs, scale=0.05)
            state[f"{name}.running_variance"] = np.abs(normal(f"{name}.running_variance", conv.outputs)) + 1
        else:
            state[f"{name}.b"] = zeros(conv.outputs)
    for layer in layers:
        if isinstance(layer, Dense):
            name, scale = layer.name, (2 / layer.inputs) ** 0.5
            state[f"{name}.w"] = normal(f"{name}.w", layer.inputs, layer.outputs, scale=scale)
            state[f"{name}.b"] = zeros(layer.outputs)
    return state


def parameter_count(layers: list[Layer]) -> int:
    """Of what is trained: a kernel with its bias, or with the scale and shift of its norm; dense layers."""
    kernels = sum(c.outputs * (c.inputs * c.size**2 + (2 if c.norm else 1)) for c in convolutions(layers))
    return kernels + sum(d.outputs * (d.inputs + 1) for d in layers if isinstance(d, Dense))


def network_of(sizes: Sizes) -> Builder:
    """The layers of a case."""
    return build(list(NETWORKS)[sizes["network"]], sizes["image"], sizes["narrow"])


def _infer_data(sizes: Sizes) -> Data:
    image = sizes["image"]
    return Data({"x": normal("x", sizes["batch"], image, image, 3)}, state_of(network_of(sizes).layers))


def _train_data(sizes: Sizes) -> Data:
    data = _infer_data(sizes)
    return Data({**data.feeds, "labels": integers("labels", CLASSES, sizes["batch"])}, data.state)


def _settings(sizes: Sizes) -> dict[str, float]:
    return {"IMAGE": sizes["image"], "NARROW": sizes["narrow"], "RATE": RATE}


def _cases(number: int, name: str) -> Iterator[Case]:
    sizes = {"network": number, "image": IMAGES[name], "batch": BATCHES[name], "narrow": 1}
    small = {"image": {"overfeat": 79, "resnet50": 96}.get(name, 64), "batch": 2, "narrow": 8}
    if name == "resnet50":
        small["batch"] = 4  # batch normalisation of a few elements would amplify rounding beyond any bound

    def work(sizes: Sizes, times: int) -> Work:
        return Work(flops=times * network_of(sizes).flops * sizes["batch"])

    ratio = 1.3 if name in ("vgg_a", "overfeat") else 1.05
    seconds = 8.0 if name == "resnet50" else None
    program = f"{ZOO}/{name}.dfg"
    yield Case(
        name, "network", program, "infer", sizes, small, _infer_data, lambda sizes: work(sizes, 1), "fma",
        Target(ratio, 0.85, seconds), 1e-3, _settings,
    )  # fmt: skip
    yield Case(
        f"{name}_train", "network_train", program, "train", sizes, small, _train_data, lambda sizes: work(sizes, 3),
        "fma", Target(1.2, 0.75, seconds), 1e-2, _settings,
    )  # fmt: skip


CONVOLUTIONAL = [case for number, name in enumerate(NETWORKS) for case in _cases(number, name)]
