"""The record of an op: everything that is mathematical about it, and nothing about a pass or a machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dfc.ir.attributes import Attributes, NoAttributes
from dfc.ir.dims import Symbol
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType

if TYPE_CHECKING:
    from dfc.kernels.body import BodyBuilder
    from dfc.ops.builder import Builder

Array = NDArray[np.generic]
Sizes = Mapping[Symbol, int]


class OpError(Exception):
    """Operands that do not fit. The front end turns it into a diagnostic on the author's text.

    `blame` is the operand number or the parameter name the caret belongs under, None for the whole expression.
    """

    def __init__(
        self,
        code: str,
        title: str,
        *,
        blame: int | str | None = None,
        label: str = "",
        notes: Sequence[str] = (),
        helps: Sequence[str] = (),
    ) -> None:
        super().__init__(title)
        self.code = code
        self.title = title
        self.blame = blame
        self.label = label
        self.notes = tuple(notes)
        self.helps = tuple(helps)


class Effect(Enum):
    """What an op does besides making values. Only PURE nodes may be shared, folded, moved or dropped at will."""

    PURE = "pure"
    RANDOM = "random"  # a deterministic function of its key; never folded or shared, dropped when unused
    READ = "read"
    WRITE = "write"
    CHECK = "check"
    HOST = "host"
    REGION = "region"  # the union of what its regions do


@dataclass(frozen=True, slots=True)
class Elementwise:
    """Lowering: each output element from the operands' elements at the same (broadcast) point.

    `emit(body, arguments, node)` appends instructions and returns the index of the result.
    """

    emit: Callable[[BodyBuilder, Sequence[int], Node], int]


@dataclass(frozen=True, slots=True)
class Reduce:
    """Lowering: fold `combine` (add mul max min and or) over the reduced axes of `before(element)`, then `after`.

    `after(body, total, node)` may use `body.dim(count)`; None is the identity.
    """

    combine: str
    before: Callable[[BodyBuilder, int, Node], int] | None = None
    after: Callable[[BodyBuilder, int, Node], int] | None = None


@dataclass(frozen=True, slots=True)
class Decompose:
    """Lowering: rewrite into simpler ops before fusion. Returns one value per result."""

    rewrite: Callable[[Builder, Node], Sequence[Value]]


@dataclass(frozen=True, slots=True)
class Structural:
    """Lowering known to the fusion pass by name: views (reshape, transpose, ..), gather, scatter, matmul, state, regions."""


Lowering = Elementwise | Reduce | Decompose | Structural


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of the prelude function of an op: a tensor operand, or a constant that becomes an attribute.

    `kind`: tensor, const, type. `default` is the source text of its default ("" if required).
    """

    name: str
    kind: str = "tensor"
    type: str = ""
    default: str = ""
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Sample:
    """Inputs for tests: arrays with NumPy dtypes, attributes. `kind` is regular, edge or invalid (then infer raises)."""

    operands: tuple[Array, ...]
    attributes: Attributes = field(default_factory=NoAttributes)
    kind: str = "regular"


InferTypes = Callable[[Sequence[TensorType], Attributes], Sequence[TensorType]]
Evaluate = Callable[[Sequence[Array], Attributes, Sizes], Sequence[Array]]
Gradient = Callable[["Builder", Node, Sequence[Value | None]], Sequence[Value | None]]


@dataclass(frozen=True, slots=True)
class OpRecord:
    """One op.

    `signature` is its declaration in the language (what `dfc ops NAME` and messages show); `constraints` are the
    numbered conditions that `infer` checks, in words. `evaluate` is the reference meaning in NumPy. `gradient(builder,
    node, cotangents)` returns one cotangent (or None) per operand; `no_gradient` says why there is none.
    `identities` are algebraic facts, named rows that `simplify` knows how to use.
    """

    name: str
    family: str
    summary: str
    signature: str
    parameters: tuple[Parameter, ...]
    infer: InferTypes
    evaluate: Evaluate
    lowering: Lowering
    attributes: type[Attributes] = NoAttributes
    constraints: tuple[str, ...] = ()
    gradient: Gradient | None = None
    no_gradient: str = ""
    identities: tuple[str, ...] = ()
    effect: Effect = Effect.PURE
    samples: Callable[[], Sequence[Sample]] = tuple
    smooth: bool = True
    in_prelude: bool = True
