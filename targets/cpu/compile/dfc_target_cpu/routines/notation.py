"""The notation in which routines are written: numbers and arrays of a function under construction, loops, procedures.

    @procedure("double")
    def dot(c: Code, x: Array, y: Array, n: Number) -> Number: ...

What looks like arithmetic appends instructions. A procedure is built when a module first calls it, and called ever
after. Assumes the types of `Number` (i64, double, i1, vectors of these) and mixes none but Python's own numbers with
them. Guarantees one rounding for each operator, multiply-adds only where `fma` is called, and code that is the same
for every machine: vectors have `LANES` elements, however many registers that takes, so sums do not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeAlias

from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import FALSE, NULL, TRUE, constant, i64, is_floating, poison, zero
from dfc_target_cpu.product.gemm.general import GEMM_PARAMETERS

LANES = 8
REAL, VECTOR, MASK = "double", f"<{LANES} x double>", f"<{LANES} x i1>"
GEMM = "gemm_double"


class Number:
    """A value of the function: an integer, a real, a condition, or a vector of reals."""

    __slots__ = ("f", "value")

    def __init__(self, f: FunctionText, value: Value) -> None:
        self.f, self.value = f, value

    def _of(self, other: Operand) -> Value:
        return other.value if isinstance(other, Number) else constant(self.value.type, other)

    def _new(self, value: Value) -> Number:
        return Number(self.f, value)

    def _arithmetic(self, name: str, other: Operand) -> Number:
        operation = getattr(self.f, f"f{name}" if is_floating(self.value.type) else name)
        return self._new(operation(self.value, self._of(other)))

    def __add__(self, other: Operand) -> Number:
        return self._arithmetic("add", other)

    def __sub__(self, other: Operand) -> Number:
        return self._arithmetic("sub", other)

    def __mul__(self, other: Operand) -> Number:
        return self._arithmetic("mul", other)

    def __truediv__(self, other: Operand) -> Number:
        return self._new(self.f.fdiv(self.value, self._of(other)))

    def __neg__(self) -> Number:
        return self._new(self.f.fneg(self.value)) if is_floating(self.value.type) else self._new(i64(0)) - self

    def _compare(self, integer: str, real: str, other: Operand) -> Number:
        if is_floating(self.value.type):
            return self._new(self.f.fcmp(real, self.value, self._of(other)))
        return self._new(self.f.icmp(integer, self.value, self._of(other)))

    def __lt__(self, other: Operand) -> Number:
        return self._compare("slt", "olt", other)

    def __le__(self, other: Operand) -> Number:
        return self._compare("sle", "ole", other)

    def __gt__(self, other: Operand) -> Number:
        return self._compare("sgt", "ogt", other)

    def __ge__(self, other: Operand) -> Number:
        return self._compare("sge", "oge", other)

    def equals(self, other: Operand) -> Number:
        return self._compare("eq", "oeq", other)

    def differs(self, other: Operand) -> Number:
        """Also of a NaN from itself."""
        return self._compare("ne", "une", other)

    def __and__(self, other: Number) -> Number:
        return self._new(self.f.bit_and(self.value, other.value))

    def __or__(self, other: Number) -> Number:
        return self._new(self.f.bit_or(self.value, other.value))

    def __invert__(self) -> Number:
        return self._new(self.f.bit_xor(self.value, TRUE))

    def choose(self, yes: Number, no: Operand) -> Number:
        """Of a condition: one of two values, both of which exist."""
        return self._new(self.f.select(self.value, yes.value, yes._of(no)))

    def choose_array(self, yes: Array, no: Array) -> Array:
        """Of a condition: one of two arrays."""
        return Array(self.f, self.f.select(self.value, yes.start, no.start), yes.element)

    def minimum(self, other: Operand) -> Number:
        """Of integers."""
        return self._new(self.f.minimum(self.value, self._of(other)))

    def maximum(self, other: Operand) -> Number:
        """Of integers."""
        return self._new(self.f.maximum(self.value, self._of(other)))

    def sqrt(self) -> Number:
        return self._new(self.f.intrinsic("sqrt", self.value))

    def abs(self) -> Number:
        return self._new(self.f.intrinsic("fabs", self.value))

    def with_sign_of(self, other: Number) -> Number:
        return self._new(self.f.intrinsic("copysign", self.value, other.value))

    def fma(self, factor: Number, summand: Number) -> Number:
        """self * factor + summand: rounded once where the machine can."""
        return self._new(self.f.multiply_add(self.value, factor.value, summand.value))

    def real(self) -> Number:
        """Of an integer."""
        return self._new(self.f.cast("sitofp", self.value, REAL))

    def splat(self) -> Number:
        """A vector of it."""
        return self._new(self.f.splat(self.value, LANES))

    def lane(self, number: int) -> Number:
        """An element of a vector."""
        return self._new(self.f.extract(self.value, number))


Operand: TypeAlias = "Number | int | float"


class Variable:
    """A number that changes; LLVM keeps it in a register."""

    def __init__(self, c: Code, initial: Number) -> None:
        self._f, self._type = c.f, initial.value.type
        self._memory = c.f.alloca(self._type, align=64)
        self.value = initial

    @property
    def value(self) -> Number:
        return Number(self._f, self._f.load(self._type, self._memory))

    @value.setter
    def value(self, value: Number) -> None:
        self._f.store(value.value, self._memory)


class Array:
    """Elements in memory, by number."""

    __slots__ = ("element", "f", "start")

    def __init__(self, f: FunctionText, start: Value, element: str = REAL) -> None:
        self.f, self.start, self.element = f, start, element

    def _index(self, index: int | Number) -> Value:
        return index.value if isinstance(index, Number) else i64(index)

    def at(self, index: int | Number) -> Array:
        """The elements from one on."""
        return Array(self.f, self.f.gep(self.element, self.start, self._index(index)), self.element)

    def integers(self) -> Array:
        """The same memory as whole numbers."""
        return Array(self.f, self.start, "i64")

    def __getitem__(self, index: int | Number) -> Number:
        return Number(self.f, self.f.load(self.element, self.at(index).start))

    def __setitem__(self, index: int | Number, value: Number) -> None:
        self.f.store(value.value, self.at(index).start)

    def vector(self, index: int | Number, mask: Number | None = None) -> Number:
        """`LANES` elements; 0 where the mask is off."""
        address = self.at(index).start
        if mask is None:
            return Number(self.f, self.f.load(VECTOR, address))
        return Number(self.f, self.f.masked_load(VECTOR, address, mask.value, zero(VECTOR)))

    def put(self, index: int | Number, value: Number, mask: Number | None = None) -> None:
        """Stores a vector, where the mask is on."""
        address = self.at(index).start
        if mask is None:
            self.f.store(value.value, address)
        else:
            self.f.masked_store(value.value, address, mask.value)


class Code:
    """A function under construction, and the module that it is for."""

    def __init__(self, module: ModuleText, f: FunctionText) -> None:
        self.module, self.f = module, f

    def integer(self, value: int) -> Number:
        return Number(self.f, i64(value))

    def real(self, value: float) -> Number:
        return Number(self.f, constant(REAL, value))

    def vector(self, value: float) -> Number:
        """The same in every lane."""
        return Number(self.f, constant(VECTOR, value))

    def variable(self, initial: Number) -> Variable:
        return Variable(self, initial)

    def array(self, count: int) -> Array:
        """Reals on the stack."""
        return Array(self.f, self.f.alloca(REAL, count))

    @contextmanager
    def loop(self, start: int | Number, stop: Number, step: int = 1) -> Generator[Number]:
        """Upwards, `stop` left out."""
        first = start.value if isinstance(start, Number) else i64(start)
        with self.f.counted_loop(first, stop.value, step) as loop:
            yield Number(self.f, loop.index)

    @contextmanager
    def loop_down(self, start: Number, stop: int | Number) -> Generator[Number]:
        """From `start - 1` down to `stop`."""
        count = start - stop
        with self.loop(0, count) as i:
            yield start - i - 1

    @contextmanager
    def when(self, condition: Number) -> Generator[None]:
        with self.f.when(condition.value):
            yield

    @contextmanager
    def loop_while(self, condition: Callable[[], Number]) -> Generator[None]:
        f = self.f
        again, body, after = f.label("again"), f.label("again.body"), f.label("again.after")
        f.branch(again)
        f.begin(again)
        f.branch_if(condition().value, body, after)
        f.begin(body)
        yield
        f.branch(again)
        f.begin(after)

    def tail(self, count: Number) -> Number:
        """The mask of the first `count` lanes."""
        return Number(self.f, self.f.tail_mask(count.value, LANES))

    @contextmanager
    def vectors(self, n: Number) -> Generator[tuple[Number, Number]]:
        """The vectors of `n` elements: where each begins, and its mask."""
        with self.loop(0, n, LANES) as i:
            yield i, self.tail(n - i)

    def sum_lanes(self, vector: Number) -> Number:
        """Halves are added to halves."""
        f, value = self.f, vector.value
        for half in (4, 2, 1):
            upper = f.shuffle(value, poison(value.type), [*range(half, 2 * half)])
            lower = f.shuffle(value, poison(value.type), [*range(half)])
            value = f.fadd(lower, upper)
        return Number(f, value)

    def product(self, a: Matrix, b: Matrix, target: Matrix, sizes: Sizes, memory: Array, *, adds: bool) -> None:
        """The matrix product of so many rows, columns and depth, stored or added; rows of the target are contiguous."""
        self.module.declare_hidden(GEMM, "void", [parameter.type for parameter in GEMM_PARAMETERS])
        m, n, k = (size.value for size in sizes)
        factors = [value for one in (a, b) for value in one.arguments()]
        flags = [TRUE if adds else FALSE, i64(0), i64(1), memory.start, m]
        self.f.call(GEMM, "void", [NULL, NULL, *factors, *target.arguments()[:2], m, n, k, *flags])


Sizes = tuple[Number, Number, Number]


class Matrix:
    """Elements in memory by row and column: `row` and `column` are the steps between neighbours."""

    __slots__ = ("column", "row", "start")

    def __init__(self, start: Array, row: Number, column: Number | None = None) -> None:
        self.start, self.row = start, row
        self.column = Number(start.f, i64(1)) if column is None else column

    def arguments(self) -> list[Value]:
        return [self.start.start, self.row.value, self.column.value]

    def turned(self) -> Matrix:
        """Its transpose, in the same memory."""
        return Matrix(self.start, self.column, self.row)

    def from_(self, row: int | Number, column: int | Number) -> Matrix:
        """What lies below and on the right."""
        return Matrix(self.start.at(self.row * row + self.column * column), self.row, self.column)

    def backwards(self, rows: Number, columns: Number | None = None) -> Matrix:
        """So many rows (and columns), the last one first."""
        if columns is None:
            return Matrix(self.from_(rows - 1, 0).start, -self.row, self.column)
        return Matrix(self.from_(rows - 1, columns - 1).start, -self.row, -self.column)

    def line(self, row: int | Number) -> Array:
        """A row, whose elements have to be neighbours."""
        return self.start.at(self.row * row)


Build = Callable[..., Number | None]


def procedure(result: str = "void") -> Callable[[Build], Callable[..., Number]]:
    """Makes a function of the module of what appends its code; its arguments are numbers and arrays."""

    def decorated(build: Build) -> Callable[..., Number]:
        name = build.__name__

        def call(c: Code, *arguments: Number | Array) -> Number:
            def function() -> FunctionText:
                types = [a.value.type if isinstance(a, Number) else "ptr" for a in arguments]
                parameters = [Parameter(type_, f"p{number}") for number, type_ in enumerate(types)]
                f = c.module.function(name, result, parameters, attributes="nounwind noinline")
                own = [_as_parameter(f, a, v) for a, v in zip(arguments, f.arguments, strict=True)]
                value = build(Code(c.module, f), *own)
                f.ret(None if value is None else value.value)
                return f

            values = [a.value if isinstance(a, Number) else a.start for a in arguments]
            return Number(c.f, c.f.call(c.module.define(name, function), result, values))

        call.__name__, call.__doc__ = name, build.__doc__
        return call

    return decorated


def _as_parameter(f: FunctionText, argument: Number | Array, value: Value) -> Number | Array:
    return Number(f, value) if isinstance(argument, Number) else Array(f, value, argument.element)
