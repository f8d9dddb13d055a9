"""The tests that stand in the samples: how many each has, and a bundle that has passed them."""

from __future__ import annotations

from pathlib import Path

from dfc.driver import api
from dfc.ir.options import CompileOptions
from dfc.syntax.reader.reading import read_source
from dfc_runtime import loads
from tests.support.corpus import ROOT

SAMPLES = ROOT / "samples"
TESTS = {
    "01_mlp_digits": 0,
    "02_convnet_batchnorm": 0,
    "03_lstm_language_model": 0,
    "04_transformer_encoder": 1,
    "06_newton_and_power": 2,
    "07_input_pipeline": 0,
    "08_heat_equation": 1,
    "convnet": 1,
    "digits": 1,
    "helpers": 1,
    "images": 0,
    "kmeans": 1,
    "linear_regression": 1,
    "lstm": 0,
    "pipeline": 0,
    "rosenbrock": 1,
    "sign_sgd": 0,
    "skipgram": 0,
    "synchronous": 0,
    "transformer": 1,
    "wide_deep": 0,
    "word_vectors": 0,
}
LEARNING = frozenset({"convnet", "kmeans", "linear_regression", "lstm", "sign_sgd", "transformer", "wide_deep"})
"""Those whose bundle the tests of what they learn make by `passing_bundle`."""


def passing_bundle(path: Path) -> bytes:
    """The bundle of a sample, which compiles without a remark and passes its own tests."""
    source = read_source(path)
    assert api.check(source, {}) == []
    data = api.compile_source(source, CompileOptions(with_tests=True)).to_bytes()
    model = loads(data)
    assert len(model.tests) == TESTS[path.stem]
    for test in model.tests.values():
        model.init()
        test()
    return data
