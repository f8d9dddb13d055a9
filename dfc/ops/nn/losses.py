"""Ops of learning: softmax, log_softmax, cross_entropy. Stable, and decomposed into ops that fuse row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.dims import ONE
from dfc.ir.dtypes import I64, U64
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops import samples
from dfc.ops.attributes import AxisAttributes, ReduceAttributes
from dfc.ops.broadcasting import same_shape
from dfc.ops.builder import Builder
from dfc.ops.conditions import require_axis, require_class
from dfc.ops.gradients import count_up, div, indicator, mul, select, sub, widened
from dfc.ops.indexing.gather_scatter import INDEX_OUT_OF_RANGE
from dfc.ops.layout.shape import axis_of
from dfc.ops.lowering.forms import Decompose
from dfc.ops.numeric import Numeric, narrow, widen
from dfc.ops.record import Array, OpError, OpRecord, Parameter, Sample, Sizes
from dfc.ops.reduction.ordering import axis_samples, bind_last_axis
from dfc.ops.registry import register
from dfc_runtime.errors import RunError

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

Cotangents = Sequence[Value | None]
AXIS = Parameter("axis", "const", "int", "-1")


def _infer(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "float")
    require_axis(axis_of(attributes), types[0])
    return (types[0],)


def _below_top(x: Numeric, axis: int) -> Numeric:
    return x - np.max(x, axis, keepdims=True, initial=-np.inf)


def _softmax(operands: Sequence[Array], attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
    axis = axis_of(attributes)
    with np.errstate(all="ignore"):
        powers = np.exp(_below_top(widen(operands[0]), axis))
        return (narrow(powers / np.sum(powers, axis, keepdims=True), operands[0].dtype),)


def _log_softmax(operands: Sequence[Array], attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
    axis = axis_of(attributes)
    with np.errstate(all="ignore"):
        below = _below_top(widen(operands[0]), axis)
        return (narrow(below - np.log(np.sum(np.exp(below), axis, keepdims=True)), operands[0].dtype),)


def _relative(b: Builder, x: Value, axis: int) -> Value:
    """Exponents relative to the largest along the axis, so that none overflows."""
    return sub(b, x, b.apply("max", x, attributes=ReduceAttributes((axis,), True)))


def _rounded(b: Builder, node: Node, result: Value) -> Value:
    """The result in the element type of the op: narrow floats are computed in f32."""
    return b.cast(result, node.result.tensor.dtype)


def _log_total(b: Builder, below: Value, axis: int) -> Value:
    return b.apply("log", b.sum(b.apply("exp", below), (axis,), keep_dims=True))


def _decompose_softmax(b: Builder, node: Node) -> Sequence[Value]:
    axis = axis_of(node.attributes)
    powers = b.apply("exp", _relative(b, widened(b, node.operands[0]), axis))
    total = b.sum(powers, (axis,), keep_dims=True)  # at least 1, so that one division a row does for all of it
    return (_rounded(b, node, mul(b, powers, div(b, b.scalar_like(1, total), total))),)


def _decompose_log_softmax(b: Builder, node: Node) -> Sequence[Value]:
    axis = axis_of(node.attributes)
    below = _relative(b, widened(b, node.operands[0]), axis)
    return (_rounded(b, node, sub(b, below, _log_total(b, below, axis))),)


def _softmax_gradient(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    if dy is None:
        return (None,)
    y, axis = node.result, axis_of(node.attributes)
    shared = b.sum(mul(b, dy, y), (axis,), keep_dims=True)
    return (mul(b, sub(b, dy, shared), y),)


def _log_softmax_gradient(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    if dy is None:
        return (None,)
    x = node.operands[0]
    total = b.sum(dy, (axis_of(node.attributes),), keep_dims=True)
    narrow_logarithm = widened(b, x) is not x
    chances = b.apply("softmax", x, attributes=node.attributes) if narrow_logarithm else b.apply("exp", node.result)
    return (sub(b, dy, mul(b, chances, total)),)


register(
    OpRecord(
        name="softmax",
        family="softmax and losses",
        summary="exp(x) / sum(exp(x)) along the axis, without overflow.",
        signature="fn softmax[T: float, ..S](x: T[..S], const axis: int = -1) -> T[..S]",
        parameters=(Parameter("x"), AXIS),
        infer=_infer,
        evaluate=_softmax,
        lowering=Decompose(_decompose_softmax),
        attributes=AxisAttributes,
        constraints=("the element type of `x` is floating-point.", "the axis exists."),
        gradient=_softmax_gradient,
        samples=axis_samples("float"),
        bind=bind_last_axis,
    )
)
register(
    OpRecord(
        name="log_softmax",
        family="softmax and losses",
        summary="x - logsumexp(x) along the axis: the logarithm of `softmax`, without loss of digits.",
        signature="fn log_softmax[T: float, ..S](x: T[..S], const axis: int = -1) -> T[..S]",
        parameters=(Parameter("x"), AXIS),
        infer=_infer,
        evaluate=_log_softmax,
        lowering=Decompose(_decompose_log_softmax),
        attributes=AxisAttributes,
        constraints=("the element type of `x` is floating-point.", "the axis exists."),
        gradient=_log_softmax_gradient,
        samples=axis_samples("float"),
        bind=bind_last_axis,
    )
)


def _infer_cross_entropy(types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
    logits, labels = types
    require_class(types, "float", only=(0,))
    require_class(types, "int", only=(1,))
    if logits.rank == 0:
        raise OpError("E0313", "`{op}` needs one score per class", blame=0, label=f"{logits} has 0 axes")
    if not same_shape(labels.shape, logits.shape[:-1]):
        raise OpError(
            "E0305",
            "one label is needed for each row of scores",
            blame=1,
            label=f"{labels}, not {labels.with_shape(logits.shape[:-1])}",
            operand_labels={0: str(logits)},
        )
    return (logits.with_shape(logits.shape[:-1]),)


def _cross_entropy(operands: Sequence[Array], _attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
    logits, labels = widen(operands[0]), widen(operands[1])
    classes = logits.shape[-1]
    outside: Numeric = (labels < 0) | (labels >= classes)
    if bool(np.any(outside)):
        bad = labels[outside].ravel()[0]
        raise RunError(f"the label {bad} is outside 0 .. {classes - 1}", code=INDEX_OUT_OF_RANGE)
    with np.errstate(all="ignore"):
        below = _below_top(logits, -1)
        total = np.log(np.sum(np.exp(below), -1))
        index = labels.astype(np.int64)[..., None]
        picked = np.take_along_axis(below, index, -1)[..., 0] if classes else np.zeros(labels.shape, below.dtype)
        return (narrow(total - picked, operands[0].dtype),)


def _checked_labels(b: Builder, logits: Value, labels: Value) -> Value:
    """The labels with an axis of size 1, looked up in 0, 1, .. so that one outside is noticed when the program runs
    (without a sign: a negative one does not count from the end)."""
    classes = logits.tensor.shape[-1]
    known = b.apply("gather", count_up(b, classes), b.cast(labels, U64), attributes=AxisAttributes(0))
    return b.reshape(known, (*labels.tensor.shape, ONE))


def _decompose_cross_entropy(b: Builder, node: Node) -> Sequence[Value]:
    logits, labels = node.operands
    axis = logits.tensor.rank - 1
    below = _relative(b, widened(b, logits), axis)
    chosen = _mask(b, logits, _checked_labels(b, logits, labels))
    picked = b.sum(select(b, chosen, below, b.scalar_like(0, below)), (axis,), keep_dims=True)
    losses = sub(b, _log_total(b, below, axis), picked)
    return (b.reshape(_rounded(b, node, losses), node.result.tensor.shape),)


def _mask(b: Builder, logits: Value, labels: Value) -> Value:
    """True at the label of each row; `labels` has an axis of size 1 in place of the classes."""
    classes = logits.tensor.shape[-1]
    numbers = b.reshape(count_up(b, classes), (*((ONE,) * (logits.tensor.rank - 1)), classes))
    return b.apply("equal", numbers, labels)


def _cross_entropy_gradient(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """softmax minus one at the label, row by row."""
    (dy,) = cotangents
    if dy is None:
        return (None, None)
    logits, labels = node.operands
    rows = (*labels.tensor.shape, ONE)
    chances = b.apply("softmax", logits, attributes=AxisAttributes(logits.tensor.rank - 1))
    chosen = _mask(b, logits, b.reshape(b.cast(labels, I64), rows))
    return (mul(b, sub(b, chances, indicator(b, chosen, logits)), b.reshape(dy, rows)), None)


def _cross_entropy_samples() -> Sequence[Sample]:
    def case(shape: tuple[int, ...], labels: object, kind: str = "regular", dtype: DTypeLike = np.float32) -> Sample:
        return samples.sample(samples.numbers(shape, dtype), np.asarray(labels), kind=kind)

    large = np.array([[1e4, -1e4, 0.0], [-1e30, 5.0, 5.0]], np.float32)
    return [
        case((4, 3), np.array([0, 2, 1, 2], np.int32)),
        case((2, 3, 5), np.array([[0, 4, 1], [2, 2, 3]], np.int64)),
        case((10,), np.int32(7)),
        case((4, 3), np.array([0, 2, 1, 2], np.uint8), dtype=np.float64),
        case((3, 4), np.array([1, 1, 1], np.int32), dtype=np.float16),
        samples.sample(large, np.array([1, 0], np.int32), kind="edge"),
        case((0, 3), np.zeros(0, np.int32), "edge"),
        case((1, 1), np.zeros(1, np.int32), "edge"),
        case((4, 3), np.zeros(3, np.int32), "invalid"),
        case((4, 3), np.zeros(4, np.float32), "invalid"),
        case((4, 3), np.zeros(4, np.int32), "invalid", np.int32),
        case((), np.int32(0), "invalid"),
    ]


register(
    OpRecord(
        name="cross_entropy",
        family="softmax and losses",
        summary=(
            "One loss per row: logsumexp(scores) minus the score of the label. A label outside 0 .. classes - 1 is an "
            "error when the program runs."
        ),
        signature="fn cross_entropy[T: float, I: int, ..S, C](logits: T[..S, C], labels: I[..S]) -> T[..S]",
        parameters=(Parameter("logits"), Parameter("labels")),
        infer=_infer_cross_entropy,
        evaluate=_cross_entropy,
        lowering=Decompose(_decompose_cross_entropy),
        constraints=(
            "`logits` are floating-point.",
            "`labels` are whole numbers.",
            "`labels` has the shape of `logits` without the last axis.",
            "when it runs: 0 <= label < classes.",
        ),
        gradient=_cross_entropy_gradient,
        no_gradient="labels are whole numbers",
        samples=_cross_entropy_samples,
    )
)
