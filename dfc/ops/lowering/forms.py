"""The forms that a record's `lowering` can have, and what each of them says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dfc.deferred.dataclasses import dataclass
from dfc.ir.attributes import Attributes
from dfc.ir.dtypes import DType
from dfc.ir.graph import Node, Value
from dfc.kernels.body import Affine
from dfc.ops.lowering.index_maps import Point, along

if TYPE_CHECKING:
    from dfc.kernels.body import BodyBuilder
    from dfc.ops.builder import Builder


@dataclass(frozen=True, slots=True)
class Elementwise:
    """Lowering: each output element from the operands' elements at the same (broadcast) point.

    `emit(body, arguments, node)` appends instructions and returns the index of the result. It gives no fault sites:
    whoever calls it gives one to each instruction it appended that may fail.
    """

    emit: Callable[[BodyBuilder, Sequence[int], Node], int]


@dataclass(frozen=True, slots=True)
class Reduce:
    """Lowering: reduce by `combine` (add mul max min and or) over the reduced axes of `before(element)`, then `after`.

    `after(body, total, node)` may use `body.size(count)`; None is the identity. No element reduces to the neutral one
    (0, 1, false, true, -inf or the lowest integer for max, +inf or the highest for min).
    """

    combine: str
    before: Callable[[BodyBuilder, int, Node], int] | None = None
    after: Callable[[BodyBuilder, int, Node], int] | None = None


@dataclass(frozen=True, slots=True)
class ArgReduce:
    """Lowering: where along the axis of the attributes (`ArgAttributes`) the largest (argmax) or smallest (argmin)
    element is, the first of equals."""

    combine: str


@dataclass(frozen=True, slots=True)
class Scan:
    """Lowering: scan by `combine` (add mul maximum minimum) along the axis of the attributes, keeping every step: each
    element with the result before it, the first one with `neutral` of the element type."""

    combine: str
    neutral: Callable[[DType], float]


@dataclass(frozen=True, slots=True)
class Decompose:
    """Lowering: rewrite into simpler ops before fusion. Returns one value per result.

    `routine`: the name of what computes the same of f64 operands (`dfc.kernels.routines`). A target that has routines
    gets a kernel for it, others what `rewrite` makes.
    """

    rewrite: Callable[[Builder, Node], Sequence[Value]]
    routine: Callable[[Attributes], str] | None = None


@dataclass(frozen=True, slots=True)
class HostCall:
    """Lowering: a call of the run side: the handler for `kind` gets the operands and the plain fields of the attributes
    (bool, int, float, str, tuples of str), and fills the results. `resource` is a pseudo-resource such as
    `@network`: calls with the same one keep their order. The node's last operand and result are its token."""

    kind: str
    resource: str


@dataclass(frozen=True, slots=True)
class View:
    """Lowering: each element is one of the first operand's. `index_map(node)` says which: for each axis of the operand
    an index, affine in the axes of the result. All that passes ask of such an op follows from the map (`views`)."""

    index_map: Callable[[Node], Point]


@dataclass(frozen=True, slots=True)
class MaskedView:
    """Lowering: each element is one of the first operand's, as for `View`, or the second operand, a single number.

    `steps(node)` has the axes of the operand, ascending, along which the map leaves it, with a step each: the number
    stands where an index is outside, or no multiple of the step; the element read is that at the index by the step.
    """

    index_map: Callable[[Node], Point]
    steps: Callable[[Node], Sequence[tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class Reshape:
    """Lowering: the elements of the operand in row-major order, in the shape of the result: the same memory."""


@dataclass(frozen=True, slots=True)
class Picked:
    """An index that another operand holds: at `point`, over the axes of the result."""

    operand: int
    point: Point


@dataclass(frozen=True, slots=True)
class Pick:
    """Lowering: each element is one of the first operand's, at indices some of which other operands hold: whole
    numbers, negative ones from the end; the run ends for one outside. Every axis has one index, in `index_map(node)`.
    """

    index_map: Callable[[Node], tuple[Affine | Picked, ...]]


def gather_map(rank: int, ids: Sequence[tuple[int, int]]) -> tuple[Affine | Picked, ...]:
    """How rows are picked by number from a tensor of this rank: `ids` are the axes they are picked along, ascending,
    with the rank of the operand that has the numbers, whose axes stand where the axis was."""
    ranks = dict(ids)
    numbers = {axis: number for number, axis in enumerate(ranks, 1)}
    index_map: list[Affine | Picked] = []
    position = 0
    for axis in range(rank):
        width = ranks.get(axis, 1)
        point = tuple(along(position + each) for each in range(width))
        index_map.append(Picked(numbers[axis], point) if axis in ranks else point[0])
        position += width
    return tuple(index_map)


@dataclass(frozen=True, slots=True)
class Generator:
    """Lowering: each element from its position alone: `emit(body, position, node)` gets the instruction of an i64 for
    each axis of the result, and gives no fault sites (it cannot fail). It is computed wherever it is used."""

    emit: Callable[[BodyBuilder, Sequence[int], Node], int]


@dataclass(frozen=True, slots=True)
class RandomNumbers:
    """Lowering: random numbers, each a function of its row-major position and of a key: three words that are known
    (`key(node)`), or (None) that the first operand has."""

    distribution: Callable[[Node], str]
    key: Callable[[Node], tuple[int, int, int]] | None = None


@dataclass(frozen=True, slots=True)
class ContractAxes:
    """Which axis of a contraction each axis of its operands is: those of the result by their numbers, and behind them
    the one that is summed over, which both operands have. Every axis of the result is one of an operand's, or of
    both."""

    left: tuple[int, ...]
    right: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Contract:
    """Lowering: sums of products of elements of two operands, which have the element type of the result. `axes(node)`
    says which: the last two axes of the result, one from each operand, make a product of matrices, the others its
    batch; what has none of that form is computed element by element."""

    axes: Callable[[Node], ContractAxes]


@dataclass(frozen=True, slots=True)
class Concat:
    """Lowering: the operands one after the other along an axis."""

    axis: Callable[[Node], int]


@dataclass(frozen=True, slots=True)
class ScatterAdd:
    """Lowering: zeros, plus the rows of the second operand, in their order, where the first says along an axis: its
    axes stand where the axis was. The run ends for a number outside; negative ones count from the end."""

    axis: Callable[[Node], int]


@dataclass(frozen=True, slots=True)
class Structural:
    """Lowering of what is the graph's own: regions, state, checks, literals. The stages of lowering know these by
    name (`dfc.ir.structural`)."""


Lowering = (
    Elementwise
    | Reduce
    | ArgReduce
    | Scan
    | Decompose
    | HostCall
    | View
    | MaskedView
    | Reshape
    | Pick
    | Generator
    | RandomNumbers
    | Contract
    | Concat
    | ScatterAdd
    | Structural
)
