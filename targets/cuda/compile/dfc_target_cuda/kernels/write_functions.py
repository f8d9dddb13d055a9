"""The scalar functions of kernel bodies as expressions of device code, in the names of the prelude.

Assumes operands of the types a verified body has, given as names. Guarantees the meaning of `dfc.lower.legalise`: what
is one primitive is written as such, everything else is a call of a function of the prelude; results have their type
again.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir.dtypes import DType
from dfc.kernels.errors import CodeGenerationError
from dfc.lower.legalise.meaning import meaning
from dfc_target_cuda.kernels.prelude.device_functions import expression
from dfc_target_cuda.kernels.write_types import DeviceCodeError


def applied(name: str, arguments: Sequence[str], types: Sequence[DType], result: DType) -> str:
    """The expression of a scalar function; `types` are the element types of the arguments."""
    try:
        return expression(meaning(name, types, result), arguments)
    except CodeGenerationError as error:
        raise DeviceCodeError(f"no scalar function {name} on {types[0]}") from error


def cast(value: str, source: DType, target: DType) -> str:
    """A computed value of one element type as one of another."""
    return applied("cast", [value], [source], target)
