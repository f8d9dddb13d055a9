"""Every sample as device code on a simulated device, with its graphs, copies and state: the processor's numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dfc_runtime
from dfc.driver.api import compile_source
from dfc.ir.options import TargetOptions
from dfc_target_cuda.target import SIMULATOR
from tests.support.distributed_samples import ALL, Outcome, Program, Sample, alone, floats, observed, whole
from tests.support.simulated_runtime import simulated_devices
from tests.support.sweeping import few

SMALL, LABELS = floats(3, 8, 8, 1), whole(10, 3)
LETTERS, NUMBERS = whole(27, 2, 4), whole(10, 1, 6)
TARGET = floats(6)


def few_pixels(program: Program) -> list[object]:
    images = SMALL.reshape(3, 64)
    return [program.train(images=images, labels=LABELS, rate=0.1), program.predict(images=images)]


def small_figure(program: Program) -> list[object]:
    return [program.train(SMALL.reshape(3, 64), LABELS) for _ in range(2)]


def one_small_layer(program: Program) -> list[object]:
    x = SMALL[0].reshape(64)
    steps = [program.train(x=x, target=TARGET, rate=0.001) for _ in range(2)]
    return [*steps, program.apply(x=x)]


def few_signs(program: Program) -> list[object]:
    images = SMALL.reshape(3, 64)
    steps = [program.train(images=images, labels=LABELS, rate=0.01) for _ in range(2)]
    return [*steps, program.evaluate(images=images, labels=LABELS)]


def few_words(program: Program) -> list[object]:
    tokens, targets = LETTERS.T[:2].copy(), LETTERS.T[1:3].copy()
    steps = [program.train(tokens=tokens, targets=targets) for _ in range(2)]
    return [*steps, program.generate(first=2, temperature=1.0, N=2)]


def few_windows(program: Program) -> list[object]:
    return [program.train(images=SMALL, labels=LABELS), program.evaluate(images=SMALL, labels=LABELS)]


def few_images(program: Program) -> list[object]:
    images = SMALL.reshape(3, 64)
    step = program.train(images=images, labels=LABELS, steps=20)
    return [step, program.evaluate(images=images, labels=LABELS)]


def few_letters(program: Program) -> list[object]:
    return [program.train(text=LETTERS, following=LETTERS), program.write(first=3, N=3)]


def few_steps(program: Program) -> list[object]:
    return [program.train(steps=1, B=2), program.sort_(x=NUMBERS[:, :3] % 4)]


SMALLER = {
    "01_mlp_digits": Sample("language/01_mlp_digits.dfg", few_pixels, {"28 * 28": "64", "HIDDEN = 128": "HIDDEN = 6"}),
    "02_convnet_batchnorm": Sample(
        "language/02_convnet_batchnorm.dfg",
        few_windows,
        {
            "Conv2d[1, 32](size = 5)": "Conv2d[1, 2](size = 3)",
            "Norm[32]": "Norm[2]",
            "Conv2d[32, 64](size = 5)": "Conv2d[2, 3](size = 3)",
            "Norm[64]": "Norm[3]",
            "7 * 7 * 64": "2 * 2 * 3",
            "28, 28": "8, 8",
            "512": "8",
        },
        near=1e-2,
    ),
    "03_lstm_language_model": Sample(
        "language/03_lstm_language_model.dfg",
        few_words,
        {"VOCABULARY = 10_000": "VOCABULARY = 30", "WIDTH = 650": "WIDTH = 4", "BATCH = 20": "BATCH = 2"},
    ),
    "convnet": Sample("convnet.dfg", few_images, settings={"CHANNELS": 2}, near=1e-2),
    "digits": Sample("digits.dfg", few_pixels, settings={"HIDDEN": 6}),
    "lstm": Sample("lstm.dfg", few_letters, {"LETTERS, 16": "LETTERS, 6", "[16,": "[6,"}, {"WIDTH": 4}, near=1e-4),
    "osdi_figure_1_corrected": Sample(
        "figures/osdi_figure_1_corrected.dfg", small_figure, {"784": "64", "100": "6"}, near=1e-4
    ),
    "sign_sgd": Sample("sign_sgd.dfg", few_signs, {"Dense[PIXELS, 64]": "Dense[PIXELS, 6]", "Dense[64,": "Dense[6,"}),
    "transformer": Sample(
        "transformer.dfg",
        few_steps,
        {
            "WIDTH = 32": "WIDTH = 4",
            "HEADS = 4": "HEADS = 2",
            "HEADS, 64": "HEADS, 6",
            "var second = Encoder[WIDTH, HEADS, 6]()\n": "",
            " |> second": "",
        },
        settings={"NUMBERS": 4, "PLACES": 3},
    ),
    "white_paper_figure_1_corrected": Sample(
        "figures/white_paper_figure_1_corrected.dfg", one_small_layer, {"784": "64", "100": "6"}
    ),
}
"""For samples that are large as they are: a lane of a simulated device takes microseconds for an instruction."""


@pytest.mark.parametrize("name", few(sorted(ALL), 5))
def test_a_sample_gives_what_it_gives_on_the_processor(name: str) -> None:
    sample = SMALLER.get(name, ALL[name])
    expected = on_processor(sample) if name in SMALLER else alone(name)
    found = on_device(sample)
    pairs = [*zip(found.results, expected.results, strict=True)]
    pairs += [(found.state[each], value) for each, value in expected.state.items()]
    for one, other in pairs:
        assert one.dtype == other.dtype
        largest = float(np.max(np.abs(other.astype(np.float64)), initial=0.1))
        np.testing.assert_allclose(one, other, rtol=0, atol=sample.near * largest)


def on_processor(sample: Sample) -> Outcome:
    return observed(sample, dfc_runtime.loads(compile_source(sample.source, sample.options).to_bytes(), threads=1))


def on_device(sample: Sample) -> Outcome:
    options = replace(sample.options, target="cuda", target_options=TargetOptions((SIMULATOR,)))
    data = compile_source(sample.source, options).to_bytes()
    with simulated_devices():
        return observed(sample, dfc_runtime.loads(data))
