"""Reductions along axes: sum prod mean max min any all. f16 and bf16 accumulate in f32; no element reduces to the
neutral one (0, 1, -inf or the lowest integer, +inf or the highest, false, true; the mean of nothing is NaN)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.dims import product
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.kernels.body import BodyBuilder
from dfc.ops import samples
from dfc.ops.attributes import ReduceAttributes
from dfc.ops.binding import element_type, flag, normalised_axes
from dfc.ops.builder import Builder
from dfc.ops.conditions import require_axes, require_class
from dfc.ops.gradients import div, indicator, mul, select, widened, with_axes
from dfc.ops.lowering.forms import Reduce
from dfc.ops.numeric import Numeric, accumulator, highest, lowest, narrow, widen
from dfc.ops.record import Arguments, Array, Gradient, OpError, OpRecord, Parameter, Sample, Sizes
from dfc.ops.reduction.rules import ALL_OF, ANY_OF, MAX, MEAN, MIN, PROD, SUMS
from dfc.ops.registry import register
from dfc.ops.rules.op_rules import OpRules
from dfc.ops.samples import Samples

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

Row = Callable[[Builder, Node, Value, Value], Value]  # builder, node, y and dy with the reduced axes kept -> dx
PARAMETERS = (
    Parameter("x"),
    Parameter("axis", "const", "ints", "every", "The axes to reduce: one or a list; all if neither is given."),
    Parameter("keep", "const", "ints", "none", "Instead of `axis`: the axes not to reduce."),
    Parameter("keep_dims", "const", "bool", "false", "Whether the reduced axes stay, with size 1."),
)
INTO = Parameter("into", "const", "dtype", "T", "The element type to convert to before.")


def reduction(attributes: Attributes) -> ReduceAttributes:
    assert isinstance(attributes, ReduceAttributes)
    return attributes


def infer_reduction(bound: str) -> Callable[[Sequence[TensorType], Attributes], Sequence[TensorType]]:
    def infer(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
        require_class(types, bound)
        where, x = reduction(attributes), types[0]
        require_axes(where.axes, x)
        kept = [s for a, s in enumerate(x.shape) if a not in where.axes]
        ones = [s if a not in where.axes else product(()) for a, s in enumerate(x.shape)]
        return (x.with_shape(tuple(ones if where.keep_dims else kept)),)

    return infer


def bind_reduction(arguments: Arguments, types: Sequence[TensorType]) -> Attributes:
    """`axis` or `keep` (all axes if neither), and `keep_dims`."""
    rank = types[0].rank
    axis, keep = arguments.get("axis"), arguments.get("keep")
    if axis is not None and keep is not None:
        raise OpError("E0315", "`{op}` takes `axis` or `keep`, not both", blame="keep")
    axes = tuple(range(rank)) if axis is None else normalised_axes(axis, rank)
    if keep is not None:
        kept = normalised_axes(keep, rank, "keep")
        axes = tuple(a for a in range(rank) if a not in kept)
    return ReduceAttributes(axes, flag(arguments.get("keep_dims", False), "keep_dims"))


def _build_into(name: str) -> Callable[[Builder, Sequence[Value], Arguments], Value]:
    """Converts first if `into` is given."""

    def build(b: Builder, operands: Sequence[Value], arguments: Arguments) -> Value:
        (x,) = operands
        into = arguments.get("into")
        if into is not None:
            x = b.cast(x, element_type(into, "into"))
        return b.apply(name, x, attributes=bind_reduction(arguments, [x.tensor]))

    return build


def _evaluate(
    fold: Callable[[Numeric, tuple[int, ...], bool], object],
) -> Callable[[Sequence[Array], Attributes, Sizes], Sequence[Array]]:
    def evaluate(operands: Sequence[Array], attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
        where = reduction(attributes)
        with np.errstate(all="ignore"):
            result = fold(widen(operands[0]), where.axes, where.keep_dims)
        return (narrow(result, operands[0].dtype),)

    return evaluate


def _gradient(row: Row) -> Gradient:
    def gradient(b: Builder, node: Node, cotangents: Sequence[Value | None]) -> Sequence[Value | None]:
        (dy,) = cotangents
        if dy is None:
            return (None,)
        y, where, rank = node.result, reduction(node.attributes), node.operands[0].tensor.rank
        if not where.keep_dims:
            y, dy = (with_axes(b, v, where.axes, rank) for v in (y, dy))
        return (row(b, node, y, dy),)

    return gradient


def register_reduction(
    name: str,
    bound: str,
    summary: str,
    fold: Callable[[Numeric, tuple[int, ...], bool], object],
    lowering: Reduce,
    row: Row | None = None,
    *,
    into: bool = False,
    no_gradient: str = "",
    identities: tuple[str, ...] = ("no axes",),
    smooth: bool = True,
    inputs: Samples | None = None,
    rules: OpRules,
) -> OpRecord:
    element, generics = ("bool", "..S, ..R") if bound == "bool" else ("T", f"T: {bound}, ..S, ..R")
    consts = "const axis: ints = every, const keep: ints = none, const keep_dims: bool = false"
    last = ", const into: dtype = T" if into else ""
    return register(
        OpRecord(
            name=name,
            family="reduction",
            summary=summary,
            signature=f"fn {name}[{generics}](x: {element}[..S], {consts}{last}) -> {element}[..R]",
            parameters=(*PARAMETERS, INTO) if into else PARAMETERS,
            infer=infer_reduction(bound),
            evaluate=_evaluate(fold),
            lowering=lowering,
            attributes=ReduceAttributes,
            constraints=(
                f"the element type of `x` is of class `{bound}`.",
                "the axes exist and are named once.",
            ),
            gradient=_gradient(row) if row is not None else None,
            no_gradient=no_gradient,
            identities=identities,
            samples=inputs or reduction_samples(bound),
            smooth=smooth,
            bind=bind_reduction,
            build=_build_into(name) if into else None,
            rules=rules,
        )
    )


def reduction_samples(bound: str, *, positive: bool = False) -> Samples:
    def make() -> list[Sample]:
        inside, outside = samples.dtypes(bound)
        first = inside[0]

        def case(
            shape: tuple[int, ...], axes: tuple[int, ...], keep: bool, kind: str, dtype: DTypeLike = first
        ) -> Sample:
            x = samples.numbers(shape, dtype, positive=positive)
            return samples.sample(x, attributes=ReduceAttributes(axes, keep), kind=kind)

        cases = [case((3, 4), (1,), False, "regular", dtype) for dtype in inside]
        for axes in ((0,), (2,), (0, 1), (0, 2), (0, 1, 2), ()):
            cases += [case((2, 3, 5), axes, keep, "regular") for keep in (False, True)]
        cases.append(case((1037,), (0,), False, "regular"))
        for shape, axes in (((), ()), ((0,), (0,)), ((0, 3), (0,)), ((0, 3), (1,)), ((1, 1), (0, 1)), ((1,), (0,))):
            cases.append(case(shape, axes, False, "edge"))
        cases += [case((3,), (1,), False, "invalid"), case((3, 4), (0, 0), False, "invalid")]
        cases += [case((3,), (0,), False, "invalid", dtype) for dtype in outside]
        if bound in ("float", "number"):
            special = np.array([samples.SPECIAL, samples.SPECIAL[::-1]], np.float32)
            cases += [samples.sample(special, attributes=ReduceAttributes((a,)), kind="edge") for a in (0, 1)]
        return cases

    return make


def _broadcast_cotangent(b: Builder, node: Node, _y: Value, dy: Value) -> Value:
    return b.broadcast(dy, node.operands[0].tensor.shape)


def _mean_row(b: Builder, node: Node, _y: Value, dy: Value) -> Value:
    x, wide = node.operands[0].tensor, widened(b, dy)
    count = b.cast(b.size(product(x.shape[a] for a in reduction(node.attributes).axes)), wide.tensor.dtype)
    return b.broadcast(b.cast(div(b, wide, count), x.dtype), x.shape)


def _extreme_row(b: Builder, node: Node, y: Value, dy: Value) -> Value:
    """Elements that tie share the gradient equally."""
    x = node.operands[0]
    chosen = indicator(b, b.apply("equal", x, y), x)
    ties = b.sum(chosen, reduction(node.attributes).axes, keep_dims=True)
    return mul(b, chosen, div(b, dy, ties))


def _prod_row(b: Builder, node: Node, _y: Value, dy: Value) -> Value:
    """The product of the others, also where one element (then only it has a gradient) or more (then none) are 0."""
    x, axes = node.operands[0], reduction(node.attributes).axes
    one, zero = b.scalar_like(1, x), b.scalar_like(0, x)
    is_zero = b.apply("equal", x, zero)
    nonzero = select(b, is_zero, one, x)
    others = b.apply("prod", nonzero, attributes=ReduceAttributes(axes, True))
    zeros = b.sum(indicator(b, is_zero, x), axes, keep_dims=True)
    lone = select(b, b.apply("equal", zeros, one), others, zero)
    usual = select(b, b.apply("equal", zeros, zero), others, zero)
    return mul(b, select(b, is_zero, lone, div(b, usual, nonzero)), dy)


def _divide_by_count(body: BodyBuilder, total: int, node: Node) -> int:
    x = node.operands[0].tensor
    count = body.size(product(x.shape[a] for a in reduction(node.attributes).axes))
    wide = body.dtype(total).accumulator
    mean = body.apply("div", body.cast(total, wide), body.cast(count, wide))
    return body.cast(mean, node.result.tensor.machine)


def _mean(x: Numeric, axes: tuple[int, ...], keep: bool) -> object:
    count = int(np.prod([x.shape[a] for a in axes]))
    return np.sum(x, axes, accumulator(x.dtype), keepdims=keep) / x.dtype.type(count)


register_reduction(
    "sum",
    "number",
    "The sum; integers wrap. `into` converts first: `sum(x, into = i64)`.",
    lambda x, axes, keep: np.sum(x, axes, accumulator(x.dtype), keepdims=keep),
    Reduce("add"),
    _broadcast_cotangent,
    into=True,
    rules=SUMS,
)
register_reduction(
    "prod",
    "number",
    "The product; integers wrap. `into` converts first.",
    lambda x, axes, keep: np.prod(x, axes, accumulator(x.dtype), keepdims=keep),
    Reduce("mul"),
    _prod_row,
    into=True,
    rules=PROD,
)
register_reduction(
    "mean",
    "float",
    "The arithmetic mean; NaN of nothing. `into` converts first: `mean(x, into = f64)`.",
    _mean,
    Reduce("add", after=_divide_by_count),
    _mean_row,
    into=True,
    rules=MEAN,
)
register_reduction(
    "max",
    "number",
    "The largest element; NaN if there is one. Elements that tie share the gradient.",
    lambda x, axes, keep: np.max(x, axes, keepdims=keep, initial=lowest(x.dtype)),
    Reduce("max"),
    _extreme_row,
    smooth=False,
    rules=MAX,
)
register_reduction(
    "min",
    "number",
    "The smallest element; NaN if there is one. Elements that tie share the gradient.",
    lambda x, axes, keep: np.min(x, axes, keepdims=keep, initial=highest(x.dtype)),
    Reduce("min"),
    _extreme_row,
    smooth=False,
    rules=MIN,
)
register_reduction(
    "any",
    "bool",
    "True if one element is true; false of nothing.",
    lambda x, axes, keep: np.any(x, axes, keepdims=keep),
    Reduce("or"),
    no_gradient="any returns truth values",
    smooth=False,
    rules=ANY_OF,
)
register_reduction(
    "all",
    "bool",
    "True if every element is true; true of nothing.",
    lambda x, axes, keep: np.all(x, axes, keepdims=keep),
    Reduce("and"),
    no_gradient="all returns truth values",
    smooth=False,
    rules=ALL_OF,
)
