"""dfc. Programs are compiled into bundles in memory and loaded through the public API."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import dfc
from bench import inputs

PROGRAMS = Path(__file__).resolve().parent.parent / "programs"
Call = Callable[[], object]


def program(name: str) -> dfc.Module:
    return dfc.loads(dfc.compile(PROGRAMS / f"{name}.dfg").to_bytes())


def null() -> Call:
    entry = program("cases").null
    return lambda: entry(1.0, 2.0)


def mlp_b1() -> Call:
    entry, images = program("mlp").predict, inputs.normal(1, inputs.PIXELS)
    return lambda: entry(images)


def mlp_b32() -> Call:
    entry, images = program("mlp").predict, inputs.normal(32, inputs.PIXELS)
    return lambda: entry(images)


def mlp_train() -> Call:
    entry = program("mlp").train
    images, labels = inputs.digits()
    return lambda: entry(images, labels)


def loop() -> Call:
    entry = program("cases").loop_scalar
    return lambda: entry(1.0)


def eltwise() -> Call:
    entry, x = program("cases").eltwise, inputs.normal(inputs.ELEMENTS)
    return lambda: entry(x)


def softmax() -> Call:
    entry, x = program("cases").softmax_rows, inputs.normal(inputs.ROWS, inputs.COLUMNS)
    return lambda: entry(x)


def layernorm() -> Call:
    entry, x = program("cases").layernorm_rows, inputs.normal(inputs.ROWS, inputs.COLUMNS)
    return lambda: entry(x)


def matmul() -> Call:
    entry = program("cases").product
    a, b = inputs.normal(inputs.PRODUCT, inputs.PRODUCT), inputs.normal(inputs.PRODUCT, inputs.PRODUCT, seed=1)
    return lambda: entry(a, b)


def heat() -> Call:
    model = program("heat")
    model.state["plate"] = inputs.normal(inputs.PLATE, inputs.PLATE)
    return lambda: model.advance(inputs.PLATE_STEPS)
