"""Register tiles of direct convolutions, and lines of tiles: rows of positions, or of elements of windows.

    for each of `far`, for each of `outer`, for each of `inner`:  sums[i][:] += broadcast(a of row i) * row of b

Rows of `b` are packed, one after the other. There are two ways to walk through `a`: `POSITIONS` has rows `move`
elements apart and goes on by one element (channels of a window); `TAPS` has rows next to each other and goes on by
`move` (positions). So all other addresses are constant distances from few registers.

Assumes rows of `b` of whole vectors. Guarantees that each sum is one chain of multiply-adds over ascending depth, and
that no lane of C beyond `last` lanes of the last vector is touched.
"""

from collections.abc import Sequence

from dfc.deferred.dataclasses import dataclass
from dfc_target_cpu.llvm.text import FunctionText, Loop, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import i64, vector_type, zero

POSITIONS, TAPS = "positions", "taps"
_UNROLLED = 4

TILE_PARAMETERS = (
    Parameter("ptr", "a", "noalias readonly"),
    *(Parameter("i64", name) for name in ("move", "inner", "outer_step", "outer", "far_step", "far")),
    Parameter("ptr", "b", "noalias readonly"),
    Parameter("ptr", "c", "noalias"),
    *(Parameter("i64", name) for name in ("c_row", "last")),
    Parameter("i1", "accumulate"),
)
LINE_PARAMETERS = (*TILE_PARAMETERS, Parameter("i64", "count"))
"""Steps in elements. `last`: columns in the last vector; `accumulate`: add to C instead of storing; `count` rows."""

Tile = list[list[Value]]


@dataclass(frozen=True, slots=True)
class TileShape:
    """Tiles of up to `rows` rows of `vectors` vectors of `lanes` elements."""

    walk: str
    element: str
    lanes: int
    rows: int
    vectors: int

    @property
    def vector(self) -> str:
        return vector_type(self.lanes, self.element)

    @property
    def line(self) -> str:
        """The name of the function of whole lines."""
        return f"window_{self.walk}_{self.element}_{self.vectors}"


def tile_heights(count: int, most: int) -> set[int]:
    """The heights of the tiles that a line of `count` rows is cut into, none of which has more than `most`."""
    tiles = -(-count // most)
    if not tiles:
        return set()
    base, extra = divmod(count, tiles)
    return {base, base + 1} if extra else {base}


def line(module: ModuleText, shape: TileShape, heights: Sequence[int]) -> str:
    """`void (LINE_PARAMETERS)`: `count` rows in tiles of heights as equal as they can be, all of them in `heights`."""
    return module.define(shape.line, lambda: _line(module, shape, heights))


def _line(module: ModuleText, shape: TileShape, heights: Sequence[int]) -> FunctionText:
    """As `tile_heights` cuts it; a height that no line has would be undefined."""
    f = module.function(shape.line, "void", LINE_PARAMETERS, linkage="hidden", attributes="nounwind noinline")
    arg = f.argument
    tiles = f.udiv(f.add(arg("count"), i64(shape.rows - 1)), i64(shape.rows))
    safe = f.maximum(tiles, i64(1))
    base, extra = f.udiv(arg("count"), safe), f.urem(arg("count"), safe)
    row_step = arg("move") if shape.walk == POSITIONS else i64(1)
    with f.counted_loop(i64(0), tiles, hint="tile") as loop:
        row = f.add(f.mul(base, loop.index), f.minimum(loop.index, extra))
        height = f.add(base, f.cast("zext", f.icmp("slt", loop.index, extra), "i64"))
        a = f.gep(shape.element, arg("a"), f.mul(row, row_step))
        c = f.gep(shape.element, arg("c"), f.mul(row, arg("c_row")))
        operands = [a, *f.arguments[1:8], c, *f.arguments[9:12]]
        cases = [(rows, f.label("height")) for rows in heights]
        impossible, done = f.label("impossible"), f.label("done")
        f.switch(height, impossible, cases)
        for rows, label in cases:
            f.begin(label)
            f.call(_tile(module, shape, rows), "void", operands)
            f.branch(done)
        f.begin(impossible)
        f.unreachable()
        f.begin(done)
    f.ret()
    return f


def _tile(module: ModuleText, shape: TileShape, rows: int) -> str:
    name = f"{shape.line}x{rows}"
    return module.define(name, lambda: _Tile(module, name, shape, rows).build())


class _Tile:
    """One register tile under construction."""

    def __init__(self, module: ModuleText, name: str, shape: TileShape, rows: int) -> None:
        self.f = module.function(name, "void", TILE_PARAMETERS, attributes="nounwind noinline")
        self.shape, self.rows = shape, rows
        f, arg = self.f, self.f.argument
        self.whole = f.icmp("sge", arg("last"), i64(shape.lanes))
        self.mask = f.tail_mask(arg("last"), shape.lanes)
        steps = [arg("move") if number == 1 else f.mul(arg("move"), i64(number)) for number in range(1, 1 + rows)]
        self.moves = [i64(0), *steps]
        self.unrolled = [i64(0), *(f.mul(arg("move"), i64(number)) for number in range(1, _UNROLLED + 1))]

    def build(self) -> FunctionText:
        f, arg = self.f, self.f.argument
        flat = [value for row in self._start() for value in row]
        if self.shape.walk == TAPS:
            self._fetch_next()
        with f.counted_loop(i64(0), arg("far"), hint="far") as far:
            carried = [far.carry(value) for value in (arg("a"), arg("b"), *flat)]
            inside = self._outer(carried)
            following = [f.gep(self.shape.element, carried[0], arg("far_step")), *inside[1:]]
            _carry(far, carried, following)
        sums = [far.result(value) for value in carried[2:]]
        self._store([sums[i : i + self.shape.vectors] for i in range(0, len(sums), self.shape.vectors)])
        f.ret()
        return f

    def _outer(self, values: list[Value]) -> list[Value]:
        f, arg = self.f, self.f.argument
        with f.counted_loop(i64(0), arg("outer"), hint="outer") as outer:
            carried = [outer.carry(value) for value in values]
            inside = self._inner(carried)
            _carry(outer, carried, [f.gep(self.shape.element, carried[0], arg("outer_step")), *inside[1:]])
        return [outer.result(value) for value in carried]

    def _inner(self, values: list[Value]) -> list[Value]:
        """Several steps at a time, then one by one. `values`: a, b and the sums."""
        f, inner = self.f, self.f.argument("inner")
        whole = f.bit_and(inner, i64(-_UNROLLED))
        rows = self._rows(values[0])
        values = self._steps(rows, values, i64(0), whole, _UNROLLED)
        return self._steps(rows, values, whole, inner, 1)

    def _rows(self, a: Value) -> list[Value]:
        """Where each row begins."""
        if self.shape.walk == TAPS:
            return []
        return [self.f.gep(self.shape.element, a, self.moves[row]) for row in range(self.rows)]

    def _steps(self, rows: list[Value], values: list[Value], start: Value, stop: Value, unrolled: int) -> list[Value]:
        f, element = self.f, self.shape.element
        with f.counted_loop(start, stop, unrolled, "inner") as loop:
            carried = [loop.carry(value) for value in values]
            a, b, sums = carried[0], carried[1], carried[2:]
            starts = [f.gep(element, row, loop.index) for row in rows]
            for step in range(unrolled):
                addresses = [f.gep(element, row, i64(step)) for row in starts] or self._neighbours(a, step)
                sums = self._step(addresses, b, step, sums)
            following = f.gep(element, a, self.unrolled[unrolled]) if self.shape.walk == TAPS else a
            length = unrolled * self.shape.vectors * self.shape.lanes
            _carry(loop, carried, [following, f.gep(element, b, i64(length)), *sums])
        return [loop.result(value) for value in carried]

    def _neighbours(self, a: Value, step: int) -> list[Value]:
        f, element = self.f, self.shape.element
        start = f.gep(element, a, self.unrolled[step])
        return [f.gep(element, start, i64(row)) for row in range(self.rows)]

    def _step(self, addresses: list[Value], b: Value, step: int, sums: list[Value]) -> list[Value]:
        f, shape = self.f, self.shape
        first = step * shape.vectors
        right = [
            f.load(shape.vector, f.gep(shape.element, b, i64((first + j) * shape.lanes))) for j in range(shape.vectors)
        ]
        result: list[Value] = []
        for row, address in enumerate(addresses):
            left = f.splat(f.load(shape.element, address), shape.lanes)
            old = sums[row * shape.vectors : (row + 1) * shape.vectors]
            result += [f.multiply_add(left, x, s) for x, s in zip(right, old, strict=True)]
        return result

    # --- the sums in memory

    def _addresses(self) -> Tile:
        f, shape = self.f, self.shape
        rows = [f.argument("c")]
        while len(rows) < self.rows:
            rows.append(f.gep(shape.element, rows[-1], f.argument("c_row")))
        return [[f.gep(shape.element, row, i64(j * shape.lanes)) for j in range(shape.vectors)] for row in rows]

    def _start(self) -> Tile:
        """Zeros, or what is there; it is not read otherwise."""
        f, nothing = self.f, zero(self.shape.vector)
        add, whole, partial, go = (f.label(x) for x in ("add", "whole", "partial", "go"))
        begin = f.current
        f.branch_if(f.argument("accumulate"), add, go)
        f.begin(add)
        addresses = self._addresses()
        f.branch_if(self.whole, whole, partial)
        loaded: list[tuple[str, Tile]] = []
        for label in (whole, partial):
            f.begin(label)
            tile = [[f.load(self.shape.vector, address) for address in row[:-1]] for row in addresses]
            for values, row in zip(tile, addresses, strict=True):
                last = (
                    f.load(self.shape.vector, row[-1])
                    if label == whole
                    else f.masked_load(self.shape.vector, row[-1], self.mask, nothing)
                )
                values.append(last)
            loaded.append((label, tile))
            f.branch(go)
        f.begin(go)
        result: Tile = []
        for row in range(self.rows):
            phis = [f.phi(self.shape.vector) for _ in range(self.shape.vectors)]
            for column, phi in enumerate(phis):
                phi.add(nothing, begin)
                for label, tile in loaded:
                    phi.add(tile[row][column], label)
            result.append([phi.value for phi in phis])
        return result

    def _fetch_next(self) -> None:
        """The sums of the next tile, which lie in a farther cache: on their way while this one is made."""
        f, shape = self.f, self.shape
        row = f.gep(shape.element, f.argument("c"), f.mul(f.argument("c_row"), i64(self.rows)))
        for _ in range(self.rows):
            for j in range(shape.vectors):
                f.prefetch(f.gep(shape.element, row, i64(j * shape.lanes)))
            row = f.gep(shape.element, row, f.argument("c_row"))

    def _store(self, sums: Tile) -> None:
        f = self.f
        addresses = self._addresses()
        whole, partial, done = (f.label(x) for x in ("store", "store.partial", "stored"))
        f.branch_if(self.whole, whole, partial)
        for label in (whole, partial):
            f.begin(label)
            for values, row in zip(sums, addresses, strict=True):
                for value, address in zip(values[:-1], row[:-1], strict=True):
                    f.store(value, address)
                if label == whole:
                    f.store(values[-1], row[-1])
                else:
                    f.masked_store(values[-1], row[-1], self.mask)
            f.branch(done)
        f.begin(done)


def _carry(loop: Loop, carried: list[Value], following: list[Value]) -> None:
    for old, new in zip(carried, following, strict=True):
        loop.next(old, new)
