"""Micro-kernels of the matrix product: one register tile of C over one block of k.

Assumes k >= 1 and that the lanes of a row of B are contiguous. Guarantees that each element of C is one chain of
multiply-adds over ascending k, whatever the tile: so tiles, and with them threads, can be cut anywhere. The last vector
of each row is masked (loads of B and accesses to C); no lane beyond the columns is touched.
"""

from collections.abc import Callable, Sequence

from dfc_target_cpu.llvm.text import FunctionText, Loop, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import i64, zero
from dfc_target_cpu.product.gemm.shape import GemmShape

KERNEL_PARAMETERS = (
    Parameter("ptr", "a", "noalias readonly"),
    Parameter("i64", "a_rs"),
    Parameter("i64", "a_cs"),
    Parameter("ptr", "b", "noalias readonly"),
    Parameter("i64", "b_rs"),
    Parameter("ptr", "c", "noalias"),
    Parameter("i64", "c_rs"),
    Parameter("i64", "k"),
    Parameter("i64", "last"),
    Parameter("i1", "accumulate"),
)
"""Strides in elements; `last`: columns in the last vector; `accumulate`: add to C instead of storing."""
PACKED_PARAMETERS = (*KERNEL_PARAMETERS, Parameter("ptr", "next"), Parameter("i64", "next_stride"))
"""Besides: what is brought into the cache meanwhile, as many elements as the tile has columns from each of `k / 4`
lines."""

Tile = list[list[Value]]
UNROLLED = 4
"""Steps of k between two tests in a kernel for packed factors."""
CACHE_LINE = 64
_SHARED = 3
"""Rows that an address reaches by once and twice their distance."""


def gemm_kernel(module: ModuleText, shape: GemmShape, rows: int, vectors: int) -> str:
    """The kernel of a `rows` x `vectors` tile: `void (KERNEL_PARAMETERS)`."""
    name = f"gemm_{shape.element}_{rows}x{vectors}"
    return module.define(name, lambda: _Kernel(module, name, shape, rows, vectors).build())


def packed_kernel(module: ModuleText, shape: GemmShape, rows: int, vectors: int) -> str:
    """The same tile for factors that are both packed, so that all displacements are constants; strides are not read."""
    name = f"gemm_packed_{shape.element}_{rows}x{vectors}"
    return module.define(name, lambda: _PackedKernel(module, name, shape, rows, vectors).build())


def lines_kernel(module: ModuleText, shape: GemmShape, rows: int, vectors: int) -> str:
    """The same for a packed B and an A whose rows lie together where they are: `a_cs` is 1, and not read."""
    name = f"gemm_lines_{shape.element}_{rows}x{vectors}"
    return module.define(name, lambda: _LinesKernel(module, name, shape, rows, vectors).build())


class _Kernel:
    """One micro-kernel under construction."""

    parameters: Sequence[Parameter] = KERNEL_PARAMETERS

    def __init__(self, module: ModuleText, name: str, shape: GemmShape, rows: int, vectors: int) -> None:
        self.f = module.function(name, "void", self.parameters, attributes="nounwind noinline")
        self.shape, self.rows, self.vectors = shape, rows, vectors

    def build(self) -> FunctionText:
        f = self.f
        mask = f.tail_mask(f.argument("last"), self.shape.lanes)
        row_offsets = self._multiples(f.argument("a_rs"), self.rows)
        self._store_tile(self._multiply(mask, row_offsets), mask)
        f.ret()
        return f

    def _multiples(self, stride: Value, count: int) -> list[Value]:
        return [self.f.mul(stride, i64(i)) if i != 1 else stride for i in range(count)]

    def _multiply(self, mask: Value, row_offsets: list[Value]) -> Tile:
        """The loop over k; bottom-tested, since k >= 1."""
        f, vector = self.f, self.shape.vector
        loop, done = f.label("k"), f.label("k.done")
        start = self._start(mask)
        entry = f.current
        f.branch(loop)
        f.begin(loop)
        index, a, b = f.phi("i64"), f.phi("ptr"), f.phi("ptr")
        for phi, first in ((index, i64(0)), (a, f.argument("a")), (b, f.argument("b"))):
            phi.add(first, entry)
        sums = [[f.phi(vector) for _ in range(self.vectors)] for _ in range(self.rows)]
        following = self._step(a.value, b.value, mask, row_offsets, [[s.value for s in row] for row in sums])
        for old_row, first_row, new_row in zip(sums, start, following, strict=True):
            for old, first, new in zip(old_row, first_row, new_row, strict=True):
                old.add(first, entry)
                old.add(new, loop)
        a.add(f.gep(self.shape.element, a.value, f.argument("a_cs")), loop)
        b.add(f.gep(self.shape.element, b.value, f.argument("b_rs")), loop)
        following_index = f.add(index.value, i64(1))
        index.add(following_index, loop)
        f.branch_if(f.icmp("slt", following_index, f.argument("k")), loop, done)
        f.begin(done)
        return following

    def _step(self, a: Value, b: Value, mask: Value, row_offsets: list[Value], sums: Tile) -> Tile:
        f, shape = self.f, self.shape
        row_of_b = [self._load(f.gep(shape.element, b, i64(j * shape.lanes)), j, mask) for j in range(self.vectors)]
        return self._multiplied([f.gep(shape.element, a, offset) for offset in row_offsets], row_of_b, sums)

    def _multiplied(self, column: Sequence[Value], row_of_b: list[Value], sums: Tile) -> Tile:
        """The sums after one step of k: a broadcast element of each row, which lie at `column`, by a row of B."""
        f, shape = self.f, self.shape
        result: Tile = []
        for address, row in zip(column, sums, strict=True):
            scalar = f.load(shape.element, address)
            broadcast = f.splat(scalar, shape.lanes)
            result.append([f.multiply_add(broadcast, x, s) for x, s in zip(row_of_b, row, strict=True)])
        return result

    def _load(self, address: Value, j: int, mask: Value) -> Value:
        if j < self.vectors - 1:
            return self.f.load(self.shape.vector, address)
        return self.f.masked_load(self.shape.vector, address, mask, zero(self.shape.vector))

    def _start(self, mask: Value) -> Tile:
        """What the sums start from: C when accumulating, else zeros, which do not wait for C: a masked load would, even
        where its mask is empty."""
        f, vector = self.f, self.shape.vector
        accumulated, cleared, started = f.label("accumulated"), f.label("cleared"), f.label("started")
        f.branch_if(f.argument("accumulate"), accumulated, cleared)
        f.begin(accumulated)
        old = [[self._load(address, j, mask) for j, address in enumerate(row)] for row in self._addresses()]
        f.branch(started)
        f.begin(cleared)
        f.branch(started)
        f.begin(started)
        start: Tile = []
        for row in old:
            phis = [f.phi(vector) for _ in row]
            for phi, value in zip(phis, row, strict=True):
                phi.add(value, accumulated)
                phi.add(zero(vector), cleared)
            start.append([phi.value for phi in phis])
        return start

    def _addresses(self) -> Tile:
        """Where the vectors of the tile lie in C."""
        f, shape = self.f, self.shape
        rows = [f.argument("c")]
        while len(rows) < self.rows:
            rows.append(f.gep(shape.element, rows[-1], f.argument("c_rs")))
        return [[f.gep(shape.element, row, i64(j * shape.lanes)) for j in range(self.vectors)] for row in rows]

    def _store_tile(self, tile: Tile, mask: Value) -> None:
        """Without registers for masks, masked stores are slow: whole vectors are stored without."""
        f, addresses = self.f, self._addresses()
        if self.shape.has_masks:
            self._store_vectors(tile, addresses, mask)
            return
        whole, part, done = f.label("whole"), f.label("part"), f.label("stored")
        f.branch_if(f.icmp("eq", f.argument("last"), i64(self.shape.lanes)), whole, part)
        for label, last in ((whole, None), (part, mask)):
            f.begin(label)
            self._store_vectors(tile, addresses, last)
            f.branch(done)
        f.begin(done)

    def _store_vectors(self, tile: Tile, addresses: Tile, mask: Value | None) -> None:
        for values, row in zip(tile, addresses, strict=True):
            for j, (value, address) in enumerate(zip(values, row, strict=True)):
                if mask is not None and j == self.vectors - 1:
                    self.f.masked_store(value, address, mask)
                else:
                    self.f.store(value, address)


class _PackedKernel(_Kernel):
    """The loop over k in steps of `UNROLLED`, then the rest."""

    parameters = PACKED_PARAMETERS

    def build(self) -> FunctionText:
        f = self.f
        mask = f.tail_mask(f.argument("last"), self.shape.lanes)
        for row in self._addresses():
            f.prefetch(row[0])
            f.prefetch(row[-1])
        whole = f.bit_and(f.argument("k"), i64(-UNROLLED))
        sums = self._steps(self._start(mask), i64(0), whole, UNROLLED)
        self._store_tile(self._steps(sums, whole, f.argument("k"), 1), mask)
        f.ret()
        return f

    def _steps(self, sums: Tile, start: Value, stop: Value, count: int) -> Tile:
        f, shape, width = self.f, self.shape, self.vectors * self.shape.lanes
        with f.counted_loop(start, stop, count, "k") as loop:
            carried = [[loop.carry(one) for one in row] for row in sums]
            following = carried
            column = self._column(loop.index)
            b = f.gep(shape.element, f.argument("b"), f.mul(loop.index, i64(width)))
            if count == UNROLLED:
                self._bring_next(loop)
            for step in range(count):
                line = f.gep(shape.element, b, i64(step * width))
                vectors = [
                    f.load(shape.vector, f.gep(shape.element, line, i64(j * shape.lanes))) for j in range(self.vectors)
                ]
                following = self._multiplied(column(step), vectors, following)
            for old_row, new_row in zip(carried, following, strict=True):
                for old, new in zip(old_row, new_row, strict=True):
                    loop.next(old, new)
        return [[loop.result(one) for one in row] for row in carried]

    def _column(self, k: Value) -> Callable[[int], Sequence[Value]]:
        """Where the elements of a column of A lie, so many steps behind this one."""
        a = self.f.gep(self.shape.element, self.f.argument("a"), self.f.mul(k, i64(self.rows)))
        return lambda step: [self.f.gep(self.shape.element, a, i64(step * self.rows + row)) for row in range(self.rows)]

    def _bring_next(self, loop: Loop) -> None:
        """Packing waits for memory where few rows use what it copies, and multiplying does not."""
        f, shape = self.f, self.shape
        line = loop.carry(f.argument("next"))
        width = self.vectors * shape.lanes * shape.element_bytes
        for offset in range(0, width, CACHE_LINE):
            f.prefetch(f.gep("i8", line, i64(offset)), locality=2)
        loop.next(line, f.gep(shape.element, line, f.argument("next_stride")))


class _LinesKernel(_PackedKernel):
    """A in place, three rows to a pointer: displacements along k are constants, and few registers hold addresses."""

    def _column(self, k: Value) -> Callable[[int], Sequence[Value]]:
        f, element, stride = self.f, self.shape.element, self.f.argument("a_rs")
        starts = [f.gep(element, f.argument("a"), f.mul(stride, i64(row))) for row in range(0, self.rows, _SHARED)]
        starts = [f.gep(element, start, k) for start in starts]

        def addresses(step: int) -> Sequence[Value]:
            offsets = [f.mul(stride, i64(row)) if row else i64(0) for row in range(_SHARED)]
            lines = [f.gep(element, start, offset) for start in starts for offset in offsets][: self.rows]
            return [f.gep(element, line, i64(step)) for line in lines]

        return addresses
