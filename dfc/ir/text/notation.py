"""Pieces of `.dfg` text: types, sizes, plain values, strings."""

from __future__ import annotations

import math

from dfc.ir.dims import Dim
from dfc.ir.dtypes import DType, DTypeVariable
from dfc.ir.fields import Plain
from dfc.ir.graph import DimCheck, Value
from dfc.ir.queues import QueueForm
from dfc.ir.types import TensorType, TextType, Type

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}


def quoted(text: str) -> str:
    """A string literal."""
    return '"' + "".join(_character(c) for c in text) + '"'


def _character(c: str) -> str:
    if c in _ESCAPES:
        return _ESCAPES[c]
    return c if c.isprintable() else f"\\u{{{ord(c):x}}}"


def type_text(type_: Type) -> str:
    return "string" if isinstance(type_, TextType) else str(type_)


def typed(name: str, value: Value) -> str:
    return f"{name}: {type_text(value.type)}"


def plain_text(value: Plain) -> str:
    """A compile-time value as an expression."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | Dim() | DType() | DTypeVariable() | TensorType():
            return str(value)
        case float():
            assert math.isfinite(value), "numbers that are not finite are written as bytes"
            return repr(value)
        case str():
            return quoted(value)
        case list():
            return f"[{', '.join(map(plain_text, value))}]"
        case complex():
            raise TypeError("complex numbers are written as bytes")


def check_text(check: DimCheck) -> str:
    return f"{check.left} {check.relation} {check.right}"


def listed(parts: list[str]) -> str:
    """The parts as results of a function: `a`, or `(a, b)`."""
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"


def queue_field(form: QueueForm, number: int) -> str:
    """A field of a queue as it was declared."""
    type_ = form.types[number]
    sizes = ["?" if number in form.varying and not axis else str(size) for axis, size in enumerate(type_.shape)]
    return f"{form.fields[number]}: {type_.dtype}" + (f"[{', '.join(sizes)}]" if sizes else "")
