"""Registration of ops that are calls of the host: what all ops of one resource have in common is said once.

Guarantees records with the effect of a host call, whose lowering is a request of the name of the op; none of them is a
function of the prelude, since the language has statements or methods for what they do.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.ir.attributes import Attributes
from dfc.ir.types import TensorType
from dfc.ops.lowering.forms import HostCall
from dfc.ops.record import Array, Effect, Evaluate, InferTypes, OpRecord, Parameter, Sizes
from dfc.ops.registry import register
from dfc.ops.rules.op_rules import DEFAULTS, OpRules
from dfc_runtime.errors import UnsupportedError


@dataclass(frozen=True, slots=True)
class HostOps:
    """What ops of a family share: the pseudo-resource whose token orders them, why they have no gradient, what they are
    in the evaluator and to passes."""

    family: str
    resource: str
    no_gradient: str
    evaluate: Evaluate
    rules: OpRules = DEFAULTS

    def register(
        self,
        name: str,
        summary: str,
        signature: str,
        parameters: tuple[Parameter, ...],
        infer: InferTypes,
        attributes: type[Attributes],
        constraints: tuple[str, ...] = (),
        *,
        rules: OpRules | None = None,
    ) -> None:
        """Registers one of them; `rules` in place of those of the family."""
        register(
            OpRecord(
                name=name,
                family=self.family,
                summary=summary,
                signature=signature,
                parameters=parameters,
                infer=infer,
                evaluate=self.evaluate,
                lowering=HostCall(name, self.resource),
                attributes=attributes,
                constraints=constraints,
                no_gradient=self.no_gradient,
                effect=Effect.HOST,
                in_prelude=False,
                rules=self.rules if rules is None else rules,
            )
        )


def not_evaluated(why: str) -> Evaluate:
    """The meaning of ops that the evaluator, which is one thread without files and a network, cannot have."""

    def refuse(operands: Sequence[Array], attributes: Attributes, sizes: Sizes) -> Sequence[Array]:
        del operands, attributes, sizes
        raise UnsupportedError(why, code="E1001")

    return refuse


def no_results(types: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    """The types of an op that gives nothing but its token."""
    del types, attributes
    return ()
