"""The table of ops as plain data, for `dfc ops`, the manual and messages."""

from __future__ import annotations

from dfc.deferred.dataclasses import dataclass
from dfc.ops import registry
from dfc.ops.record import OpRecord, Parameter


@dataclass(frozen=True, slots=True)
class OpDocument:
    """One op. `call` is how messages show a call of it: `sum(x, const axis: ints = every, ..)`."""

    name: str
    family: str
    operator: str
    signature: str
    call: str
    summary: str
    has_gradient: bool
    gradient_note: str
    effect: str
    constraints: tuple[str, ...]
    parameters: tuple[tuple[str, str], ...]  # name, words about it ("" if its name says it)


def document(record: OpRecord) -> OpDocument:
    return OpDocument(
        name=record.name,
        family=record.family,
        operator=record.operator,
        signature=record.signature,
        call=call_form(record),
        summary=record.summary,
        has_gradient=record.gradient is not None,
        gradient_note=record.no_gradient,
        effect=record.effect.value,
        constraints=record.constraints,
        parameters=tuple((p.name, p.doc) for p in record.parameters),
    )


def documents() -> tuple[OpDocument, ...]:
    """Every op, by family, then by name."""
    return tuple(sorted(map(document, registry.all_records()), key=lambda d: (d.family, d.name)))


def call_form(record: OpRecord) -> str:
    """`name(x, const axis: int = -1)`; operators as they are written: `a + b`."""
    tensors = [p.name for p in record.parameters if p.kind == "tensor"]
    if record.operator in ("-", "not") and len(tensors) == 1:
        return f"{record.operator} {tensors[0]}" if record.operator == "not" else f"-{tensors[0]}"
    if record.operator and len(tensors) == 2 and record.operator not in ("[]", ":="):
        return f"{tensors[0]} {record.operator} {tensors[1]}"
    return f"{record.name}({', '.join(map(_parameter, record.parameters))})"


def _parameter(parameter: Parameter) -> str:
    default = f" = {parameter.default}" if parameter.default else ""
    if parameter.kind == "const":
        return f"const {parameter.name}: {parameter.type}{default}"
    return parameter.name + default
