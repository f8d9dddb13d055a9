"""Elementary functions on scalars and vectors of `float` and `double`.

Assumes round-to-nearest and subnormal numbers switched on. Guarantees IEEE special cases; at most 2 ULP (single: exp,
exp2, log, log2, sigmoid, erf, sin, cos, pow and others) or 4 ULP, as the tests state for each; sqrt, division and the
roundings exact; the same bits for any number of lanes. Each function exists once in a module, per type.
"""

from collections.abc import Callable

from dfc_target_cpu.elementwise.math_error import erf
from dfc_target_cpu.elementwise.math_exponential import exp, exp2, expm1, sigmoid, tanh
from dfc_target_cpu.elementwise.math_logarithm import log, log1p, log2, log10
from dfc_target_cpu.elementwise.math_power import power
from dfc_target_cpu.elementwise.math_text import MathText
from dfc_target_cpu.elementwise.math_trigonometric import cos, sin
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import element_type, intrinsic_suffix
from dfc_target_cpu.machine import Machine

Builder = Callable[..., Value]

FUNCTIONS: dict[str, Builder] = {
    "exp": exp,
    "exp2": exp2,
    "expm1": expm1,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "log": log,
    "log2": log2,
    "log10": log10,
    "log1p": log1p,
    "erf": erf,
    "sin": sin,
    "cos": cos,
    "pow": power,
}
"""Functions that become a function of the module."""

INSTRUCTIONS = {
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "round": "roundeven",
    "trunc": "trunc",
    "abs": "fabs",
}
"""Functions that are one instruction: name -> LLVM intrinsic."""

_LONG = {"sin", "cos", "pow"}
_OPERANDS = {"pow": 2}


class VectorMath:
    """The elementary functions of one module for one machine."""

    def __init__(self, module: ModuleText, machine: Machine) -> None:
        self.module, self.fused = module, machine.fused_multiply_add
        self.scales = "+avx512vl" in machine.features.split(",")

    def apply(self, f: FunctionText, name: str, *operands: Value) -> Value:
        """The value of a function (a key of FUNCTIONS or INSTRUCTIONS, or `rsqrt`) inside `f`."""
        type_text = operands[0].type
        if name in INSTRUCTIONS:
            return f.intrinsic(INSTRUCTIONS[name], operands[0])
        if name == "rsqrt":
            m = MathText(self.module, f, type_text, self.fused)
            return f.fdiv(m.number(1.0), f.intrinsic("sqrt", operands[0]))
        return f.call(self.function(name, type_text), type_text, operands)

    def function(self, name: str, type_text: str) -> str:
        """The module's function for this type: `T (T)`, or `T (T, T)` for pow."""
        if element_type(type_text) not in ("float", "double"):
            raise ValueError(f"{name} of {type_text}: convert to float or double first")
        full = f"math_{name}_{intrinsic_suffix(type_text)}"
        return self.module.define(full, lambda: self._build(full, name, type_text))

    def _build(self, full: str, name: str, type_text: str) -> FunctionText:
        parameters = [Parameter(type_text, x) for x in ("x", "y")[: _OPERANDS.get(name, 1)]]
        attributes = "nounwind" if name in _LONG or element_type(type_text) == "double" else "nounwind alwaysinline"
        f = self.module.function(full, type_text, parameters, attributes=attributes)
        f.ret(FUNCTIONS[name](MathText(self.module, f, type_text, self.fused, self.scales), *f.arguments))
        return f
