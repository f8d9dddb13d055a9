"""The ops that choose, limit or convert elements: select, clamp, cast. Operands broadcast strictly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.dtypes import BF16, BOOL, C64, F16, F32, F64, I8, I32, I64, U8, U64
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.kernels.body import BodyBuilder
from dfc.ops import samples
from dfc.ops.attributes import CastAttributes
from dfc.ops.binding import element_type
from dfc.ops.broadcasting import broadcast
from dfc.ops.builder import Builder
from dfc.ops.conditions import require_class, require_same_dtype
from dfc.ops.elementwise.arithmetic import WHOLE, infer_binary
from dfc.ops.elementwise.rules import CAST, ROUNDED, SELECT
from dfc.ops.gradients import select, unbroadcast
from dfc.ops.lowering.forms import Elementwise
from dfc.ops.numeric import Numeric, convert, narrow, numpy_of, pointwise
from dfc.ops.record import Arguments, Array, OpRecord, Parameter, Sample, Sizes
from dfc.ops.registry import register


def _infer_select(types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "bool", only=(0,))
    require_class(types, "any", only=(1, 2))
    require_same_dtype(types, only=(1, 2))
    return (TensorType(types[1].dtype, broadcast(types)),)


def _select(operands: Sequence[Array], _attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
    mask, a, b = operands
    return (narrow(np.where(mask, a, b), a.dtype),)


def _select_gradient(b: Builder, node: Node, cotangents: Sequence[Value | None]) -> Sequence[Value | None]:
    (dy,) = cotangents
    mask, x, y = node.operands
    if dy is None:
        return (None, None, None)
    zero = b.scalar_like(0, dy)
    dx = unbroadcast(b, select(b, mask, dy, zero), x.tensor.shape)
    return (None, dx, unbroadcast(b, select(b, mask, zero, dy), y.tensor.shape))


def _select_samples() -> Sequence[Sample]:
    mask = samples.numbers((3, 4), np.bool_)
    cases: list[Sample] = []
    for dtype in (np.float32, np.float64, np.int32, np.bool_, np.float16):
        cases.append(samples.sample(mask, samples.numbers((3, 4), dtype), samples.numbers((3, 4), dtype, start=2)))
    row, one = samples.numbers((4,)), np.array(2.5, np.float32)
    cases.append(samples.sample(mask, row, one))
    cases.append(samples.sample(np.array(True), one, np.array(np.nan, np.float32), kind="edge"))
    cases.append(samples.sample(np.zeros((0,), np.bool_), np.ones((0,), np.float32), one, kind="edge"))
    cases.append(samples.sample(row, row, row, kind="invalid"))
    cases.append(samples.sample(mask, samples.numbers((4, 1)), row, kind="invalid"))
    return [*cases, samples.sample(mask, row, samples.numbers((4,), np.int32), kind="invalid")]


register(
    OpRecord(
        name="select",
        family="element-wise",
        summary="`a` where the mask holds, `b` elsewhere, element by element. Both are computed.",
        signature="fn select[T: any, ..S](mask: bool[..S], a: T[..S], b: T[..S]) -> T[..S]",
        parameters=(Parameter("mask", type="bool"), Parameter("a"), Parameter("b")),
        infer=_infer_select,
        evaluate=_select,
        lowering=Elementwise(lambda body, arguments, _node: body.apply("select", *arguments)),
        constraints=(
            "`mask` is bool.",
            "the element types of `a` and `b` are equal.",
            "the three shapes broadcast by the strict rule.",
        ),
        gradient=_select_gradient,
        no_gradient="a mask only chooses",
        identities=("constant mask", "equal branches"),
        samples=_select_samples,
        rules=SELECT,
    )
)


def _limit(x: Numeric, low: Numeric, high: Numeric) -> object:
    return np.minimum(np.maximum(x, low), high)


def _emit_clamp(body: BodyBuilder, arguments: Sequence[int], _node: Node) -> int:
    x, low, high = arguments
    return body.apply("minimum", body.apply("maximum", x, low), high)


def _clamp_gradient(b: Builder, node: Node, cotangents: Sequence[Value | None]) -> Sequence[Value | None]:
    """One operand gets it all: `high` where the larger one of x and `low` is above it, whichever that is, and where
    the limits leave x no room."""
    (dy,) = cotangents
    x, low, high = node.operands
    if dy is None:
        return (None, None, None)
    zero = b.scalar_like(0, dy)
    below, no_room = b.apply("less", x, low), b.apply("greater_equal", low, high)
    above = b.apply("or", b.apply("greater", x, high), no_room)
    inside = select(b, above, zero, dy)
    rows = (select(b, below, zero, inside), select(b, below, inside, zero), select(b, above, dy, zero))
    return [unbroadcast(b, row, v.tensor.shape) for row, v in zip(rows, node.operands, strict=True)]


def _clamp_samples() -> Sequence[Sample]:
    low, high = np.array(-0.5, np.float32), np.array(0.5, np.float32)
    cases = [samples.sample(samples.numbers((3, 4)), low, high)]
    cases.append(samples.sample(samples.numbers((9,), np.float64), np.array(-0.5), np.array(0.75)))
    cases.append(samples.sample(samples.numbers((9,), np.int32), np.array(-2, np.int32), np.array(3, np.int32)))
    cases.append(samples.sample(samples.numbers((2, 3)), np.full(3, -0.5, np.float32), np.full(3, 0.25, np.float32)))
    cases.append(samples.sample(samples.numbers((9,), np.float64), np.array(0.4), np.array(-0.6)))  # limits cross
    cases.append(samples.sample(np.array(samples.SPECIAL, np.float32), low, high, kind="edge"))
    cases.append(samples.sample(np.zeros((0, 2), np.float32), low, high, kind="edge"))
    cases.append(samples.sample(np.array(3, np.float32), low, high, kind="edge"))
    cases.append(samples.sample(samples.numbers((3,)), low, np.array(1, np.int32), kind="invalid"))
    return [*cases, samples.sample(np.array([True]), np.array(False), np.array(True), kind="invalid")]


register(
    OpRecord(
        name="clamp",
        family="element-wise",
        summary=(
            "x limited to [low, high]: minimum(maximum(x, low), high), which is `high` where the limits meet or cross. "
            "The gradient at the limits belongs to x."
        ),
        signature="fn clamp[T: number, ..S](x: T[..S], low: T[..S], high: T[..S]) -> T[..S]",
        parameters=(Parameter("x"), Parameter("low"), Parameter("high")),
        infer=infer_binary("number"),
        evaluate=pointwise(_limit),
        lowering=Elementwise(_emit_clamp),
        constraints=(
            "the element types are equal and of class `number`.",
            "the three shapes broadcast by the strict rule.",
        ),
        gradient=_clamp_gradient,
        samples=_clamp_samples,
        smooth=False,
        rules=ROUNDED,
    )
)


def _infer_cast(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    assert isinstance(attributes, CastAttributes)
    target = types[0].with_dtype(attributes.dtype)
    require_class([*types, target], "any")
    return (target,)


def _cast(operands: Sequence[Array], attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
    assert isinstance(attributes, CastAttributes)
    return (convert(operands[0], numpy_of(attributes.dtype)),)


def _cast_gradient(b: Builder, node: Node, cotangents: Sequence[Value | None]) -> Sequence[Value | None]:
    (dy,) = cotangents
    x = node.operands[0].tensor
    smooth = x.dtype.is_float and node.result.tensor.dtype.is_float
    return (b.cast(dy, x.dtype) if dy is not None and smooth else None,)


def _bind_cast(arguments: Arguments, _types: Sequence[TensorType]) -> Attributes:
    return CastAttributes(element_type(arguments.get("dtype"), "dtype"))


def _emit_cast(body: BodyBuilder, arguments: Sequence[int], node: Node) -> int:
    return body.cast(arguments[0], node.result.tensor.machine)


def _cast_samples() -> Sequence[Sample]:
    wide = np.array([0.0, 1.9, -1.9, 300.0, -300.0, 1e20, -1e20, np.nan, np.inf, -np.inf], np.float64)
    cases: list[Sample] = []
    for target in (I8, I32, I64, U8, U64, F16, BF16, F32, BOOL):
        cases.append(samples.sample(wide, attributes=CastAttributes(target)))
        whole = np.array([0, 1, -1, 255, 70000], np.int32)
        cases.append(samples.sample(whole, attributes=CastAttributes(target)))
    cases.append(samples.sample(np.array([True, False]), attributes=CastAttributes(F32)))
    for shape in ((), (0,), (1,), (2, 0, 3)):
        cases.append(samples.sample(np.ones(shape, np.float32), attributes=CastAttributes(F64), kind="edge"))
    invalid = samples.sample(np.ones(3, np.complex64), attributes=CastAttributes(F32), kind="invalid")
    return [*cases, invalid, samples.sample(np.ones(3, np.float32), attributes=CastAttributes(C64), kind="invalid")]


register(
    OpRecord(
        name="cast",
        family="element-wise",
        summary=(
            "`x as T`, the only conversion. Float to integer truncates towards zero and saturates, NaN becomes 0; to "
            "bool is `!= 0`; integers wrap; to f16 and bf16 through f32."
        ),
        signature="fn cast[A: any, T: any, ..S](x: A[..S], const dtype: dtype) -> T[..S]",
        parameters=(Parameter("x"), Parameter("dtype", "const", "dtype")),
        infer=_infer_cast,
        evaluate=_cast,
        lowering=Elementwise(_emit_cast),
        attributes=CastAttributes,
        constraints=("neither type is complex.",),
        gradient=_cast_gradient,
        no_gradient=WHOLE,
        identities=("same type",),
        samples=_cast_samples,
        smooth=False,
        in_prelude=False,
        operator="as",
        bind=_bind_cast,
        rules=CAST,
    )
)
