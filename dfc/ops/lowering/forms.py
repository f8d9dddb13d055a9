"""The forms that a record's `lowering` can have, and what each of them says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dfc.deferred.dataclasses import dataclass
from dfc.ir.attributes import Attributes
from dfc.ir.dtypes import DType
from dfc.ir.graph import Node, Value

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
class Structural:
    """Lowering known to the fusion pass by name: views (reshape, transpose, ..), gather, scatter, matmul, regions .."""


Lowering = Elementwise | Reduce | Scan | Decompose | HostCall | Structural
