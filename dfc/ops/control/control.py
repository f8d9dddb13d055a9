"""Ops with regions, checks, and the gradient ops that `autodiff` removes.

The types of region ops come from their regions (`dfc.ops.check`), and the evaluator runs them itself
(`dfc.ops.evaluate`); their records are for documentation and for what passes ask of every op.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dfc.ir.attributes import Attributes, NoAttributes
from dfc.ir.types import TensorType
from dfc.ops import samples
from dfc.ops.attributes import AssertAttributes, ForAttributes
from dfc.ops.conditions import require_class
from dfc.ops.lowering.forms import Structural
from dfc.ops.record import EXPRESSION, Array, Effect, Evaluate, InferTypes, OpError, OpRecord, Parameter, Sample, Sizes
from dfc.ops.registry import register
from dfc.ops.rules.op_rules import DEFAULTS
from dfc_runtime.errors import RunError


def _by_regions(name: str) -> InferTypes:
    def infer(_types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
        raise AssertionError(f"the types of `{name}` come from its regions")

    return infer


def _not_here(name: str, reason: str) -> Evaluate:
    def evaluate(_operands: Sequence[Array], _attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
        raise AssertionError(f"`{name}` has no meaning of its own: {reason}")

    return evaluate


def _register_region(
    name: str, attributes: type[Attributes], summary: str, signature: str, parameters: tuple[Parameter, ...]
) -> None:
    register(
        OpRecord(
            name=name,
            family="control",
            summary=summary,
            signature=signature,
            parameters=parameters,
            infer=_by_regions(name),
            evaluate=_not_here(name, "the evaluator runs its regions"),
            lowering=Structural(),
            attributes=attributes,
            constraints=("parameters and outputs of the regions fit the operands and results.",),
            no_gradient=f"gradients through `{name}` are not a row of the table",
            effect=Effect.REGION,
            in_prelude=False,
            operator=name,
            rules=DEFAULTS,
        )
    )


_register_region(
    "if",
    NoAttributes,
    "Runs one of two regions. Both see the values around them and return values of the same types.",
    "proc if_(condition: bool)",
    (Parameter("condition", type="bool"),),
)
_register_region(
    "while",
    NoAttributes,
    "Runs the body as long as the condition holds. Carried values keep their types.",
    "proc while_(carries: tensors) -> tensors",
    (Parameter("carries", "tensors"),),
)
_register_region(
    "for",
    ForAttributes,
    "Runs the body for index = start .. stop - 1; carries go from iteration to iteration, emitted values are stacked.",
    "proc for_[I: int](start: I, stop: I, carries: tensors) -> tensors",
    (Parameter("start"), Parameter("stop"), Parameter("carries", "tensors")),
)


def _infer_assert(types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
    require_class(types, "bool")
    if types[0].rank:
        raise OpError(
            "E0308",
            "`assert` needs a single bool, not one per element",
            blame=0,
            label=str(types[0]),
            helps=("to ask about all of them at once, write `all({0})`",),
            replaces={0: 0},
        )
    return ()


def _evaluate_assert(operands: Sequence[Array], attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
    assert isinstance(attributes, AssertAttributes)
    if not bool(operands[0]):
        raise RunError(attributes.message or f"assertion failed: {attributes.condition_text}", code="E0903")
    return ()


def _assert_samples() -> Sequence[Sample]:
    text = AssertAttributes("", "x > 0")
    return [
        samples.sample(np.array(True), attributes=text),
        samples.sample(np.array(True), attributes=AssertAttributes("x must be positive", "x > 0")),
        samples.sample(np.array(1 > 0), attributes=text),
        samples.sample(np.array(True), attributes=AssertAttributes("", ""), kind="edge"),
        samples.sample(np.array([True]), attributes=text, kind="invalid"),
        samples.sample(np.array(1.0), attributes=text, kind="invalid"),
    ]


register(
    OpRecord(
        name="assert",
        family="control",
        summary="Stops the call with the message if the condition is false.",
        signature="proc assert_(condition: bool)",
        parameters=(Parameter("condition", type="bool"),),
        infer=_infer_assert,
        evaluate=_evaluate_assert,
        lowering=Structural(),
        attributes=AssertAttributes,
        constraints=("the condition is a single bool.",),
        no_gradient="`assert` returns nothing",
        effect=Effect.CHECK,
        samples=_assert_samples,
        in_prelude=False,
        operator="assert",
        rules=DEFAULTS,
    )
)


def _infer_grad(types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
    loss, *targets = types
    if loss.rank:
        raise OpError(
            "E0503",
            "only a single number has a gradient",
            blame=0,
            label=str(loss),
            helps=("average them: `grad(mean({0}), {1})`", "for one row per element of the loss, use `jacobian`"),
            replaces={0: EXPRESSION},
        )
    require_class(types, "float")
    return tuple(targets)


def _infer_jacobian(types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
    y, x = types
    require_class(types, "float")
    if y.rank > 1:
        raise OpError("E0313", "`jacobian` needs a single number or a vector", blame=0, label=str(y))
    return (y.with_shape(y.shape + x.shape),)


def _gradient_samples(invalid: Sequence[Sample]) -> Sequence[Sample]:
    loss = np.array(1.0, np.float32)
    regular = [samples.sample(loss, samples.numbers(shape)) for shape in ((2, 3), (4,), (1, 5))]
    return [*regular, samples.sample(loss, loss, kind="edge"), *invalid]


register(
    OpRecord(
        name="grad",
        family="gradient",
        summary="The gradient of a single number with respect to each target: the variables or values above it.",
        signature="fn grad[T: float](loss: T, targets: tensors) -> tensors",
        parameters=(Parameter("loss"), Parameter("targets", "tensors")),
        infer=_infer_grad,
        evaluate=_not_here("grad", "`autodiff` replaces it"),
        lowering=Structural(),
        constraints=("the loss is a single number.", "all are floating-point."),
        no_gradient="`autodiff` differentiates what it becomes",
        samples=lambda: _gradient_samples(
            [
                samples.sample(samples.numbers((2,)), samples.numbers((2,)), kind="invalid"),
                samples.sample(np.array(1, np.int32), samples.numbers((2,)), kind="invalid"),
            ]
        ),
        rules=DEFAULTS,
    )
)
register(
    OpRecord(
        name="jacobian",
        family="gradient",
        summary="The gradient of each element of a vector (or of a single number) with respect to each element of `x`.",
        signature="fn jacobian[T: float, ..A, ..S, ..R](y: T[..A], x: T[..S]) -> T[..R]",
        parameters=(Parameter("y"), Parameter("x")),
        infer=_infer_jacobian,
        evaluate=_not_here("jacobian", "`autodiff` replaces it"),
        lowering=Structural(),
        constraints=("both are floating-point.", "`y` has at most one axis."),
        no_gradient="`autodiff` differentiates what it becomes",
        samples=lambda: _gradient_samples(
            [
                samples.sample(samples.numbers((2, 2)), samples.numbers((2,)), kind="invalid"),
                samples.sample(samples.numbers((2,)), samples.numbers((2,), np.int32), kind="invalid"),
            ]
        ),
        rules=DEFAULTS,
    )
)
