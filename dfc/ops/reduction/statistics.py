"""Statistics along axes: variance and deviation (both around the mean, divided by n - correction), and median."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.dims import ONE, product
from dfc.ir.dtypes import I64
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops import samples
from dfc.ops.attributes import ArgSortAttributes, AxisAttributes, ReduceAttributes, SortAttributes, StatisticAttributes
from dfc.ops.binding import integer
from dfc.ops.builder import Builder
from dfc.ops.conditions import require_axis, require_class
from dfc.ops.gradients import div, mul, scaled, select, sub, widened, with_axes
from dfc.ops.indexing.gather_along import axis_from_end, axis_to_end, put_last
from dfc.ops.layout.shape import axis_of
from dfc.ops.lowering.forms import Decompose
from dfc.ops.numeric import Numeric, narrow, widen
from dfc.ops.pieces import element, part
from dfc.ops.record import Arguments, Array, OpError, OpRecord, Parameter, Sample, Sizes
from dfc.ops.reduction.ordering import axis_samples, bind_last_axis
from dfc.ops.reduction.reductions import PARAMETERS, bind_reduction, infer_reduction, reduction, reduction_samples
from dfc.ops.registry import register

Cotangents = Sequence[Value | None]


def _statistic_attributes(attributes: Attributes) -> StatisticAttributes:
    assert isinstance(attributes, StatisticAttributes)
    return attributes


def _where(attributes: Attributes) -> ReduceAttributes:
    it = _statistic_attributes(attributes)
    return ReduceAttributes(it.axes, it.keep_dims)


def _infer(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    if _statistic_attributes(attributes).correction < 0:
        raise OpError("E0314", "`correction` is not negative", blame="correction")
    return infer_reduction("float")(types, _where(attributes))


def _variance(x: Numeric, it: StatisticAttributes) -> Numeric:
    count = int(np.prod([x.shape[axis] for axis in it.axes]))
    mean: Numeric = np.sum(x, it.axes, keepdims=True) / x.dtype.type(count)
    total: Numeric = np.sum(np.square(x - mean), it.axes, keepdims=it.keep_dims)
    return total / x.dtype.type(max(count - it.correction, 0))


def _evaluate(finish: Callable[[Numeric], Numeric]) -> Callable[[Sequence[Array], Attributes, Sizes], Sequence[Array]]:
    def evaluate(operands: Sequence[Array], attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
        with np.errstate(all="ignore"):
            result = finish(_variance(widen(operands[0]), _statistic_attributes(attributes)))
        return (narrow(result, operands[0].dtype),)

    return evaluate


def _divisor(b: Builder, x: Value, it: StatisticAttributes) -> Value:
    """The number of elements less the correction, but not below 0."""
    count = product(x.tensor.shape[axis] for axis in it.axes)
    free = b.apply("maximum", b.size(count - it.correction), b.size(0))
    return b.cast(free, x.tensor.dtype)


def _deviations(b: Builder, x: Value, axes: tuple[int, ...]) -> Value:
    return sub(b, x, b.apply("mean", x, attributes=ReduceAttributes(axes, True)))


def _decompose_variance(b: Builder, node: Node) -> Sequence[Value]:
    x, it = widened(b, node.operands[0]), _statistic_attributes(node.attributes)
    squares = b.apply("square", _deviations(b, x, it.axes))
    total = b.sum(squares, it.axes, it.keep_dims)
    return (b.cast(div(b, total, _divisor(b, x, it)), node.result.tensor.dtype),)


def _decompose_deviation(b: Builder, node: Node) -> Sequence[Value]:
    x = widened(b, node.operands[0])
    root = b.apply("sqrt", b.apply("variance", x, attributes=node.attributes))
    return (b.cast(root, node.result.tensor.dtype),)


def _centered_gradient(b: Builder, node: Node, dy: Value) -> Value:
    """2 (x - mean) dy / (n - correction): the mean moves along, but that cancels."""
    x, it = widened(b, node.operands[0]), _statistic_attributes(node.attributes)
    wide = widened(b, dy)
    wide = wide if it.keep_dims else with_axes(b, wide, it.axes, x.tensor.rank)
    share = div(b, scaled(b, wide, 2), _divisor(b, x, it))
    return b.cast(mul(b, _deviations(b, x, it.axes), share), node.operands[0].tensor.dtype)


def _variance_gradient(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    (dy,) = cotangents
    return (None if dy is None else _centered_gradient(b, node, dy),)


def _deviation_gradient(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """Through the square root; 0 where all elements are equal."""
    (dy,) = cotangents
    if dy is None:
        return (None,)
    y = node.result
    zero = b.scalar_like(0, y)
    flat = b.apply("equal", y, zero)
    half = div(b, scaled(b, dy, 0.5), select(b, flat, b.scalar_like(1, y), y))
    return (_centered_gradient(b, node, select(b, flat, zero, half)),)


def _bind(arguments: Arguments, types: Sequence[TensorType]) -> Attributes:
    where = reduction(bind_reduction(arguments, types))
    return StatisticAttributes(where.axes, where.keep_dims, integer(arguments.get("correction", 0), "correction"))


def _samples() -> Sequence[Sample]:
    cases: list[Sample] = []
    for number, sample in enumerate(reduction_samples("float")()):
        where = reduction(sample.attributes)
        counted = [size for axis, size in enumerate(sample.operands[0].shape) if axis in where.axes]
        correction = number % 2 if int(np.prod(counted)) > 1 else 0
        cases.append(Sample(sample.operands, StatisticAttributes(where.axes, where.keep_dims, correction), sample.kind))
    x = samples.numbers((3, 4), np.float64)
    return [*cases, samples.sample(x, attributes=StatisticAttributes((0,), False, -1), kind="invalid")]


CONSTS = "const axis: ints = every, const keep: ints = none, const keep_dims: bool = false, const correction: int = 0"
CORRECTION = Parameter("correction", "const", "int", "0", "Taken off the number of elements: 1 for a sample.")
CONDITIONS = (
    "the element type of `x` is floating-point.",
    "the axes exist and are named once.",
    "`correction` is not negative.",
)
register(
    OpRecord(
        name="variance",
        family="reduction",
        summary="The mean squared distance from the mean; NaN of nothing.",
        signature=f"fn variance[T: float, ..S, ..R](x: T[..S], {CONSTS}) -> T[..R]",
        parameters=(*PARAMETERS, CORRECTION),
        infer=_infer,
        evaluate=_evaluate(lambda x: x),
        lowering=Decompose(_decompose_variance),
        attributes=StatisticAttributes,
        constraints=CONDITIONS,
        gradient=_variance_gradient,
        samples=_samples,
        bind=_bind,
    )
)
register(
    OpRecord(
        name="deviation",
        family="reduction",
        summary="The standard deviation: the square root of the variance. Its gradient is 0 where all are equal.",
        signature=f"fn deviation[T: float, ..S, ..R](x: T[..S], {CONSTS}) -> T[..R]",
        parameters=(*PARAMETERS, CORRECTION),
        infer=_infer,
        evaluate=_evaluate(lambda x: np.sqrt(x)),
        lowering=Decompose(_decompose_deviation),
        attributes=StatisticAttributes,
        constraints=CONDITIONS,
        gradient=_deviation_gradient,
        samples=_samples,
        smooth=False,
        bind=_bind,
    )
)


def _infer_median(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "float")
    axis, x = axis_of(attributes), types[0]
    require_axis(axis, x)
    if x.shape[axis].constant == 0:
        raise OpError("E0314", "`{op}` needs at least one element", blame=0, label=str(x))
    return (x.with_shape((*x.shape[:axis], *x.shape[axis + 1 :])),)


def _evaluate_median(operands: Sequence[Array], attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
    x, axis = widen(operands[0]), axis_of(attributes)
    with np.errstate(all="ignore"):
        ordered: Numeric = np.sort(x, axis)
        low = np.take(ordered, (x.shape[axis] - 1) // 2, axis)
        high = np.take(ordered, x.shape[axis] // 2, axis)
        middle: Numeric = low * x.dtype.type(0.5) + high * x.dtype.type(0.5)
        return (narrow(np.where(np.any(np.isnan(x), axis), np.nan, middle), operands[0].dtype),)


def _decompose_median(b: Builder, node: Node) -> Sequence[Value]:
    """The mean of the two in the middle, which are the same one if the number is odd."""
    axis, x = axis_of(node.attributes), node.operands[0]
    size = x.tensor.shape[axis]
    ordered = b.apply("sort", x, attributes=SortAttributes(axis))
    pair = [widened(b, element(b, ordered, axis, position)) for position in ((size - 1) // 2, size // 2)]
    middle = b.apply("add", *(scaled(b, v, 0.5) for v in pair))
    wrong = b.apply("any", b.apply("is_nan", x), attributes=ReduceAttributes((axis,)))
    result = select(b, wrong, b.scalar_like(float("nan"), middle), middle)
    return (b.cast(result, node.result.tensor.dtype),)


def _median_gradient(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """Half to each of the two in the middle, wherever sorting found them."""
    (dy,) = cotangents
    if dy is None:
        return (None,)
    axis, x = axis_of(node.attributes), node.operands[0]
    size = x.tensor.shape[axis]
    order = b.apply("argsort", x, attributes=ArgSortAttributes(axis, False, I64))
    order = axis_to_end(b, order, axis)
    last = order.tensor.rank - 1
    share = b.reshape(scaled(b, dy, 0.5), (*dy.tensor.shape, ONE))
    back = [
        put_last(b, part(b, order, last, position, 1), share, size, checked=True)
        for position in ((size - 1) // 2, size // 2)
    ]
    return (axis_from_end(b, b.apply("add", *back), axis),)


def _median_samples() -> Sequence[Sample]:
    empty = samples.sample(samples.numbers((2, 0)), attributes=AxisAttributes(1), kind="invalid")
    cases = [s for s in axis_samples("float")() if s.kind == "invalid" or s.operands[0].shape[axis_of(s.attributes)]]
    special = samples.sample(np.array([[1, np.nan, 2], [np.inf, 1, 5]]), attributes=AxisAttributes(1), kind="edge")
    return [*cases, special, empty]


register(
    OpRecord(
        name="median",
        family="reduction",
        summary="The element in the middle along the axis, or the mean of the two there; NaN if there is one. Sorts.",
        signature="fn median[T: float, ..S, ..R](x: T[..S], const axis: int = -1) -> T[..R]",
        parameters=(Parameter("x"), Parameter("axis", "const", "int", "-1")),
        infer=_infer_median,
        evaluate=_evaluate_median,
        lowering=Decompose(_decompose_median),
        attributes=AxisAttributes,
        constraints=(
            "the element type of `x` is floating-point.",
            "the axis exists.",
            "the axis is not known to be empty.",
        ),
        gradient=_median_gradient,
        samples=_median_samples,
        smooth=False,
        demands=lambda types, a: [(ONE, types[0].shape[axis_of(a)])],
        bind=bind_last_axis,
    )
)
