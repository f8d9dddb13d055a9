"""The sample programs as they are run on many ranks: small sizes, and one run of each that touches all of its state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

import numpy as np

import dfc_runtime
from dfc.diagnostics.source import SourceFile
from dfc.driver.api import compile_source
from dfc.ir.options import CompileOptions
from tests.support.clusters import on_cluster
from tests.support.corpus import ROOT

SAMPLES = ROOT / "samples"


class Program(Protocol):
    """A loaded program, on one rank or many."""

    state: Mapping[str, np.ndarray]

    def __getattr__(self, name: str) -> Callable[..., object]: ...


@dataclass(frozen=True)
class Sample:
    """`path` below the samples; `run` calls entries of a loaded program and gives their results. `smaller` are texts to
    replace. `split` are the entries to replicate, with the size to cut; `tables` is state to be divided by rows. `near`
    is how far numbers may be from those of the undivided program after either, in parts of the largest one of each
    array: Adam makes much of small gradients."""

    path: str
    run: Callable[[Program], list[object]]
    smaller: Mapping[str, str] = field(default_factory=dict[str, str])
    settings: Mapping[str, int] = field(default_factory=dict[str, int])
    split: Mapping[str, str] = field(default_factory=dict[str, str])
    tables: tuple[str, ...] = ()
    near: float = 1e-5

    @property
    def text(self) -> str:
        text = (SAMPLES / self.path).read_text()
        for old, new in self.smaller.items():
            assert old in text, old
            text = text.replace(old, new)
        return text

    @property
    def source(self) -> SourceFile:
        return SourceFile(str(SAMPLES / self.path), self.text)

    @property
    def options(self) -> CompileOptions:
        return CompileOptions(settings=tuple(sorted(self.settings.items())))


RANDOM = np.random.default_rng(5)


def floats(*shape: int) -> np.ndarray:
    return RANDOM.random(shape, np.float32)


def whole(high: int, *shape: int) -> np.ndarray:
    return RANDOM.integers(0, high, shape, np.int32)


IMAGES, LABELS = floats(16, 64), whole(10, 16)
LARGE = floats(8, 28, 28, 1)
POINTS = RANDOM.normal(size=(24, 3))
TEXT = whole(27, 8, 6)
WORDS = floats(8, 5, 16)
TARGET = floats(100)


def digits(program: Program) -> list[object]:
    steps = [program.train(images=IMAGES, labels=LABELS, rate=0.3) for _ in range(2)]
    return [*steps, program.evaluate(images=IMAGES, labels=LABELS), program.predict(images=IMAGES[:8])]


def mlp(program: Program) -> list[object]:
    images = LARGE.reshape(8, 784)
    steps = [program.train(images=images, labels=LABELS[:8], rate=0.1) for _ in range(2)]
    return [*steps, program.predict(images=images)]


def convnet(program: Program) -> list[object]:
    steps = [program.train(images=IMAGES, labels=LABELS, steps=20) for _ in range(2)]
    return [*steps, program.evaluate(images=IMAGES, labels=LABELS)]


def large_convnet(program: Program) -> list[object]:
    steps = [program.train(images=LARGE, labels=LABELS[:8]) for _ in range(2)]
    return [*steps, program.evaluate(images=LARGE, labels=LABELS[:8])]


def sign_sgd(program: Program) -> list[object]:
    steps = [program.train(images=IMAGES, labels=LABELS, rate=0.01) for _ in range(2)]
    return [*steps, program.evaluate(images=IMAGES, labels=LABELS)]


def kmeans(program: Program) -> list[object]:
    program.spread_out(x=IMAGES)
    fits = [program.fit(x=IMAGES, tolerance=0, most=most) for most in (0, 30)]
    return [*fits, program.assign(x=IMAGES)]


def line(program: Program) -> list[object]:
    y = POINTS @ np.array([1.0, -2.0, 0.5]) + 3
    steps = [program.train(x=POINTS, y=y, steps=steps) for steps in (0, 3)]
    return [*steps, program.evaluate(x=POINTS, y=y), program.solve_exactly(x=POINTS, y=y)]


def rosenbrock(program: Program) -> list[object]:
    return [program.minimise(enough=1e-3, most=most) for most in (0, 4)]


def wide_deep(program: Program) -> list[object]:
    return [*[program.train(steps=steps, rate=0.5) for steps in (0, 3)], program.evaluate()]


def lstm(program: Program) -> list[object]:
    steps = [program.train(text=TEXT, following=TEXT[:, ::-1].copy()) for _ in range(2)]
    return [*steps, program.evaluate(text=TEXT, following=TEXT), *[program.write(first=3, N=n) for n in (5, 0)]]


def words(program: Program) -> list[object]:
    tokens, targets = TEXT.T[:4].copy(), TEXT.T[1:5].copy()
    steps = [program.train(tokens=tokens, targets=targets) for _ in range(2)]
    return [*steps, program.generate(first=2, temperature=1.0, N=4)]


def transformer(program: Program) -> list[object]:
    steps = [program.train(steps=steps, B=4) for steps in (0, 2)]
    return [*steps, program.sort_(x=TEXT[:3] % 10)]


def encoder(program: Program) -> list[object]:
    return [program.encode(words=WORDS, lengths=np.int32([5, 1, 2, 3, 0, 5, 4, 2]))]


def word_vectors(program: Program) -> list[object]:
    steps = [program.train(centre=TEXT[:, 0].copy(), near=TEXT[:, 1].copy()) for _ in range(2)]
    return [*steps, program.likeness(word=2)]


def skipgram(program: Program) -> list[object]:
    steps = [program.train(center=TEXT[:, 0].copy(), context=TEXT[:, 1].copy(), rate=0.5) for _ in range(2)]
    return [*steps, program.evaluate(center=TEXT[:, 2].copy(), context=TEXT[:, 3].copy()), program.neighbours(2, K=5)]


def sharded_embedding(program: Program) -> list[object]:
    steps = [program.train(center=TEXT[:, 0].copy(), context=TEXT[:, 1].copy(), rate=0.5) for _ in range(2)]
    return [*steps, program.neighbours(2, K=5)]


def figure(program: Program) -> list[object]:
    return [program.train(x=LARGE.reshape(8, 784), y=LABELS[:8]) for _ in range(2)]


def one_layer(program: Program) -> list[object]:
    x = LARGE[0].reshape(784)
    steps = [program.train(x=x, target=TARGET, rate=0.001) for _ in range(2)]
    return [*steps, program.apply(x=x)]


def newton(program: Program) -> list[object]:
    a = np.diag([3.0, 1.0, 2.0]) + 0.1
    return [
        program.newton(guess=2.0, tolerance=1e-12),
        program.newton(guess=2.0, tolerance=1e9),
        program.crossing(guess=np.array([1.0, -1.7]), tolerance=1e-9),
        program.dominant(a=a, start=np.ones(3), tolerance=1e-6),
    ]


def heat(program: Program) -> list[object]:
    program.set_rim(top=350, bottom=250, left=300, right=310.5)
    results = [program.advance(steps=steps, ratio=0.2, dt=0.5) for steps in (0, 4)]
    return [*results, program.settle(ratio=0.24, tolerance=2.0), program.sample(row=3, column=-2)]


LANGUAGE = {
    "01_mlp_digits": Sample("language/01_mlp_digits.dfg", mlp, split={"train": "B", "predict": "B"}),
    "02_convnet_batchnorm": Sample(
        "language/02_convnet_batchnorm.dfg",
        large_convnet,
        smaller={
            "Conv2d[1, 32]": "Conv2d[1, 4]",
            "Norm[32]": "Norm[4]",
            "Conv2d[32, 64]": "Conv2d[4, 6]",
            "Norm[64]": "Norm[6]",
            "7 * 64": "7 * 6",
            "512": "16",
        },
        split={"train": "B"},
        near=1e-4,
    ),
    "03_lstm_language_model": Sample(
        "language/03_lstm_language_model.dfg",
        words,
        smaller={"VOCABULARY = 10_000": "VOCABULARY = 30", "WIDTH = 650": "WIDTH = 8", "BATCH = 20": "BATCH = 8"},
        tables=("embedding",),
    ),
    "04_transformer_encoder": Sample(
        "language/04_transformer_encoder.dfg",
        encoder,
        smaller={"Encoder[512, 8, 2048]": "Encoder[16, 2, 24]", "T, 512]": "T, 16]", "6, 512]": "6, 16]"},
        split={"encode": "B"},
    ),
    "05_sharded_embedding": Sample(
        "language/05_sharded_embedding.dfg",
        sharded_embedding,
        smaller={"WORDS = 10_000_000": "WORDS = 30", "WIDTH = 256": "WIDTH = 8", "SAMPLES = 512": "SAMPLES = 6"},
        split={"train": "B"},
        tables=("table", "output", "bias"),
    ),
    "06_newton_and_power": Sample("language/06_newton_and_power.dfg", newton),
    "08_heat_equation": Sample("language/08_heat_equation.dfg", heat, smaller={"N = 512": "N = 11"}),
}
FIGURES = {
    "osdi_figure_1_corrected": Sample("figures/osdi_figure_1_corrected.dfg", figure, split={"train": "B"}, near=1e-4),
    "white_paper_figure_1_corrected": Sample("figures/white_paper_figure_1_corrected.dfg", one_layer),
}
OURS = {
    "digits": Sample("digits.dfg", digits, split={"train": "B", "evaluate": "B", "predict": "B"}),
    "convnet": Sample("convnet.dfg", convnet, settings={"CHANNELS": 4}, split={"train": "B"}, near=1e-2),
    "sign_sgd": Sample("sign_sgd.dfg", sign_sgd, split={"train": "B"}),
    "kmeans": Sample("kmeans.dfg", kmeans, settings={"K": 3}, split={"fit": "N", "assign": "N"}),
    "linear_regression": Sample("linear_regression.dfg", line, split={"train": "N", "evaluate": "N"}),
    "rosenbrock": Sample("rosenbrock.dfg", rosenbrock, settings={"SIZE": 5}),
    "lstm": Sample("lstm.dfg", lstm, settings={"WIDTH": 8}, split={"train": "B"}, near=1e-4, tables=("letters.table",)),
    "skipgram": Sample(
        "skipgram.dfg",
        skipgram,
        settings={"WORDS": 30, "WIDTH": 4, "SAMPLES": 6},
        split={"train": "B", "evaluate": "B"},
        tables=("table", "output", "bias"),
    ),
    "transformer": Sample("transformer.dfg", transformer, tables=("numbers.table",), near=1e-3),
    "wide_deep": Sample("wide_deep.dfg", wide_deep),
    "word_vectors": Sample(
        "word_vectors.dfg",
        word_vectors,
        settings={"WORDS": 30, "WIDTH": 4},
        split={"train": "B"},
        tables=("inner.table", "outer_.table"),
    ),
}
UNSPLIT = {
    "03_lstm_language_model": "its state is that of a batch, whose size is a constant",
    "06_newton_and_power": "it works on single numbers and vectors",
    "08_heat_equation": "it works on one plate",
    "rosenbrock": "it looks for one point",
    "transformer": "no feed has its batch: it makes its own examples",
    "wide_deep": "no feed has its batch: it makes its own examples",
    "white_paper_figure_1_corrected": "it learns from one example at a time",
}
"""Why a sample has no entry to be cut into blocks."""
NOT_YET = {"09_odds_and_ends": "quantised types"}
"""Samples that this version refuses, and over what."""
PIPELINES = ("07_input_pipeline", "cifar", "images", "pipeline", "seq2seq", "synchronous")
"""Samples with queues."""
MISTAKEN = {"osdi_figure_1": "never equal", "white_paper_figure_1": "never equal"}
"""Samples that are refused as they stand in a paper."""
ALL = {**OURS, **FIGURES, **LANGUAGE}
SPLIT = [name for name, sample in ALL.items() if sample.split]
DIVIDED = [name for name, sample in ALL.items() if sample.tables]


@dataclass(frozen=True)
class Outcome:
    """The results of a run, and the state behind it, as arrays."""

    results: list[np.ndarray]
    state: dict[str, np.ndarray]

    def bits(self) -> list[object]:
        return [each.tobytes() for each in self.results] + [
            (name, value.tobytes()) for name, value in sorted(self.state.items())
        ]


def observed(sample: Sample, program: Program) -> Outcome:
    """Runs a sample on a program that was just loaded."""
    results = [np.array(each) for result in sample.run(program) for each in _parts(result)]
    return Outcome(results, {name: np.array(value) for name, value in program.state.items()})


def _parts(result: object) -> list[object]:
    return list(result) if isinstance(result, tuple) else [result]


@cache
def alone_bundle(name: str) -> bytes:
    return compile_source(ALL[name].source, ALL[name].options).to_bytes()


@cache
def alone(name: str) -> Outcome:
    """What a sample gives undivided."""
    return observed(ALL[name], dfc_runtime.loads(alone_bundle(name), threads=1))


@cache
def distributed_bundle(name: str, deployment: str) -> bytes:
    sample = ALL[name]
    deploy = SourceFile("sample.deploy", f'deploy 1 for "{sample.path.split("/")[-1]}"\n{deployment}')
    return compile_source(sample.source, sample.options, deploy).to_bytes()


def on_ranks(name: str, deployment: str, count: int, **options: object) -> Outcome:
    outcome = on_cluster(
        distributed_bundle(name, deployment), count, lambda module: observed(ALL[name], module), **options
    )
    assert isinstance(outcome, Outcome)
    return outcome


def state_names(name: str) -> list[str]:
    return sorted(dfc_runtime.loads(alone_bundle(name), threads=1).state)
