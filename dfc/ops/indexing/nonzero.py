"""Ops about sizes that are found out while an entry runs: range and nonzero.

`range` gives a symbol its value (`dfc.ir.measured`); every op below may then have results of that size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dfc.ir.attributes import Attributes, MeasuredAttributes
from dfc.ir.dims import ZERO, Dim, dim
from dfc.ir.dtypes import BOOL, I64
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType, tensor
from dfc.ops import samples
from dfc.ops.attributes import AxisAttributes, ScatterAttributes, SizedAttributes
from dfc.ops.builder import Builder
from dfc.ops.conditions import require_class
from dfc.ops.creation.rules import RANGE
from dfc.ops.gradients import count_up, mul, select, sub
from dfc.ops.lowering.forms import Decompose, Structural
from dfc.ops.numeric import concrete
from dfc.ops.pieces import part
from dfc.ops.record import Array, OpError, OpRecord, Parameter, Sample, Sizes
from dfc.ops.registry import register
from dfc_runtime.errors import RunError

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

WRONG_SIZE = "E0903"

# ------------------------------------------------------------------- range --


def _measured(attributes: Attributes) -> MeasuredAttributes:
    assert isinstance(attributes, MeasuredAttributes)
    return attributes


def _infer_range(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    it = _measured(attributes)
    if types[0] != tensor(I64):
        raise OpError("E0316", "`range` counts to a single i64", blame=0, label=str(types[0]))
    if it.size.symbol is None and it.size.constant is None:
        raise OpError("E0309", "a size that is found out has a name of its own", blame="size", label=str(it.size))
    return (tensor(I64, it.size),)


def check_measured(count: int, most: int, size: int | None) -> int:
    """The number that a size is found to be; `RunError` for one that cannot be."""
    if not 0 <= count <= most:
        raise RunError(f"a size of {count} is not between 0 and {most}", code=WRONG_SIZE)
    if size is not None and count != size:
        raise RunError(f"a size of {count} is not {size}", code=WRONG_SIZE)
    return count


def _evaluate_range(operands: Sequence[Array], attributes: Attributes, sizes: Sizes) -> Sequence[Array]:
    it = _measured(attributes)
    count = check_measured(int(operands[0]), it.most.evaluate(sizes), it.size.constant)
    return (np.arange(count, dtype=np.int64),)


def _range_samples() -> Sequence[Sample]:
    def case(count: object, size: int, most: int, kind: str = "regular") -> Sample:
        attributes = MeasuredAttributes(dim(size), dim(most))
        return samples.sample(np.asarray(count), attributes=attributes, kind=kind)

    return [
        case(np.int64(3), 3, 5),
        case(np.int64(4), 4, 4),
        case(np.int64(17), 17, 100),
        case(np.int64(0), 0, 7, "edge"),
        case(np.int64(0), 0, 0, "edge"),
        case(np.int32(2), 2, 5, "invalid"),
        case(np.float64(2), 2, 5, "invalid"),
        case(np.array([2]), 2, 5, "invalid"),
    ]


register(
    OpRecord(
        name="range",
        family="measured size",
        summary=(
            "0, 1, 2, .. up to below a number that only the run knows: `let [N] i: i64[N] = range(n, B)` gives the "
            "size N its value, which is at most `most`. One outside stops the call."
        ),
        signature="fn range[N](count: i64, const most: int) -> i64[N]",
        parameters=(Parameter("count"), Parameter("most", "const", "dims", "", "The largest number it may be.")),
        infer=_infer_range,
        evaluate=_evaluate_range,
        lowering=Structural(),
        attributes=MeasuredAttributes,
        constraints=("`count` is an i64 of no axes.", "when it runs: 0 <= count <= most."),
        no_gradient="range returns whole numbers",
        samples=_range_samples,
        smooth=False,
        rules=RANGE,
    )
)

# ----------------------------------------------------------------- nonzero --


def sized(attributes: Attributes) -> Dim:
    assert isinstance(attributes, SizedAttributes)
    return attributes.size


def is_set(b: Builder, x: Value) -> Value:
    """Where a tensor is true, or not zero."""
    return x if x.tensor.dtype == BOOL else b.apply("not_equal", x, b.scalar_like(0, x))


def count_set(b: Builder, x: Value) -> Value:
    """How many elements are true, or not zero."""
    return b.sum(b.cast(is_set(b, x), I64), tuple(range(x.tensor.rank)))


def true_indices(b: Builder, mask: Value, size: Dim) -> Value:
    """The positions of the true elements of a mask with one axis, in order: each goes to the place that is the number
    of those before it, all others to one place more, which is cut off."""
    count = mask.tensor.shape[0]
    before = b.apply("cumsum", b.cast(mask, I64), attributes=AxisAttributes(0))
    last = b.size(size)
    position = b.apply("minimum", sub(b, before, b.constant(1, I64)), last)
    rows = ScatterAttributes(0, (size + 1,))
    indices = b.apply("scatter_add", select(b, mask, position, last), count_up(b, count), attributes=rows)
    return part(b, indices, 0, ZERO, size)


def _infer_nonzero(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "any")
    if not types[0].rank:
        raise OpError("E0313", "`nonzero` needs a tensor of at least one axis", blame=0, label=str(types[0]))
    return tuple(tensor(I64, sized(attributes)) for _ in types[0].shape)


def _evaluate_nonzero(operands: Sequence[Array], attributes: Attributes, sizes: Sizes) -> Sequence[Array]:
    indices = np.nonzero(operands[0])
    (size,) = concrete((sized(attributes),), sizes)
    if indices[0].size != size:
        raise RunError(f"there are {indices[0].size} elements that are set, not {size}", code=WRONG_SIZE)
    return [each.astype(np.int64) for each in indices]


def _decompose_nonzero(b: Builder, node: Node) -> Sequence[Value]:
    (x,) = node.operands
    flat = b.reshape(is_set(b, x), (x.tensor.elements,))
    rest = true_indices(b, flat, sized(node.attributes))
    indices: list[Value] = []
    for count in reversed(x.tensor.shape[1:]):
        rows = b.apply("floordiv", rest, b.size(count))
        indices.append(sub(b, rest, mul(b, rows, b.size(count))))
        rest = rows
    return [rest, *reversed(indices)]


def _nonzero_samples() -> Sequence[Sample]:
    def case(x: Array, kind: str = "regular", size: int | None = None) -> Sample:
        count = int(np.count_nonzero(x)) if size is None else size
        return samples.sample(x, attributes=SizedAttributes(dim(count)), kind=kind)

    def mask(shape: tuple[int, ...], dtype: DTypeLike = np.bool_) -> Array:
        return np.asarray(samples.numbers(shape, np.bool_)).astype(dtype)

    return [
        case(mask((7,))),
        case(mask((3, 5))),
        case(mask((2, 3, 2))),
        case(mask((9,), np.int32)),
        case(np.array([0.0, -0.0, np.nan, 2.0, np.inf], np.float32)),
        case(np.zeros(4, np.bool_), "edge"),
        case(np.ones((2, 2), np.bool_), "edge"),
        case(np.zeros((0,), np.bool_), "edge"),
        case(np.zeros((3, 0), np.int8), "edge"),
        case(np.array(True), "invalid", 1),
        case(np.ones(2, np.complex64), "invalid", 2),
    ]


register(
    OpRecord(
        name="nonzero",
        family="measured size",
        summary=(
            "The positions of the elements that are true, or not zero, in row-major order: as many tensors as `x` has "
            "axes, as in NumPy; for one axis just the one, so that `x[nonzero(m)]` picks what is set."
        ),
        signature="fn nonzero[T: any, ..S, N](x: T[..S]) -> i64[N]",
        parameters=(Parameter("x"),),
        infer=_infer_nonzero,
        evaluate=_evaluate_nonzero,
        lowering=Decompose(_decompose_nonzero),
        attributes=SizedAttributes,
        constraints=("the element type of `x` is any but a complex one.", "`x` has at least one axis."),
        no_gradient="positions are whole numbers",
        samples=_nonzero_samples,
        smooth=False,
    )
)
