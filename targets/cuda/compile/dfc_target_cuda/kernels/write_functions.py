"""The scalar functions of kernel bodies as expressions of device code, in the names of the prelude.

Assumes operands of the types a verified body has, given as names. Guarantees NumPy's meaning as stated in
`dfc.kernels.body`: what Python's operators do not give is a function of the prelude; results have their type again.
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.ir.dtypes import DType
from dfc_target_cuda.kernels.write_types import DeviceCodeError, computing_type, is_half, rounded

_COMPARISONS = {
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_OPERATORS = {"add": "+", "sub": "-", "mul": "*"}
_BITS = {"and": "&", "or": "|", "xor": "^"}
_OF_ONE_FLOAT = ("exp", "log", "log1p", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf", "abs", "sign", "is_finite")
_ROUNDINGS = ("floor", "ceil", "round", "trunc")
_OF_TWO_FLOATS = ("pow", "minimum", "maximum", "floordiv", "mod")
_FLOAT_FUNCTIONS = frozenset((*_OF_ONE_FLOAT, *_ROUNDINGS, *_OF_TWO_FLOATS))
_OF_TWO_INTEGERS = ("floordiv", "mod", "pow", "minimum", "maximum", "shift_left", "shift_right")
_INTEGER_FUNCTIONS = frozenset(("neg", "abs", "sign", *_OF_TWO_INTEGERS))


def applied(name: str, arguments: Sequence[str], types: Sequence[DType], result: DType) -> str:
    """The expression of a scalar function; `types` are the element types of the arguments."""
    if name == "cast":
        return cast(arguments[0], types[0], result)
    if name == "select":
        return f"{arguments[1]} if {arguments[0]} else {arguments[2]}"
    if name in _COMPARISONS:
        return _comparison(name, arguments, types[0])
    if types[0].is_bool:
        return _truth(name, arguments)
    kind = computing_type(types[0])
    if name == "fma":
        return f"{kind}_fma({', '.join(arguments)})"
    if name in _OPERATORS:
        return f"{kind}({arguments[0]} {_OPERATORS[name]} {arguments[1]})"
    if types[0].is_float:
        return _of_floats(name, arguments, kind)
    return _of_integers(name, arguments, types[0])


def _comparison(name: str, arguments: Sequence[str], dtype: DType) -> str:
    a, b = arguments
    if dtype.is_bool and name not in ("equal", "not_equal"):
        a, b = (f"(1 if {one} else 0)" for one in arguments)
    return f"{a} {_COMPARISONS[name]} {b}"


def _truth(name: str, arguments: Sequence[str]) -> str:
    """On truth values: sums are taken bit by bit."""
    a = arguments[0]
    if name == "not":
        return f"not {a}"
    if name in _ROUNDINGS or name == "abs":
        return a
    joined = {"and": "and", "mul": "and", "minimum": "and", "or": "or", "maximum": "or", "xor": "!=", "add": "!="}
    operator = joined.get(name)
    if operator is None:
        raise DeviceCodeError(f"no scalar function {name} on bool")
    return f"{a} {operator} {arguments[1]}"


def _of_floats(name: str, arguments: Sequence[str], kind: str) -> str:
    if name == "neg":
        return f"{kind}(-{arguments[0]})"
    if name == "div":
        return f"{kind}({arguments[0]} / {arguments[1]})"
    if name not in _FLOAT_FUNCTIONS:
        raise DeviceCodeError(f"no scalar function {name} on {kind}")
    return f"{kind}_{name}({', '.join(arguments)})"


def _of_integers(name: str, arguments: Sequence[str], dtype: DType) -> str:
    kind, a = dtype.name, arguments[0]
    if name == "not":
        return f"{kind}(~{a})"
    if name in _BITS:
        return f"{kind}({a} {_BITS[name]} {arguments[1]})"
    if name in _ROUNDINGS:
        return a
    if name not in _INTEGER_FUNCTIONS:
        raise DeviceCodeError(f"no scalar function {name} on {dtype}")
    return f"{kind}_{name}({', '.join(arguments)})"


def cast(value: str, source: DType, target: DType) -> str:
    """A computed value of one element type as one of another: float to integer truncates and saturates, NaN gives 0;
    to bool is "not zero"; to f16 and bf16 is rounded once, from f64 too."""
    if source == target:
        return value
    kind = computing_type(target)
    if source.is_bool:
        one, nothing = ("1.0", "0.0") if target.is_float else ("1", "0")
        return f"{kind}({one}) if {value} else {kind}({nothing})"
    if target.is_bool:
        return f"{value} != {computing_type(source)}({'0.0' if source.is_float else '0'})"
    if source.is_float and not target.is_float:
        return f"to_{kind}_from_{computing_type(source)}({value})"
    if is_half(target):
        if source.name == "f64":
            return f"{target.name}_from_f64({value})"
        return rounded(value if computing_type(source) == "f32" else f"f32({value})", target)
    return value if kind == computing_type(source) else f"{kind}({value})"
