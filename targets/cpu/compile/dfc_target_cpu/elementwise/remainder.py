"""Floor division and remainder of floats, and integer powers: functions of the module, called lane by lane.

Guarantees NumPy's results: the remainder is exact, takes the sign of the divisor, and the quotient is the matching
whole number. They are rare in hot code, so they are loops over bits rather than vector code.
"""

from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import bit_width, constant, element_type, lane_count, poison, zero


def float_modulo(module: ModuleText, f: FunctionText, a: Value, b: Value) -> Value:
    return _by_lanes(f, _modulo(module, element_type(a.type)), a, b)


def float_floor_divide(module: ModuleText, f: FunctionText, a: Value, b: Value) -> Value:
    return _by_lanes(f, _floor_divide(module, element_type(a.type)), a, b)


def integer_power(module: ModuleText, f: FunctionText, a: Value, b: Value) -> Value:
    """Wraps; a negative exponent is reported before this is called, and gives some number."""
    return _by_lanes(f, _power(module, element_type(a.type)), a, b)


def _by_lanes(f: FunctionText, function: str, a: Value, b: Value) -> Value:
    lanes, element = lane_count(a.type), element_type(a.type)
    if lanes == 1:
        return f.call(function, element, [a, b])
    result = poison(a.type)
    for lane in range(lanes):
        one = f.call(function, element, [f.extract(a, lane), f.extract(b, lane)])
        result = f.insert(result, one, lane)
    return result


def _power(module: ModuleText, kind: str) -> str:
    return module.define(f"power.{kind}", lambda: _build_power(module, kind))


def _build_power(module: ModuleText, kind: str) -> FunctionText:
    f = module.function("power", kind, (Parameter(kind, "base"), Parameter(kind, "exponent")))
    base, exponent = f.arguments
    with f.counted_loop(constant("i64", 0), constant("i64", bit_width(kind))) as loop:
        square, left, product = loop.carry(base), loop.carry(exponent), loop.carry(constant(kind, 1))
        odd = f.icmp("ne", f.bit_and(left, constant(kind, 1)), zero(kind))
        loop.next(product, f.select(odd, f.binary("mul", product, square), product))
        loop.next(square, f.binary("mul", square, square))
        loop.next(left, f.lshr(left, constant(kind, 1)))
    f.ret(loop.result(product))
    return f


def _truncated(module: ModuleText, kind: str) -> str:
    return module.define(f"remainder.{kind}", lambda: _Remainder(module, kind).build())


class _Remainder:
    """C's fmod by long division of significands: exact, sign of the dividend."""

    def __init__(self, module: ModuleText, kind: str) -> None:
        self.kind = kind
        self.bits = f"i{bit_width(kind)}"
        self.fraction = 23 if kind == "float" else 52
        self.f = module.function("remainder", kind, (Parameter(kind, "a"), Parameter(kind, "b")))

    def number(self, value: int) -> Value:
        return constant(self.bits, value)

    def build(self) -> FunctionText:
        f = self.f
        a, b = f.arguments
        size_a, size_b = f.intrinsic("fabs", a), f.intrinsic("fabs", b)
        infinity = constant(self.kind, float("inf"))
        bad = f.bit_or(f.fcmp("uge", size_a, infinity), f.fcmp("ueq", b, zero(self.kind)))
        bad = f.bit_or(bad, f.fcmp("uno", b, b))
        undefined, regular, small, divide = (f.label(x) for x in ("undefined", "regular", "small", "divide"))
        f.branch_if(bad, undefined, regular)
        f.begin(undefined)
        f.ret(constant(self.kind, float("nan")))
        f.begin(regular)
        f.branch_if(f.fcmp("olt", size_a, size_b), small, divide)
        f.begin(small)
        f.ret(a)
        f.begin(divide)
        rest = self._divide(f.cast("bitcast", size_a, self.bits), f.cast("bitcast", size_b, self.bits))
        sign = f.bit_and(f.cast("bitcast", a, self.bits), self.number(-(1 << (bit_width(self.kind) - 1))))
        f.ret(f.cast("bitcast", f.bit_or(rest, sign), self.kind))
        return f

    def _divide(self, a: Value, b: Value) -> Value:
        """Shift and subtract from the exponent of `a` down to that of `b`; bits of the remainder."""
        f = self.f
        exponent_a, significand_a = self._split(a)
        exponent_b, significand_b = self._split(b)
        first = f.urem(significand_a, significand_b)
        with f.counted_loop(self.number(0), f.sub(exponent_a, exponent_b)) as loop:
            rest = loop.carry(first)
            shifted = f.shl(rest, self.number(1))
            less = f.icmp("ult", shifted, significand_b)
            loop.next(rest, f.select(less, shifted, f.sub(shifted, significand_b)))
        return self._join(loop.result(rest), exponent_b)

    def _split(self, bits: Value) -> tuple[Value, Value]:
        """Exponent and significand with its leading bit; subnormal numbers keep exponent 1 and no leading bit."""
        f = self.f
        exponent = f.lshr(bits, self.number(self.fraction))
        fraction = f.bit_and(bits, self.number((1 << self.fraction) - 1))
        subnormal = f.icmp("eq", exponent, self.number(0))
        full = f.bit_or(fraction, self.number(1 << self.fraction))
        return f.select(subnormal, self.number(1), exponent), f.select(subnormal, fraction, full)

    def _join(self, rest: Value, exponent: Value) -> Value:
        """Normalise as far as the exponent allows."""
        f = self.f
        missing = f.sub(self._leading_zeros(rest), self.number(bit_width(self.kind) - 1 - self.fraction))
        shift = f.minimum(missing, f.sub(exponent, self.number(1)))
        moved = f.shl(rest, shift)
        normal = f.icmp("uge", moved, self.number(1 << self.fraction))
        fraction = f.bit_and(moved, self.number((1 << self.fraction) - 1))
        with_exponent = f.bit_or(fraction, f.shl(f.sub(exponent, shift), self.number(self.fraction)))
        return f.select(normal, with_exponent, moved)

    def _leading_zeros(self, value: Value) -> Value:
        name = f"llvm.ctlz.{self.bits}"
        self.f.declare(name, self.bits, [self.bits, "i1"])
        return self.f.assign(self.bits, f"call {self.bits} @{name}({value}, i1 false)")


def _modulo(module: ModuleText, kind: str) -> str:
    return module.define(f"modulo.{kind}", lambda: _build_modulo(module, kind))


def _adjusted(f: FunctionText, module: ModuleText, kind: str) -> tuple[Value, Value, Value]:
    """C's remainder, whether it has to move by one divisor, and the result."""
    a, b = f.arguments
    rest = f.call(_truncated(module, kind), kind, [a, b])
    not_zero = f.fcmp("une", rest, zero(kind))
    crosses = f.bit_xor(f.fcmp("olt", b, zero(kind)), f.fcmp("olt", rest, zero(kind)))
    adjust = f.bit_and(not_zero, crosses)
    kept = f.select(adjust, f.fadd(rest, b), rest)
    return rest, adjust, f.select(not_zero, kept, _copysign(f, zero(kind), b))


def _copysign(f: FunctionText, size: Value, sign: Value) -> Value:
    return f.intrinsic("copysign", size, sign)


def _build_modulo(module: ModuleText, kind: str) -> FunctionText:
    f = module.function("modulo", kind, (Parameter(kind, "a"), Parameter(kind, "b")))
    f.ret(_adjusted(f, module, kind)[2])
    return f


def _floor_divide(module: ModuleText, kind: str) -> str:
    return module.define(f"floor_divide.{kind}", lambda: _build_floor_divide(module, kind))


def _build_floor_divide(module: ModuleText, kind: str) -> FunctionText:
    f = module.function("floor_divide", kind, (Parameter(kind, "a"), Parameter(kind, "b")))
    a, b = f.arguments
    plain = f.fdiv(a, b)
    rest, adjust, _ = _adjusted(f, module, kind)
    quotient = f.fdiv(f.fsub(a, rest), b)
    quotient = f.select(adjust, f.fsub(quotient, constant(kind, 1.0)), quotient)
    down = f.intrinsic("floor", quotient)
    up = f.fcmp("ogt", f.fsub(quotient, down), constant(kind, 0.5))
    whole = f.select(up, f.fadd(down, constant(kind, 1.0)), down)
    whole = f.select(f.fcmp("une", quotient, zero(kind)), whole, _copysign(f, zero(kind), plain))
    f.ret(f.select(f.fcmp("oeq", b, zero(kind)), plain, whole))
    return f
