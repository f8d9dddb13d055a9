"""Called where the package of the ops is installed (`toy_process`): what kernels become of ops that say how they read.

Each function raises if something is not so. References are written in NumPy, or in the language without these ops.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import dfc
from dfc.diagnostics.source import SourceFile
from dfc.driver import pipeline
from dfc.driver.api import compile_source
from dfc.elaborate.build import build
from dfc.ir.options import CompileOptions
from dfc.kernels.form import ContractKernel, Kernel
from dfc.kernels.program import Program
from tests.support.clusters import cluster_bundle, on_cluster
from tests.support.kernel_texts import TextInterpreter

NUMBERS = np.random.default_rng(12)
MOVED = """dfg 1

readonly entry f[N](x: f32[N, 3], w: f32[N, 3]) -> (y: f32[N - 2, 3], z: f32[N, 3], d: f32[N, 3]) where N >= 3 {
  let y = shear(x + 1.0)
  let z = unshear(2.0 * y, 7.0)
  return y, z, grad(sum(z * w * z), x)
}
"""
PICKED = """dfg 1

readonly entry f[N](x: f32[N, 5], ids: i32[N]) -> (y: f32[N], d: f32[N, 5]) {
  let y = exp(one_each(x, ids))
  return y, grad(sum(y), x)
}
"""
GENERATED = """dfg 1

readonly entry f[N](x: f32[N, 4]) -> (y: f32[N, 4]) { return x * distance(f32[N, 4]) }
"""
MULTIPLIED = """dfg 1

readonly entry f[N](x: f32[N, 7], w: f32[5, 7], b: f32[5]) -> (y: f32[N, 5]) { return tanh(times_transposed(x, w) + b) }
"""
LOOPED = """dfg 1

param w: f32[5, 8] = normal()
entry f(xs: f32[20, 4, 3]) -> (d: f32[5, 8]) {
  let h = loop h = zeros(f32[4, 5]) for x in xs { h = tanh(PRODUCT) }
  return grad(sum(h), w)
}
"""
BY_RECORD = LOOPED.replace("PRODUCT", "times_transposed(concat([x, h], axis = 1), w)")
IN_THE_LANGUAGE = LOOPED.replace("PRODUCT", "concat([x, h], axis = 1) @ transpose(w)")
TRAINING = """dfg 1

param w: f32[5, 7] = normal()
entry train[B](x: f32[B, 7]) -> (loss: f32) where B >= 1 {
  let loss = sum(square(times_transposed(x, w))) / (B as f32)
  w -= 0.1 * grad(loss, w)
  return loss
}
"""
SPREAD = """
job worker tasks 2
place "**" on worker
replicate train over worker with mode = "sync", split = "B", combine = "mean", blocks = 4
"""


def normal(*shape: int) -> np.ndarray:
    return NUMBERS.standard_normal(shape).astype(np.float32)


def called(text: str, *feeds: np.ndarray) -> list[np.ndarray]:
    """What an entry `f` gives, as machine code."""
    module = dfc.loads(compile_source(SourceFile("model.dfg", text), CompileOptions()).to_bytes())
    return [np.asarray(value) for value in module.f(*feeds)]


def program(text: str) -> Program:
    return pipeline.scheduled(pipeline.optimise(build(SourceFile("model.dfg", text), {})))


def kernels(text: str) -> Sequence[Kernel]:
    return program(text).kernels


def simulated(text: str, sizes: Sequence[int], *feeds: np.ndarray) -> list[np.ndarray]:
    """The same by the text of kernels for a GPU, lane by lane."""
    made = program(text)
    (entry,) = made.entries
    machine = TextInterpreter(made, entry, {}, dict(zip(entry.dims, sizes, strict=True)))
    machine.arguments = dict(enumerate(feeds))
    machine.run(entry.steps)
    return [np.array(machine.array(number)) for number in entry.results]


def sheared(x: np.ndarray) -> np.ndarray:
    return np.stack([np.diagonal(x, -row)[:3] for row in range(len(x) - 2)])


def moved() -> None:
    """A view of a view with a border is read where it lies, by a processor and a GPU; so is the gradient."""
    x, w = normal(6, 3), normal(6, 3)
    y = sheared(x + 1)
    inside = np.tri(6, 3, 0, bool) & ~np.tri(6, 3, -4, bool)
    z = np.where(inside, 2 * (x + 1), np.float32(7))
    expected = [y, z, np.where(inside, 8 * w * (x + 1), 0)]
    for found in (called(MOVED, x, w), simulated(MOVED, [6], x, w)):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)


def picked() -> None:
    """One element of each row, by numbers that count from the end, too; the run ends for one outside."""
    x, ids = normal(4, 5), np.array([3, -1, 0, 4], np.int32)
    y = np.exp(x[np.arange(4), ids])
    d = np.zeros_like(x)
    d[np.arange(4), ids] = y
    for found in (called(PICKED, x, ids), simulated(PICKED, [4], x, ids)):
        for one, other in zip(found, [y, d], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)
    try:
        called(PICKED, x, ids + 1)
    except dfc.RunError:
        return
    raise AssertionError("nobody saw that a number is outside")


def generated() -> None:
    """Elements that follow from their positions are made where they are used."""
    x = normal(3, 4)
    (found,) = called(GENERATED, x)
    rows, columns = np.indices((3, 4))
    assert found.tobytes() == (x * abs(rows - columns).astype(np.float32)).tobytes()
    assert len(kernels(GENERATED)) == 1


def multiplied() -> None:
    """A contraction is one product, and what follows it is part of its kernel."""
    (kernel,) = kernels(MULTIPLIED)
    assert isinstance(kernel, ContractKernel)
    x, w, b = normal(6, 7), normal(5, 7), normal(5)
    for (found,) in (called(MULTIPLIED, x, w, b), simulated(MULTIPLIED, [6], x, w, b)):
        np.testing.assert_allclose(found, np.tanh(x @ w.T + b), rtol=1e-5, atol=1e-6)


def looped() -> None:
    """Passes over loops see a product with a matrix from outside: all inputs are multiplied before the loop, and the
    matrix gets its gradient by blocks of 16 iterations, of 4 rows each."""
    xs = normal(20, 4, 3)
    (found,), (expected,) = called(BY_RECORD, xs), called(IN_THE_LANGUAGE, xs)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    products = [kernel for kernel in kernels(BY_RECORD) if isinstance(kernel, ContractKernel)]
    shapes = {tuple(axis.extent.constant for axis in kernel.axes) for kernel in products}
    assert {(20 * 4, 5, 3), (3, 5, 16 * 4), (5, 5, 16 * 4)} <= shapes


def divided() -> None:
    """Rows that are cut give rows, by the rule that all contractions share: one and two ranks compute the same bits."""

    def trained(module: object) -> list[bytes]:
        x = np.random.default_rng(1).standard_normal((12, 7)).astype(np.float32)
        losses = [np.asarray(module.train(x).loss).tobytes() for _ in range(2)]  # type: ignore[attr-defined]
        return [*losses, np.asarray(module.state["w"]).tobytes()]  # type: ignore[attr-defined]

    one, two = (on_cluster(cluster_bundle(TRAINING, SPREAD), n, trained, jobs={"worker": n}) for n in (1, 2))
    assert one == two


CLAIMS = (moved, picked, generated, multiplied, looped, divided)
