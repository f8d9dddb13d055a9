"""Functions with a gradient of their own: `custom` stands for a call, `cotangent` for what comes back to it.

A call is elaborated in place: first the body, then the gradient body over `cotangent(result)`, then a `custom` node
that hands the results on. The backward pass computes the gradients again with real cotangents in place of these.
Forward, a `custom` node is its first operands, and nothing uses a `cotangent`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dfc.ir.attributes import Attributes
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops import samples
from dfc.ops.attributes import CustomAttributes
from dfc.ops.builder import Builder
from dfc.ops.conditions import require_class
from dfc.ops.lowering.forms import Decompose
from dfc.ops.record import Arguments, Array, OpError, OpRecord, Parameter, Sample, Sizes
from dfc.ops.registry import register


def _results(attributes: Attributes) -> int:
    assert isinstance(attributes, CustomAttributes)
    return attributes.results


def _infer_custom(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    count = _results(attributes)
    half, odd = divmod(len(types), 2)
    if odd or not 0 < count < half:
        raise OpError("E0505", "results, parameters, cotangents and gradients do not pair up")
    require_class(types, "float")
    if list(types[:half]) != list(types[half:]):
        raise OpError("E0505", "a cotangent or a gradient has another type than what it belongs to", blame=half)
    return tuple(types[:count])


def _evaluate_custom(operands: Sequence[Array], attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
    return operands[: _results(attributes)]


def _first_operands(_builder: Builder, node: Node) -> Sequence[Value]:
    return node.operands[: _results(node.attributes)]


def _bind_custom(arguments: Arguments, _types: Sequence[TensorType]) -> Attributes:
    count = arguments.get("results")
    assert isinstance(count, int)
    return CustomAttributes(count)


def _custom_samples() -> Sequence[Sample]:
    one = CustomAttributes(1)
    x, y, z = samples.numbers((2, 3)), samples.numbers((4,)), np.array(0.5, np.float32)
    return [
        samples.sample(x, y, x, y, attributes=one),
        samples.sample(y, x, z, y, x, z, attributes=one),
        samples.sample(y, x, z, y, x, z, attributes=CustomAttributes(2)),
        samples.sample(z, z, z, z, attributes=one, kind="edge"),
        samples.sample(x, y, x, attributes=one, kind="invalid"),
        samples.sample(x, y, y, x, attributes=one, kind="invalid"),
    ]


register(
    OpRecord(
        name="custom",
        family="gradient",
        summary="The results of a function that says itself what its gradients are.",
        signature="fn custom(values: tensors, const results: int) -> tensors",
        parameters=(Parameter("values", "tensors"), Parameter("results", "const", "int")),
        infer=_infer_custom,
        evaluate=_evaluate_custom,
        lowering=Decompose(_first_operands),
        attributes=CustomAttributes,
        bind=_bind_custom,
        constraints=(
            "the values are results, parameters, cotangents of the results, gradients for the parameters.",
            "all are floating-point.",
            "cotangents and gradients have the types of what they belong to.",
        ),
        no_gradient="the gradients among its operands are its gradient",
        samples=_custom_samples,
        in_prelude=False,
    )
)


def _infer_cotangent(types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "float")
    return (types[0],)


def _zeros(builder: Builder, node: Node) -> Sequence[Value]:
    like = node.operands[0]
    return [builder.broadcast(builder.scalar_like(0, like), like.tensor.shape)]


def _cotangent_samples() -> Sequence[Sample]:
    return [
        *(samples.sample(samples.numbers(shape)) for shape in ((2, 3), (4,), (1, 5))),
        samples.sample(np.array(0.5, np.float32), kind="edge"),
        samples.sample(np.array(1, np.int32), kind="invalid"),
        samples.sample(np.array([True]), kind="invalid"),
    ]


register(
    OpRecord(
        name="cotangent",
        family="gradient",
        summary="The gradient of the loss with respect to x, in a `gradient`; zeros where nothing comes back.",
        signature="fn cotangent[T: float, ..S](x: T[..S]) -> T[..S]",
        parameters=(Parameter("x"),),
        infer=_infer_cotangent,
        evaluate=lambda operands, _attributes, _sizes: (np.zeros_like(operands[0]),),
        lowering=Decompose(_zeros),
        constraints=("x is floating-point.",),
        no_gradient="it only holds a place",
        samples=_cotangent_samples,
        smooth=False,
        in_prelude=False,
    )
)
