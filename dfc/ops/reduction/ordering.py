"""Reductions and scans that depend on the order of elements: argmax argmin cumsum, and the stable logsumexp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.dtypes import I8, I32, I64, DType
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops import samples
from dfc.ops.attributes import ArgAttributes, AxisAttributes, ReduceAttributes
from dfc.ops.binding import element_type, integer, normalised_axis, wrong
from dfc.ops.builder import Builder
from dfc.ops.conditions import require_axis, require_class
from dfc.ops.gradients import add, mul, reverse, select, sub, widened, with_axes
from dfc.ops.layout.shape import axis_of
from dfc.ops.lowering.forms import ArgReduce, Decompose, Scan
from dfc.ops.numeric import Numeric, accumulator, narrow, widen
from dfc.ops.record import Arguments, Array, OpError, OpRecord, Parameter, Sample, Sizes
from dfc.ops.reduction.reductions import PARAMETERS, bind_reduction, infer_reduction, reduction, reduction_samples
from dfc.ops.reduction.rules import CUMSUM, POSITION
from dfc.ops.registry import register

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

Cotangents = Sequence[Value | None]


def _arg(attributes: Attributes) -> ArgAttributes:
    assert isinstance(attributes, ArgAttributes)
    return attributes


def _infer_arg(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "number")
    where, x = _arg(attributes), types[0]
    require_axis(where.axis, x)
    if not where.dtype.is_integer:
        raise OpError("E0302", "`{op}` returns whole numbers", blame="into", label=str(where.dtype))
    if x.shape[where.axis].constant == 0:
        raise OpError("E0314", "`{op}` needs at least one element", blame=0, label=str(x))
    return (TensorType(where.dtype, x.shape[: where.axis] + x.shape[where.axis + 1 :]),)


def _bind_arg(arguments: Arguments, types: Sequence[TensorType]) -> ArgAttributes:
    into = element_type(arguments.get("into", I32), "into")
    if not isinstance(into, DType):
        raise wrong("into", "a fixed element type such as `i64`")
    axis = arguments.get("axis")
    return ArgAttributes(0 if axis is None else normalised_axis(integer(axis, "axis"), types[0].rank), into)


def _build_arg(name: str) -> Callable[[Builder, Sequence[Value], Arguments], Value]:
    """Without `axis`: the position in row-major order."""

    def build(b: Builder, operands: Sequence[Value], arguments: Arguments) -> Value:
        (x,) = operands
        if arguments.get("axis") is None:
            x = b.reshape(x, (x.tensor.elements,))
        return b.apply(name, x, attributes=_bind_arg(arguments, [x.tensor]))

    return build


def _arg_samples() -> Sequence[Sample]:
    def case(x: Array, axis: int, kind: str = "regular", dtype: DType = I32) -> Sample:
        return samples.sample(x, attributes=ArgAttributes(axis, dtype), kind=kind)

    ties = np.array([[1, 3, 3, 0], [2, 2, 2, 2]], np.float32)
    return [
        case(samples.numbers((3, 5)), 1),
        case(samples.numbers((3, 5)), 0, dtype=I64),
        case(samples.numbers((2, 3, 4), np.int32), 1),
        case(ties, 1),
        case(samples.numbers((40,), np.float16), 0, dtype=I8),
        case(np.array(samples.SPECIAL, np.float32), 0, "edge"),
        case(np.array([[1, np.nan, np.nan], [np.inf, -np.inf, 0]], np.float64), 1, "edge"),
        case(samples.numbers((0, 3)), 1, "edge"),
        case(samples.numbers((1, 1)), 0, "edge"),
        case(samples.numbers((3,)), 1, "invalid"),
        case(samples.numbers((3, 0)), 1, "invalid"),
        case(np.array([True, False]), 0, "invalid"),
    ]


def _register_arg(name: str, words: str, pick: Callable[[Array, int], Array]) -> None:
    def evaluate(operands: Sequence[Array], attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
        where, x = _arg(attributes), operands[0]
        if x.shape[where.axis] == 0:
            shape = x.shape[: where.axis] + x.shape[where.axis + 1 :]
            return (np.zeros(shape, where.dtype.numpy),)
        return (narrow(pick(widen(x), where.axis), where.dtype.numpy),)

    register(
        OpRecord(
            name=name,
            family="reduction",
            summary=(
                f"The position of the {words} element along the axis (in row-major order if `axis` is not given). The "
                "first of equals; the first NaN wins; 0 of nothing."
            ),
            signature=(
                f"fn {name}[T: number, I: int, ..S, ..R]"
                "(x: T[..S], const axis: int = none, const into: dtype = i32) -> I[..R]"
            ),
            parameters=(
                Parameter("x"),
                Parameter("axis", "const", "int", "none", "The axis; all in row-major order if absent."),
                Parameter("into", "const", "dtype", "i32", "The element type of the result."),
            ),
            infer=_infer_arg,
            evaluate=evaluate,
            lowering=ArgReduce(name),
            attributes=ArgAttributes,
            constraints=(
                "the element type of `x` is a number type.",
                "the axis exists.",
                "`into` is an integer type.",
                "the axis is not known to be empty.",
            ),
            no_gradient=f"{name} returns whole numbers",
            samples=_arg_samples,
            smooth=False,
            bind=_bind_arg,
            build=_build_arg(name),
            rules=POSITION,
        )
    )


_register_arg("argmax", "largest", lambda x, axis: np.asarray(np.argmax(x, axis)))
_register_arg("argmin", "smallest", lambda x, axis: np.asarray(np.argmin(x, axis)))


def _infer_cumsum(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "number")
    require_axis(axis_of(attributes), types[0])
    return (types[0],)


def bind_last_axis(arguments: Arguments, types: Sequence[TensorType]) -> Attributes:
    """`axis`, by default the last one."""
    return AxisAttributes(normalised_axis(integer(arguments.get("axis", -1), "axis"), types[0].rank))


def _evaluate_cumsum(operands: Sequence[Array], attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
    x = operands[0]
    with np.errstate(all="ignore"):
        total = np.cumsum(widen(x), axis_of(attributes), accumulator(x.dtype))
    return (narrow(total, x.dtype),)


def _cumsum_gradient(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """An element is in all sums from its own on: the sums from the other end."""
    (dy,) = cotangents
    axis = axis_of(node.attributes)
    if dy is None:
        return (None,)
    total = b.apply("cumsum", reverse(b, dy, (axis,)), attributes=AxisAttributes(axis))
    return (reverse(b, total, (axis,)),)


def axis_samples(bound: str) -> Callable[[], Sequence[Sample]]:
    """One operand, one axis."""

    def make() -> Sequence[Sample]:
        inside, outside = samples.dtypes(bound)

        def case(shape: tuple[int, ...], axis: int, kind: str = "regular", dtype: DTypeLike = np.float32) -> Sample:
            return samples.sample(samples.numbers(shape, dtype), attributes=AxisAttributes(axis), kind=kind)

        cases = [case((3, 4), 1, dtype=d) for d in inside]
        cases += [case((3, 4), 0), case((2, 3, 5), 1), case((37,), 0)]
        cases += [case(s, 0, "edge") for s in ((0,), (0, 3), (1,), (1, 4))]
        cases.append(case((3, 1), 1, "edge"))
        cases += [case((), 0, "invalid"), case((3,), 1, "invalid")]
        return cases + [case((3,), 0, "invalid", d) for d in outside]

    return make


register(
    OpRecord(
        name="cumsum",
        family="reduction",
        summary="The sums of all elements up to each one along the axis.",
        signature="fn cumsum[T: number, ..S](x: T[..S], const axis: int = -1) -> T[..S]",
        parameters=(Parameter("x"), Parameter("axis", "const", "int", "-1")),
        infer=_infer_cumsum,
        evaluate=_evaluate_cumsum,
        lowering=Scan("add", lambda _dtype: 0),
        attributes=AxisAttributes,
        constraints=("the element type of `x` is a number type.", "the axis exists."),
        gradient=_cumsum_gradient,
        samples=axis_samples("number"),
        bind=bind_last_axis,
        rules=CUMSUM,
    )
)


def _evaluate_logsumexp(operands: Sequence[Array], attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
    x, where = widen(operands[0]), reduction(attributes)
    with np.errstate(all="ignore"):
        top: Numeric = np.max(x, where.axes, keepdims=True, initial=-np.inf)
        top = np.where(np.isfinite(top), top, x.dtype.type(0))
        result: Numeric = np.log(np.sum(np.exp(x - top), where.axes, keepdims=True)) + top
    shape = tuple(s for a, s in enumerate(x.shape) if a not in where.axes)
    return (narrow(result if where.keep_dims else result.reshape(shape), operands[0].dtype),)


def finite_top(b: Builder, x: Value, axes: tuple[int, ...]) -> Value:
    """The largest element along the axes (kept), or 0 where that is not finite: the origin of exponents."""
    top = b.apply("max", x, attributes=ReduceAttributes(axes, True))
    return select(b, b.apply("is_finite", top), top, b.scalar_like(0, x))


def _decompose_logsumexp(b: Builder, node: Node) -> Sequence[Value]:
    x, where = widened(b, node.operands[0]), reduction(node.attributes)
    top = finite_top(b, x, where.axes)
    total = b.sum(b.apply("exp", sub(b, x, top)), where.axes, keep_dims=True)
    result = add(b, b.apply("log", total), top)
    return (b.reshape(b.cast(result, node.result.tensor.dtype), node.result.tensor.shape),)


def _logsumexp_gradient(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """The softmax, relative to the result (0 where that is -inf, so that no NaN arises)."""
    (dy,) = cotangents
    if dy is None:
        return (None,)
    x, where, y = widened(b, node.operands[0]), reduction(node.attributes), node.result
    if x.tensor.dtype != y.tensor.dtype:
        y = b.apply("logsumexp", x, attributes=where)
    if not where.keep_dims:
        y, dy = (with_axes(b, v, where.axes, x.tensor.rank) for v in (y, dy))
    y = select(b, b.apply("is_finite", y), y, b.scalar_like(0, x))
    return (mul(b, dy, b.cast(b.apply("exp", sub(b, x, y)), dy.tensor.dtype)),)


register(
    OpRecord(
        name="logsumexp",
        family="reduction",
        summary="log(sum(exp(x))) without overflow; -inf of nothing.",
        signature=(
            "fn logsumexp[T: float, ..S, ..R]"
            "(x: T[..S], const axis: ints = every, const keep: ints = none, const keep_dims: bool = false) -> T[..R]"
        ),
        parameters=PARAMETERS,
        infer=infer_reduction("float"),
        evaluate=_evaluate_logsumexp,
        lowering=Decompose(_decompose_logsumexp),
        attributes=ReduceAttributes,
        constraints=("the element type of `x` is floating-point.", "the axes exist and are named once."),
        gradient=_logsumexp_gradient,
        identities=(),
        samples=reduction_samples("float"),
        bind=bind_reduction,
    )
)
