"""Equations of `einsum`: `"bthd,bshd->bhts"` names the axes of each operand and those of the result."""

from __future__ import annotations

from collections.abc import Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim
from dfc.ir.types import TensorType
from dfc.ops.broadcasting import same_dim
from dfc.ops.record import OpError
from dfc_runtime.errors import counted

RULE = "rule"


@dataclass(frozen=True, slots=True)
class Equation:
    """The labels of the axes of each operand, and those of the result."""

    inputs: tuple[str, ...]
    output: str

    def __str__(self) -> str:
        return f"{','.join(self.inputs)}->{self.output}"


def parse_equation(text: str) -> Equation:
    """Without `->` the result has the labels that occur once, in the order of the alphabet."""
    left, arrow, right = text.replace(" ", "").partition("->")
    if "." in text:
        raise _wrong(text, "`einsum` names every axis", "`..` is not understood here")
    inputs = tuple(left.split(","))
    odd = next((c for c in left + right if c != "," and not (c.isascii() and c.isalpha())), None)
    if odd is not None or "," in right:
        raise _wrong(text, f"`{odd or ','}` is no label of an axis", "labels are letters, operands have commas between")
    every = "".join(inputs)
    output = right if arrow else "".join(sorted(c for c in set(every) if every.count(c) == 1))
    for label in output:
        if label not in every:
            raise _wrong(text, f"no operand of `einsum` has an axis `{label}`", f'in "{text}"')
        if output.count(label) > 1:
            raise _wrong(text, f"the result of `einsum` has the axis `{label}` twice", f'in "{text}"')
    return Equation(inputs, output)


def _wrong(text: str, title: str, label: str) -> OpError:
    return OpError("E0315", title, blame=RULE, label=label, helps=(f'write it as `"ij,jk->ik"`, not `"{text}"`',))


def sizes_of(equation: Equation, types: Sequence[TensorType]) -> dict[str, Dim]:
    """The size of each label; `OpError` if operands disagree with the equation or with each other."""
    if len(types) != len(equation.inputs):
        label = f"{len(equation.inputs)} in the rule, {len(types)} given"
        raise OpError("E0315", "`einsum` has another number of operands than its rule", blame=RULE, label=label)
    extents: dict[str, tuple[Dim, int]] = {}
    for number, (labels, type_) in enumerate(zip(equation.inputs, types, strict=True)):
        if len(labels) != type_.rank:
            label = f"{type_} has {counted(type_.rank, 'axis')}"
            title = f"the rule names {counted(len(labels), 'axis')}: `{labels}`"
            raise OpError("E0313", title, blame=number, label=label)
        for label, size in zip(labels, type_.shape, strict=True):
            known, first = extents.setdefault(label, (size, number))
            if not same_dim(known, size):
                raise OpError(
                    "E0305",
                    f"the axis `{label}` has two sizes",
                    blame=number,
                    label=f"{size} in {type_}",
                    operand_labels={first: f"{known} in {types[first]}"},
                )
    return {label: size for label, (size, _) in extents.items()}
