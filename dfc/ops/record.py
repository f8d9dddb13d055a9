"""The record of an op: everything that is mathematical about it, and nothing about a pass or a machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.suggestions import converted, grouped
from dfc.ir.attributes import Attributes, NoAttributes
from dfc.ir.dims import Dim, Symbol
from dfc.ir.dtypes import DType, DTypeVariable
from dfc.ir.graph import Node, Value
from dfc.ir.types import TensorType
from dfc.ops.lowering.forms import Lowering
from dfc.ops.rules.op_rules import OpRules

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfc.ops.builder import Builder

Array: TypeAlias = "NDArray[np.generic]"
Sizes = Mapping[Symbol, int]
ConstArgument: TypeAlias = (
    "bool | int | float | str | Dim | DType | DTypeVariable | TensorType | tuple[ConstArgument, ...] | None"
)
"""A constant argument of a call: lists are tuples, sizes `Dim` or int, `into = i64` a DType, `f32[B]` a TensorType."""
Arguments = Mapping[str, ConstArgument]
WORDS = frozenset({"and", "or", "not"})  # ops whose names are keywords of the language
TIGHTER_THAN_AS = frozenset({"**"})  # operators whose operands are no conversions, unless in parentheses
EXPRESSION = "@expression"  # a place of `replaces`: the whole expression
OPERATOR = "@operator"  # a `blame`: the operator sign of the expression (the whole call if there is none)


_APPLIED = re.compile(r"<<(.*?)\|\|(.*?)>>")


_CONVERTED = re.compile(r"\{(\d+) as (\w+)\}")
_GROUPED = re.compile(r"\{(\d+) grouped\}")
_LITERAL = re.compile(r"-?[0-9][\w.]*")
_WHOLE = re.compile(r"-?[0-9][0-9_]*")
_FLOAT = re.compile(r"b?f[0-9]+")


def applied(left: str, right: str) -> str:
    """In a text of an `OpError`: the operation on these operands, as an operator or as a call."""
    return f"<<{left}||{right}>>"


class OpError(Exception):
    """Operands that do not fit. The front end turns it into a diagnostic on the author's text.

    `blame` is the operand number, the parameter name or `OPERATOR`: where the caret belongs; None for the whole
    expression. `operand_labels` are words to put under operands besides. All texts may hold `{0}`, `{1}`, ..: the text
    of that operand as the author wrote it, `{0 as T}`: converted (of a number, the literal of that kind), `{op}`: the
    operator or function as written, `{0 grouped}`: in parentheses if an operator stands in it, and what `applied`
    makes: the whole expression with other operands. `filled` puts them in.

    `replaces` says of a help, by its number, that its last quoted text is to be typed in place of something: an operand
    (its number), an argument (the parameter's name), or the whole expression (`EXPRESSION`).
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
        operand_labels: Mapping[int, str] | None = None,
        replaces: Mapping[int, int | str] | None = None,
    ) -> None:
        super().__init__(title)
        self.code = code
        self.title = title
        self.blame = blame
        self.label = label
        self.notes = tuple(notes)
        self.helps = tuple(helps)
        self.operand_labels = dict(operand_labels or {})
        self.replaces = dict(replaces or {})

    def filled(self, op: str, operands: Sequence[str]) -> OpError:
        """The same error with the author's own texts in place of `{op}`, `{0}`, `{1}` .."""

        def apply(match: re.Match[str]) -> str:
            left, right = (_CONVERTED.sub(operand, side) for side in match.groups())
            return f"{op}({left}, {right})" if op.isidentifier() and op not in WORDS else f"{left} {op} {right}"

        def operand(match: re.Match[str]) -> str:
            return grouped(convert(match)) if op in TIGHTER_THAN_AS else convert(match)

        def convert(match: re.Match[str]) -> str:
            operand = operands[int(match[1])] if int(match[1]) < len(operands) else match[0]
            if not _LITERAL.fullmatch(operand):
                return converted(operand, match[2])
            if _FLOAT.fullmatch(match[2]):
                return f"{operand}.0" if _WHOLE.fullmatch(operand) else operand
            return converted(operand, match[2]) if "." in operand else operand

        def group(match: re.Match[str]) -> str:
            return grouped(operands[int(match[1])]) if int(match[1]) < len(operands) else match[0]

        def fill(text: str) -> str:
            text = _CONVERTED.sub(convert, _GROUPED.sub(group, _APPLIED.sub(apply, text)).replace("{op}", op))
            for number, operand in enumerate(operands):
                text = text.replace(f"{{{number}}}", operand)
            return text

        return OpError(
            self.code,
            fill(self.title),
            blame=self.blame,
            label=fill(self.label),
            notes=[fill(text) for text in self.notes],
            helps=[fill(text) for text in self.helps],
            operand_labels={number: fill(text) for number, text in self.operand_labels.items()},
            replaces=self.replaces,
        )


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
class Parameter:
    """One parameter of the prelude function of an op: a tensor operand, or a constant that becomes an attribute.

    `kind`: tensor (one operand), tensors (a list of tensors: any number of operands), const, type (a tensor type such
    as `f32[B]`). `type` of a const is one of: int, float, bool, str, dtype, ints (one int or a list), dims (a list of
    sizes), widths (see `pad`). `default` is the source text of its default ("" if required); an argument that is not
    given is absent from what `bind` gets, except that a tensor's default (a literal) is made by the caller in the
    element type of the first operand.
    """

    name: str
    kind: str = "tensor"
    type: str = ""
    default: str = ""
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Sample:
    """Inputs for tests: arrays, attributes. `kind` is regular, edge or invalid (then infer raises)."""

    operands: tuple[Array, ...]
    attributes: Attributes = field(default_factory=NoAttributes)
    kind: str = "regular"


InferTypes = Callable[[Sequence[TensorType], Attributes], Sequence[TensorType]]
Evaluate = Callable[[Sequence[Array], Attributes, Sizes], Sequence[Array]]
Demands = Callable[[Sequence[TensorType], Attributes], Sequence[tuple[Dim, Dim]]]
Gradient = Callable[["Builder", Node, Sequence[Value | None]], Sequence[Value | None]]


def _no_demands(_types: Sequence[TensorType], _attributes: Attributes) -> Sequence[tuple[Dim, Dim]]:
    return ()


@dataclass(frozen=True, slots=True)
class OpRecord:
    """One op.

    `signature` is its declaration in the language (what `dfc ops NAME` and messages show); `constraints` are the
    numbered conditions that `infer` checks, in words. `evaluate` is the reference meaning in NumPy. `gradient(builder,
    node, cotangents)` returns one cotangent (or None) per operand; `no_gradient` says why there is none.
    `no_gradient` beside a `gradient` says why an operand gets None. `identities` are algebraic facts, named rows that
    `simplify` knows how to use. `operator` is how the language spells it (then it is no prelude function).

    Calls: `bind` turns the constant arguments of a call into attributes (None: the op has none); it normalises axes
    and raises `OpError`. `build`, if given, makes the nodes of a call that is more than this one node. Both are used
    through `dfc.ops.binding.call`.

    `demands` lists sizes (low, high) with low <= high that `infer` cannot decide for symbols: proved or checked by the
    front end.

    `rules` are what passes ask about the op (see `OpRules`); what is left out is a safe default.

    State ops: where a token stands among the operands or results, `infer` and `evaluate` get and return the type and
    the value of the resource itself (for `assert`: nothing). Ops with regions and host ops are not evaluated here.
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
    operator: str = ""
    bind: Callable[[Arguments, Sequence[TensorType]], Attributes] | None = None
    build: Callable[[Builder, Sequence[Value], Arguments], Value] | None = None
    demands: Demands = _no_demands
    rules: OpRules = OpRules()


def declared(name: str) -> str:
    """The name of an op in a declaration: with a `_` behind it if it is a keyword."""
    return f"{name}_" if name in WORDS else name
