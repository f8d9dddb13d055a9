"""The scalar functions of kernels as NumPy functions: what one instruction means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dfc.ir.dtypes import DType
from dfc.kernels.form import Reduction
from dfc.ops.elementwise.special import erf


def computing(dtype: DType) -> np.dtype[Any]:
    """The type values of an element type are computed in."""
    return np.dtype(np.float32) if dtype.name in ("f16", "bf16") else dtype.numpy


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "pow": np.power,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
}
UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "exp": np.exp,
    "exp_of_nonpositive": np.exp,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: np.reciprocal(np.sqrt(x)),
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "sigmoid": lambda x: np.where(x >= 0, np.ones_like(x), np.exp(-np.abs(x))) / (1 + np.exp(-np.abs(x))),
    "erf": lambda x: np.asarray(erf(np.asarray(x)))[()],
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "trunc": np.trunc,
    "is_finite": np.isfinite,
    "not": np.invert,
}
NEUTRAL: dict[str, Any] = {"add": 0, "mul": 1, "and": True, "or": False}
FOLD: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.logical_and,
    "or": np.logical_or,
}


def cast(value: Any, dtype: DType) -> Any:
    target = computing(dtype)
    if dtype.is_bool:
        return np.bool_(value != 0)
    if dtype.is_integer and np.asarray(value).dtype.kind == "f":
        if np.isnan(value):
            return target.type(0)
        limits = np.iinfo(target)
        return target.type(min(max(int(np.trunc(np.clip(value, -1e30, 1e30))), int(limits.min)), int(limits.max)))
    if dtype.name in ("f16", "bf16"):
        return np.float32(np.asarray(value).astype(dtype.numpy))
    return np.asarray(value).astype(target)[()]


def neutral(reduction: Reduction) -> Any:
    target = computing(reduction.dtype)
    if reduction.combine in NEUTRAL:
        return target.type(NEUTRAL[reduction.combine])
    low = reduction.combine == "max"
    if target.kind == "f":
        return target.type(-np.inf if low else np.inf)
    if target.kind == "b":
        return np.bool_(not low)
    limits = np.iinfo(target)
    return target.type(limits.min if low else limits.max)
