"""inverse, determinant and log_determinant, by elimination with the largest pivot of each column.

The inverse is that of all unit vectors, a determinant the product of all pivots, for whole stacks at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops import samples
from dfc.ops.attributes import ReduceAttributes
from dfc.ops.builder import Builder
from dfc.ops.gradients import mul
from dfc.ops.linalg.matrices import (
    Matrix,
    failing,
    identity,
    in_f64,
    matmul,
    require_square,
    some_matrix,
    square_samples,
    turned,
)
from dfc.ops.linalg.stacks import register_stacked
from dfc.ops.lowering.forms import Decompose
from dfc.ops.record import Array, OpRecord, Parameter, Sizes

Cotangents = Sequence[Value | None]
CONSTRAINTS = ("the element type of `a` is floating-point.", "`a` is a square matrix.")


def _infer_same(types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
    return (require_square(types),)


def _infer_number(types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
    return (require_square(types).with_shape(()),)


def _decompose_inverse(b: Builder, node: Node) -> Sequence[Value]:
    a = in_f64(b, node.operands[0])
    units = b.broadcast(identity(b, a.tensor.shape[-1]), a.tensor.shape)
    return (b.cast(b.apply("solve", a, units), node.result.tensor.dtype),)


def _gradient_inverse(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """-Y^T dY Y^T."""
    (dy,) = cotangents
    if dy is None:
        return (None,)
    across = turned(b, node.result)
    return (b.apply("neg", matmul(b, matmul(b, across, dy), across)),)


register_stacked(
    OpRecord(
        name="inverse",
        family="product",
        summary=(
            "The inverse of a square matrix; every element is infinite or NaN if a pivot is exactly 0. To multiply by "
            "an inverse, `solve` is faster and closer."
        ),
        signature="fn inverse[T: float, ..S, N](a: T[..S, N, N]) -> T[..S, N, N]",
        parameters=(Parameter("a"),),
        infer=_infer_same,
        evaluate=lambda operands, _a, _s: failing(lambda x: [np.linalg.inv(x)], operands[0]),
        lowering=Decompose(_decompose_inverse),
        constraints=CONSTRAINTS,
        gradient=_gradient_inverse,
        samples=lambda: square_samples(lambda size, dtype: some_matrix(size, size, dtype)),
    ),
    rewrites_stacks=True,
)


def _over_inverse(b: Builder, node: Node, dy: Value) -> Value:
    """dy A^-T."""
    across = turned(b, b.apply("inverse", node.operands[0]))
    return mul(b, across, dy)


def _gradient_determinant(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    return (None if dy is None else _over_inverse(b, node, mul(b, dy, node.result)),)


def _gradient_log(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    return (None if dy is None else _over_inverse(b, node, dy),)


def _log_determinant(x: Matrix) -> Matrix:
    return np.asarray(np.linalg.slogdet(x)[1])


def _over_pivots(b: Builder, node: Node) -> tuple[Value, ReduceAttributes]:
    """The pivots in f64, and how they are reduced."""
    pivots = b.apply("pivots", in_f64(b, node.operands[0]))
    return pivots, ReduceAttributes((pivots.tensor.rank - 1,))


def _decompose_determinant(b: Builder, node: Node) -> Sequence[Value]:
    pivots, last = _over_pivots(b, node)
    return (b.cast(b.apply("prod", pivots, attributes=last), node.result.tensor.dtype),)


def _decompose_log(b: Builder, node: Node) -> Sequence[Value]:
    pivots, last = _over_pivots(b, node)
    sizes = b.apply("log", b.apply("abs", pivots))
    return (b.cast(b.apply("sum", sizes, attributes=last), node.result.tensor.dtype),)


def _register_number(
    name: str,
    summary: str,
    meaning: Callable[[Matrix], Matrix],
    decompose: Callable[[Builder, Node], Sequence[Value]],
    gradient: Callable[[Builder, Node, Cotangents], Cotangents],
) -> None:
    def evaluate(operands: Sequence[Array], _attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
        return failing(lambda x: [meaning(x)], operands[0])

    register_stacked(
        OpRecord(
            name=name,
            family="product",
            summary=summary,
            signature=f"fn {name}[T: float, ..S, N](a: T[..S, N, N]) -> T[..S]",
            parameters=(Parameter("a"),),
            infer=_infer_number,
            evaluate=evaluate,
            lowering=Decompose(decompose),
            constraints=CONSTRAINTS,
            gradient=gradient,
            samples=lambda: [
                *square_samples(lambda size, dtype: some_matrix(size, size, dtype)),
                samples.sample(np.array([[0.0, 1.0, 2.0], [3.0, 0.5, 0.0], [1.0, 0.0, 1.0]])),
            ],
        ),
        rewrites_stacks=True,
    )


_register_number(
    "determinant",
    "The determinant of a square matrix, 1 of an empty one. Its gradient is NaN or infinite where it is 0.",
    lambda x: np.asarray(np.linalg.det(x)),
    _decompose_determinant,
    _gradient_determinant,
)
_register_number(
    "log_determinant",
    "The logarithm of the size of the determinant, without overflow; -inf of a singular matrix.",
    _log_determinant,
    _decompose_log,
    _gradient_log,
)
