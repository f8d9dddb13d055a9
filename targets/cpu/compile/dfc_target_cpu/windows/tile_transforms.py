"""Transforms of tiles between their elements and the products of Winograd's algorithm: a matrix along both axes.

    target[i][j] = sum over k, l of matrix[i][k] * source[k][l] * matrix[j][l]        for each of many neighbours

Vectors run along the neighbours, the channels or columns of a tile. What lies between the two halves is stored: it is
more than registers hold. Guarantees that no lane beyond `last` lanes of the last vector is touched, and that numbers
depend on no vector width.
"""

from collections.abc import Sequence

from dfc.kernels.winograd.transforms import Matrix
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import constant, i64, vector_type, zero

TRANSFORM_PARAMETERS = (
    Parameter("ptr", "source", "noalias readonly"),
    *(Parameter("i64", name) for name in ("source_row", "source_column")),
    Parameter("ptr", "target", "noalias"),
    *(Parameter("i64", name) for name in ("target_row", "target_column")),
    Parameter("ptr", "between", "noalias"),
    *(Parameter("i64", name) for name in ("inputs", "rows", "columns", "vectors", "last")),
)
"""Steps in elements. `inputs`: columns of the matrix; `rows`, `columns`: how much of the target is stored."""


def tile_transform(module: ModuleText, what: str, element: str, lanes: int, matrix: Matrix) -> str:
    """`void (TRANSFORM_PARAMETERS)`."""
    name = f"tile_{what}_{element}_{len(matrix)}x{len(matrix[0])}"
    return module.define(name, lambda: _Transform(module, name, element, lanes, matrix).build())


class _Transform:
    def __init__(self, module: ModuleText, name: str, element: str, lanes: int, matrix: Matrix) -> None:
        self.f = module.function(name, "void", TRANSFORM_PARAMETERS, attributes="nounwind noinline")
        self.element, self.lanes, self.matrix = element, lanes, matrix
        self.vector = vector_type(lanes, element)
        self.outputs, self.inputs = len(matrix), len(matrix[0])

    def build(self) -> FunctionText:
        f, arg = self.f, self.f.argument
        last = f.icmp("slt", arg("last"), i64(self.lanes))
        whole = f.sub(arg("vectors"), f.cast("zext", last, "i64"))
        with f.counted_loop(i64(0), whole, hint="vector") as vector:
            self._vector(f.mul(vector.index, i64(self.lanes)), None)
        with f.when(last, "last"):
            self._vector(f.mul(whole, i64(self.lanes)), f.tail_mask(arg("last"), self.lanes))
        f.ret()
        return f

    def _vector(self, at: Value, mask: Value | None) -> None:
        """Columns of the tile, then rows of what they give. The counts of both loops are arguments, so that they stay
        loops: written out, their values would be spilled in an order that nobody has chosen."""
        f, arg = self.f, self.f.argument
        source, target = (f.gep(self.element, arg(name), at) for name in ("source", "target"))
        with f.counted_loop(i64(0), arg("inputs"), hint="column") as column:
            start = f.gep(self.element, source, f.mul(column.index, arg("source_column")))
            values = [self._load(address, mask) for address in self._steps(start, arg("source_row"), self.inputs)]
            to = f.gep(self.element, arg("between"), f.mul(column.index, i64(self.lanes)))
            for row, value in enumerate(transformed(f, self.matrix, values)):
                f.store(value, f.gep(self.element, to, i64(row * self.inputs * self.lanes)))
        with f.counted_loop(i64(0), arg("rows"), hint="row") as row:
            start = f.gep(self.element, arg("between"), f.mul(row.index, i64(self.inputs * self.lanes)))
            values = [f.load(self.vector, f.gep(self.element, start, i64(j * self.lanes))) for j in range(self.inputs)]
            to = f.gep(self.element, target, f.mul(row.index, arg("target_row")))
            results = transformed(f, self.matrix, values)
            for j, address in enumerate(self._steps(to, arg("target_column"), self.outputs)):
                with f.when(f.icmp("sgt", arg("columns"), i64(j)), "inside"):
                    self._store(results[j], address, mask)

    def _steps(self, start: Value, step: Value, count: int) -> list[Value]:
        f = self.f
        return [f.gep(self.element, start, f.mul(step, i64(number))) for number in range(count)]

    def _load(self, address: Value, mask: Value | None) -> Value:
        if mask is None:
            return self.f.load(self.vector, address)
        return self.f.masked_load(self.vector, address, mask, zero(self.vector))

    def _store(self, value: Value, address: Value, mask: Value | None) -> None:
        if mask is None:
            self.f.store(value, address)
        else:
            self.f.masked_store(value, address, mask)


def transformed(f: FunctionText, matrix: Matrix, values: Sequence[Value]) -> list[Value]:
    """The matrix times a vector of values. Rows that differ in signs alone share sums and so do columns."""
    pair = _mirrored([list(column) for column in zip(*matrix, strict=True)])
    if pair is not None:
        return transformed(f, *_folded(f, matrix, values, *pair))
    results: dict[int, Value] = {}
    for row, coefficients in enumerate(matrix):
        if row in results:
            continue
        other = next((n for n in range(row + 1, len(matrix)) if _is_mirror(coefficients, matrix[n])), None)
        if other is None:
            results[row] = _sum(f, coefficients, values)
            continue
        same = [a if a == b else 0.0 for a, b in zip(coefficients, matrix[other], strict=True)]
        opposite = [a if a != b else 0.0 for a, b in zip(coefficients, matrix[other], strict=True)]
        even, odd = _sum(f, same, values), _sum(f, opposite, values)
        results[row], results[other] = f.fadd(even, odd), f.fsub(even, odd)
    return [results[row] for row in range(len(matrix))]


def _is_mirror(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether these are equal but for some signs, and not all of one kind."""
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if a or b]
    return all(abs(a) == abs(b) for a, b in pairs) and len({a == b for a, b in pairs}) == 2


def _mirrored(columns: Sequence[Sequence[float]]) -> tuple[int, int] | None:
    """Two columns with that property, of a transform that gives fewer values than it takes."""
    if len(columns) <= len(columns[0]):
        return None
    numbers = range(len(columns))
    pairs = ((i, j) for i in numbers for j in numbers if i < j and _is_mirror(columns[i], columns[j]))
    return next(pairs, None)


def _folded(f: FunctionText, matrix: Matrix, values: Sequence[Value], i: int, j: int) -> tuple[Matrix, Sequence[Value]]:
    """The same product with the sum and the difference of two values in their place."""
    rows: list[tuple[float, ...]] = []
    for row in matrix:
        same = row[i] == row[j]
        rest = [value for number, value in enumerate(row) if number not in (i, j)]
        rows.append((row[i] if same else 0.0, 0.0 if same else row[i], *rest))
    rest = [value for number, value in enumerate(values) if number not in (i, j)]
    return tuple(rows), [f.fadd(values[i], values[j]), f.fsub(values[i], values[j]), *rest]


def _sum(f: FunctionText, coefficients: Sequence[float], values: Sequence[Value]) -> Value:
    """One chain: what is only added comes first, a multiplication begins it if there is nothing of that kind."""
    terms = sorted(((c, v) for c, v in zip(coefficients, values, strict=True) if c), key=lambda term: term[0] != 1)
    (first, value), *others = terms
    total = value if first == 1 else f.fmul(constant(value.type, first), value)
    for coefficient, other in others:
        if abs(coefficient) == 1:
            total = f.fadd(total, other) if coefficient == 1 else f.fsub(total, other)
        else:
            total = f.multiply_add(constant(other.type, coefficient), other, total)
    return total
