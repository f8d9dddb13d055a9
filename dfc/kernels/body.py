"""Scalar bodies: what happens at one point of a kernel's index space.

A body is a list of instructions in SSA order; an instruction names earlier ones by position, so a chain of any length
is walked without recursion and equal bodies compare equal. Element types are machine types; bool is a real bool here
(one byte in memory). f16 and bf16 values are computed in f32: a load widens, a store rounds to nearest even.

Scalar functions (all targets implement exactly these; semantics are those of NumPy unless said otherwise):
  unary   neg abs sign exp log log1p sqrt rsqrt sin cos tanh sigmoid erf floor ceil round trunc is_finite not
          (round is half to even; rsqrt is 1 / sqrt(x); sign keeps zero and NaN; integers wrap)
          exp_of_nonpositive (exp, to the bit, of what is not positive or is NaN; anything of what is positive)
  binary  add sub mul div floordiv mod pow minimum maximum equal not_equal less less_equal greater greater_equal
          and or xor (bit by bit on integers, as is not) shift_left shift_right (by 0 .. width - 1; the sign fills in)
          (minimum and maximum propagate NaN; floordiv and mod floor; integer floordiv and mod fail on zero, integer pow
          on a negative exponent: the instruction carries a `Fault` site; floats follow NumPy; comparison with NaN is
          false, not_equal true)
  ternary select (mask, a, b: both sides are evaluated), fma (one rounding)
  cast    to the instruction's dtype: float to integer truncates and saturates, NaN gives 0; to bool is != 0
"""

from __future__ import annotations

from collections.abc import Sequence

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim
from dfc.ir.dtypes import BOOL, I64, DType

UNARY = frozenset(
    [
        "neg",
        "abs",
        "sign",
        "exp",
        "exp_of_nonpositive",
        "log",
        "log1p",
        "sqrt",
        "rsqrt",
        "sin",
        "cos",
        "tanh",
        "sigmoid",
        "erf",
        "floor",
        "ceil",
        "round",
        "trunc",
        "is_finite",
        "not",
    ]
)
COMPARISONS = frozenset(["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"])
ARITHMETIC = frozenset(["add", "sub", "mul", "div", "floordiv", "mod", "pow", "minimum", "maximum"])
LOGIC = frozenset(["and", "or", "xor", "shift_left", "shift_right"])
BINARY = COMPARISONS | ARITHMETIC | LOGIC
TERNARY = frozenset(("select", "fma"))
DIVISIONS = frozenset(("floordiv", "mod"))
FUNCTIONS = UNARY | BINARY | TERNARY | {"cast"}


def is_partial(function: str, dtype: DType) -> bool:
    """Whether a function of this element type fails for some second operands: integers divided by 0, or to a negative
    power."""
    return dtype.is_integer if function in DIVISIONS else function == "pow" and dtype.kind == "signed"


@dataclass(frozen=True, slots=True)
class Affine:
    """Sum of coefficient * axis (axes of the kernel by number) plus an offset."""

    terms: tuple[tuple[int, int], ...] = ()
    offset: Dim = Dim(())


@dataclass(frozen=True, slots=True)
class Computed:
    """An index that a body computes: the instruction's value (an integer), negative ones count from the end.

    The target checks 0 <= index < extent and reports site `fault` of the program if it is not. Site -1: the compiler
    knows that the index is inside and not negative (the row of a stacked emit); nothing is checked.
    """

    instruction: int
    fault: int


Index = Affine | Computed


@dataclass(frozen=True, slots=True)
class Mask:
    """A load is valid where `0 <= index < extent` on every axis listed and, with interior > 1, where the index is a
    multiple of it (then the element at index // interior is read); elsewhere it gives `otherwise` (instruction)."""

    indices: tuple[tuple[int, int], ...]  # (axis of the buffer, interior step)
    otherwise: int


@dataclass(frozen=True, slots=True)
class Load:
    """Reads operand `operand` of the kernel at one index per axis of its buffer."""

    operand: int
    index: tuple[Index, ...]
    mask: Mask | None = None


@dataclass(frozen=True, slots=True)
class Number:
    """A constant; `bits` is its little-endian byte pattern in the instruction's dtype."""

    bits: bytes


@dataclass(frozen=True, slots=True)
class AxisIndex:
    """The current index along a kernel axis, as i64."""

    axis: int


@dataclass(frozen=True, slots=True)
class Size:
    """A dimension, as i64."""

    size: Dim


@dataclass(frozen=True, slots=True)
class Reduced:
    """The result of reduction `reduction` of an earlier stage `stage`, at the current outer point."""

    stage: int
    reduction: int


@dataclass(frozen=True, slots=True)
class Accumulated:
    """In the epilogue of a contraction: the finished sum at the current point."""


@dataclass(frozen=True, slots=True)
class Philox:
    """Element number `arguments[0]` (i64, the global row-major index) of a random stream (see
    `dfc.ops.creation.philox`).

    Uniform in [0, 1) or standard normal. The key and the draw number are `arguments[1:]`: key0, key1, draw (u64 each).
    """

    distribution: str


@dataclass(frozen=True, slots=True)
class Apply:
    """A scalar function; `fault` is the site reported where it has no value (see `is_partial`; -1: cannot fail)."""

    function: str
    fault: int = -1


Operation = Load | Number | AxisIndex | Size | Reduced | Accumulated | Philox | Apply


@dataclass(frozen=True, slots=True)
class Instruction:
    """One value of a body: an operation, the positions of its arguments, its element type."""

    operation: Operation
    arguments: tuple[int, ...]
    dtype: DType


class BodyBuilder:
    """Appends instructions, sharing equal ones. Op records use it to say what they do to one element."""

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self._known: dict[Instruction, int] = {}

    def append(self, operation: Operation, arguments: Sequence[int], dtype: DType) -> int:
        instruction = Instruction(operation, tuple(arguments), dtype)
        position = self._known.get(instruction)
        if position is None:
            position = self._known[instruction] = len(self.instructions)
            self.instructions.append(instruction)
        return position

    def dtype(self, position: int) -> DType:
        return self.instructions[position].dtype

    def apply(self, function: str, *arguments: int, dtype: DType | None = None, fault: int = -1) -> int:
        """A scalar function of earlier values; the result has the first (for select: second) argument's type."""
        assert function in FUNCTIONS, function
        if dtype is None:
            natural = self.dtype(arguments[1 if function == "select" else 0])
            dtype = BOOL if function in COMPARISONS or function == "is_finite" else natural
        return self.append(Apply(function, fault), arguments, dtype)

    def cast(self, argument: int, dtype: DType) -> int:
        return argument if self.dtype(argument) == dtype else self.append(Apply("cast"), (argument,), dtype)

    def number(self, value: float | int | bool, dtype: DType) -> int:
        """A constant, rounded to the element type (for f16 and bf16 the computation itself is in f32)."""
        scalar = dtype.numpy.type(value)
        return self.append(Number(scalar.tobytes()), (), dtype)

    def size(self, size: Dim) -> int:
        return self.append(Size(size), (), I64)

    def axis(self, axis: int) -> int:
        return self.append(AxisIndex(axis), (), I64)
