"""Comparisons and logic, element by element. They return bool and have no gradient; comparison with NaN is false."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dfc.deferred.modules import numpy_function
from dfc.ir.attributes import Attributes
from dfc.ir.dtypes import BOOL
from dfc.ir.types import TensorType
from dfc.ops import samples
from dfc.ops.conditions import elementwise
from dfc.ops.elementwise.rules import ELEMENTWISE, EQUAL
from dfc.ops.lowering.forms import Elementwise
from dfc.ops.numeric import Numeric, widen
from dfc.ops.record import Array, Evaluate, InferTypes, OpRecord, Parameter, Sizes, declared
from dfc.ops.registry import register
from dfc.ops.rules.op_rules import OpRules


def _infer(bound: str) -> InferTypes:
    def infer(types: Sequence[TensorType], _attributes: Attributes) -> Sequence[TensorType]:
        return (elementwise(types, bound).with_dtype(BOOL),)

    return infer


def _evaluate(meaning: Callable[[Numeric, Numeric], object]) -> Evaluate:
    def evaluate(operands: Sequence[Array], _attributes: Attributes, _sizes: Sizes) -> Sequence[Array]:
        a, b = operands
        return (np.asarray(meaning(widen(a), widen(b)), np.bool_),)

    return evaluate


def comparison(
    name: str,
    operator: str,
    bound: str,
    summary: str,
    meaning: Callable[[Numeric, Numeric], object],
    *facts: str,
    rules: OpRules = ELEMENTWISE,
) -> OpRecord:
    """Registers an op of two operands of one type that returns bool."""
    element, generics = ("bool", "..S") if bound == "bool" else ("T", f"T: {bound}, ..S")
    return register(
        OpRecord(
            name=name,
            family="element-wise",
            summary=summary,
            signature=f"fn {declared(name)}[{generics}](a: {element}[..S], b: {element}[..S]) -> bool[..S]",
            parameters=(Parameter("a"), Parameter("b")),
            infer=_infer(bound),
            evaluate=_evaluate(meaning),
            lowering=Elementwise(lambda body, arguments, _node: body.apply(name, *arguments)),
            constraints=(
                f"the element types are equal and of class `{bound}`.",
                "the shapes broadcast: a literal 1 stretches, a symbol never.",
                "if one operand has fewer axes, the other has the shape of the result.",
            ),
            no_gradient=f"`{operator}` returns truth values",
            identities=facts,
            samples=samples.binary(bound),
            smooth=False,
            in_prelude=False,
            operator=operator,
            rules=rules,
        )
    )


comparison(
    "equal",
    "==",
    "any",
    "True where the operands are equal; -0 equals 0, NaN nothing.",
    numpy_function("equal"),
    "commutative",
    rules=EQUAL,
)
comparison(
    "not_equal",
    "!=",
    "any",
    "True where the operands differ; NaN differs from itself.",
    numpy_function("not_equal"),
    "commutative",
)
comparison("less", "<", "number", "True where a is below b.", numpy_function("less"))
comparison(
    "less_equal", "<=", "number", "True where a is not above b, and neither is NaN.", numpy_function("less_equal")
)
comparison("greater", ">", "number", "True where a is above b.", numpy_function("greater"))
comparison(
    "greater_equal", ">=", "number", "True where a is not below b, and neither is NaN.", numpy_function("greater_equal")
)
comparison(
    "and",
    "and",
    "bool",
    "True where both are true. Both are computed.",
    numpy_function("logical_and"),
    "commutative",
    "neutral true",
    "absorbing false",
    "idempotent",
)
comparison(
    "or",
    "or",
    "bool",
    "True where one is true. Both are computed.",
    numpy_function("logical_or"),
    "commutative",
    "neutral false",
    "absorbing true",
    "idempotent",
)
