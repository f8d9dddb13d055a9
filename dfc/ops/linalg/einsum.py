"""einsum: products of tensors whose axes are named, summed over the labels that the result does not have.

Pairs of operands are multiplied from left to right: with a matrix product where both have an axis that the other one
lacks, else element by element. What only one operand has and nobody needs is summed first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dfc.deferred.dataclasses import dataclass
from dfc.ir.attributes import Attributes
from dfc.ir.dims import ONE, Dim, product
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops import samples
from dfc.ops.attributes import DiagonalAttributes, EquationAttributes
from dfc.ops.binding import wrong
from dfc.ops.builder import Builder
from dfc.ops.conditions import require_class, require_same_dtype
from dfc.ops.gradients import mul, widened
from dfc.ops.linalg.equations import RULE, Equation, parse_equation, sizes_of
from dfc.ops.linalg.rules import PRODUCT
from dfc.ops.lowering.forms import Decompose
from dfc.ops.numeric import narrow, widen
from dfc.ops.record import Arguments, Array, OpError, OpRecord, Parameter, Sample, Sizes
from dfc.ops.registry import register

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

Cotangents = Sequence[Value | None]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A tensor with a label for each axis."""

    value: Value
    labels: str

    def size(self, label: str) -> Dim:
        return self.value.tensor.shape[self.labels.index(label)]

    def without(self, b: Builder, unneeded: str) -> Labelled:
        """Summed over some labels."""
        axes = tuple(axis for axis, label in enumerate(self.labels) if label in unneeded)
        return Labelled(b.sum(self.value, axes), "".join(c for c in self.labels if c not in unneeded))

    def ordered(self, b: Builder, labels: str) -> Labelled:
        """The axes in another order; labels that are missing become axes of size 1."""
        present = [label for label in labels if label in self.labels]
        order = tuple(self.labels.index(label) for label in present)
        value = self.value if order == tuple(range(len(order))) else b.transpose(self.value, order)
        shape = tuple(self.size(label) if label in self.labels else ONE for label in labels)
        return Labelled(b.reshape(value, shape), labels)


def _equation(attributes: Attributes) -> Equation:
    assert isinstance(attributes, EquationAttributes)
    return parse_equation(attributes.equation)


def _infer(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "number")
    require_same_dtype(types)
    equation = _equation(attributes)
    sizes = sizes_of(equation, types)
    for number, labels in enumerate(equation.inputs):
        if len(set(labels)) != len(labels):
            raise OpError("E0315", f"`{labels}` names an axis twice", blame=number)
    return (types[0].with_shape(tuple(sizes[label] for label in equation.output)),)


def _evaluate(operands: Sequence[Array], attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
    with np.errstate(all="ignore"):
        result: object = np.einsum(str(_equation(attributes)), *map(widen, operands))
    return (narrow(result, operands[0].dtype),)


def _times(b: Builder, x: Labelled, y: Labelled, needed: str) -> Labelled:
    """The product of two, with the labels that are needed later."""
    x = x.without(b, "".join(c for c in x.labels if c not in y.labels + needed))
    y = y.without(b, "".join(c for c in y.labels if c not in x.labels + needed))
    shared = "".join(c for c in x.labels if c in y.labels)
    batch = "".join(c for c in shared if c in needed)
    inner = "".join(c for c in shared if c not in needed)
    left = "".join(c for c in x.labels if c not in shared)
    right = "".join(c for c in y.labels if c not in shared)
    if left and right and inner:
        return _matrix_product(b, x, y, (batch, left, inner, right))
    labels = batch + left + right + inner
    wide = mul(b, widened(b, x.ordered(b, labels).value), widened(b, y.ordered(b, labels).value))
    total = Labelled(wide, labels).without(b, inner)
    return Labelled(b.cast(total.value, x.value.tensor.dtype), total.labels)


def _matrix_product(b: Builder, x: Labelled, y: Labelled, groups: tuple[str, str, str, str]) -> Labelled:
    batch, left, inner, right = groups
    sizes = [[source.size(c) for c in group] for source, group in ((x, batch), (x, left), (x, inner), (y, right))]
    rows, between, columns = product(sizes[1]), product(sizes[2]), product(sizes[3])
    a = b.reshape(x.ordered(b, batch + left + inner).value, (*sizes[0], rows, between))
    c = b.reshape(y.ordered(b, batch + inner + right).value, (*sizes[0], between, columns))
    result = b.reshape(b.apply("matmul", a, c), (*sizes[0], *sizes[1], *sizes[3]))
    return Labelled(result, batch + left + right)


def _decompose(b: Builder, node: Node) -> Sequence[Value]:
    equation = _equation(node.attributes)
    rest = [Labelled(value, labels) for value, labels in zip(node.operands, equation.inputs, strict=True)]
    total = rest.pop(0)
    while rest:
        needed = equation.output + "".join(other.labels for other in rest[1:])
        total = _times(b, total, rest.pop(0), needed)
    total = total.without(b, "".join(c for c in total.labels if c not in equation.output))
    return (total.ordered(b, equation.output).value,)


def _gradient(b: Builder, node: Node, cotangents: Cotangents) -> Cotangents:
    """For each operand: the gradients times all other operands, summed over what the operand does not have."""
    (dy,) = cotangents
    if dy is None:
        return [None for _ in node.operands]
    equation = _equation(node.attributes)
    gradients: list[Value | None] = []
    for number, (operand, labels) in enumerate(zip(node.operands, equation.inputs, strict=True)):
        others = [pair for i, pair in enumerate(zip(node.operands, equation.inputs, strict=True)) if i != number]
        known = equation.output + "".join(other for _, other in others)
        kept = "".join(label for label in labels if label in known)
        back = Equation((equation.output, *(other for _, other in others)), kept)
        gradient = b.apply("einsum", dy, *(v for v, _ in others), attributes=EquationAttributes(str(back)))
        shape = tuple(size if c in kept else ONE for c, size in zip(labels, operand.tensor.shape, strict=True))
        gradients.append(b.broadcast(b.reshape(gradient, shape), operand.tensor.shape))
    return gradients


def build_einsum(b: Builder, operands: Sequence[Value], arguments: Arguments) -> Value:
    """An operand with a label twice is replaced by its diagonal first."""
    text = arguments.get(RULE)
    if not isinstance(text, str):
        raise wrong(RULE, "a text")
    equation = parse_equation(text)
    sizes_of(equation, [v.tensor for v in operands])
    inputs: list[str] = []
    values: list[Value] = []
    for value, labels in zip(operands, equation.inputs, strict=True):
        while (twice := next((c for c in labels if labels.count(c) > 1), None)) is not None:
            first, second = labels.index(twice), labels.rindex(twice)
            value = b.apply("diagonal", value, attributes=DiagonalAttributes(first, second))
            labels = "".join(c for axis, c in enumerate(labels) if axis not in (first, second)) + twice
        inputs.append(labels)
        values.append(value)
    plain = Equation(tuple(inputs), equation.output)
    return b.apply("einsum", *values, attributes=EquationAttributes(str(plain)))


def _samples() -> Sequence[Sample]:
    def case(equation: str, *shapes: tuple[int, ...], kind: str = "regular", dtype: DTypeLike = np.float32) -> Sample:
        operands = [samples.numbers(shape, dtype, start=1.3 * i) for i, shape in enumerate(shapes)]
        return samples.sample(*operands, attributes=EquationAttributes(equation), kind=kind)

    heads = (2, 3, 2, 4), (2, 5, 2, 4)
    return [
        case("ij,jk->ik", (3, 4), (4, 2)),
        case("bthd,bshd->bhts", *heads),
        case("bhts,bshd->bthd", (2, 2, 3, 5), (2, 5, 2, 4)),
        case("ij->ji", (2, 3)),
        case("ij->", (2, 3)),
        case("i,i->", (5,), (5,)),
        case("i,j->ij", (3,), (4,)),
        case("ij,j->i", (3, 4), (4,)),
        case("ij,ij->ij", (2, 3), (2, 3)),
        case("ijk,kl->il", (2, 3, 4), (4, 2)),
        case("ij,jk,kl->li", (2, 3), (3, 4), (4, 2)),
        case("ab,cd->bd", (2, 3), (4, 5)),
        case("aij,ajk->ik", (2, 3, 4), (2, 4, 3)),
        case("ij,jk", (2, 3), (3, 2)),
        *(case("ij,jk->ik", (2, 3), (3, 2), dtype=d) for d in (np.float64, np.float16, np.int32)),
        case("ij,jk->ik", (0, 3), (3, 2), kind="edge"),
        case("ij,jk->ik", (2, 0), (0, 2), kind="edge"),
        case(",->", (), (), kind="edge"),
        case("i->i", (1,), kind="edge"),
        case("ij,jk->ik", (2, 3), (4, 2), kind="invalid"),
        case("ij,jk->ik", (2, 3), (3,), kind="invalid"),
        case("ij->ik", (2, 3), kind="invalid"),
        case("ij->ii", (2, 3), kind="invalid"),
        case("ii->i", (2, 2), kind="invalid"),
        case("i..->i", (2, 2), kind="invalid"),
        case("i1->i", (2, 2), kind="invalid"),
        case("i,i->", (2,), kind="invalid"),
        case("i->i", (2,), kind="invalid", dtype=np.bool_),
    ]


register(
    OpRecord(
        name="einsum",
        family="product",
        summary=(
            "The product of tensors whose axes are named by letters, summed over the letters that the result does not "
            'have: `einsum("bthd,bshd->bhts", q, k)`. A letter twice in one operand takes the diagonal. Without `->` '
            "the result has the letters that occur once, in the order of the alphabet."
        ),
        signature="fn einsum[T: number, ..R](const rule: str, operands: tensors) -> T[..R]",
        parameters=(
            Parameter("rule", "const", "str", doc='The axes: "ij,jk->ik".'),
            Parameter("operands", "tensors"),
        ),
        infer=_infer,
        evaluate=_evaluate,
        lowering=Decompose(_decompose),
        attributes=EquationAttributes,
        constraints=(
            "the element types are equal and a number type.",
            "one letter for each axis of each operand.",
            "a letter has one size.",
            "the letters of the result differ, and each is one of an operand.",
            "the node: the letters of an operand differ (a call takes diagonals first).",
        ),
        gradient=_gradient,
        samples=_samples,
        in_prelude=False,
        build=build_einsum,
        rules=PRODUCT,
    )
)
