"""Micro-kernels of the matrix product: one register tile of C over one block of k.

Assumes k >= 1 and that the lanes of a row of B are contiguous. Guarantees that each element of C is one chain of
multiply-adds over ascending k, whatever the tile: so tiles, and with them threads, can be cut anywhere. The last vector
of each row is masked (loads of B and accesses to C); no lane beyond the columns is touched.
"""

from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import i64, zero
from dfc_target_cpu.product.gemm_shape import GemmShape

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

Tile = list[list[Value]]


def gemm_kernel(module: ModuleText, shape: GemmShape, rows: int, vectors: int) -> str:
    """The kernel of a `rows` x `vectors` tile: `void (KERNEL_PARAMETERS)`."""
    name = f"gemm_{shape.element}_{rows}x{vectors}"
    return module.define(name, lambda: _Kernel(module, name, shape, rows, vectors).build())


class _Kernel:
    """One micro-kernel under construction."""

    def __init__(self, module: ModuleText, name: str, shape: GemmShape, rows: int, vectors: int) -> None:
        self.f = module.function(name, "void", KERNEL_PARAMETERS, attributes="nounwind noinline")
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
        result: Tile = []
        for offset, row in zip(row_offsets, sums, strict=True):
            scalar = f.load(shape.element, f.gep(shape.element, a, offset))
            broadcast = f.splat(scalar, shape.lanes)
            result.append([f.multiply_add(broadcast, x, s) for x, s in zip(row_of_b, row, strict=True)])
        return result

    def _load(self, address: Value, j: int, mask: Value) -> Value:
        if j < self.vectors - 1:
            return self.f.load(self.shape.vector, address)
        return self.f.masked_load(self.shape.vector, address, mask, zero(self.shape.vector))

    def _start(self, mask: Value) -> Tile:
        """What the sums start from: C when accumulating, else zero (C is then not even read where masks exist)."""
        f, lanes = self.f, self.shape.lanes
        is_accumulated = f.splat(f.argument("accumulate"), lanes)
        last = f.bit_and(mask, is_accumulated)
        return [
            [
                self._load_start(address, is_accumulated if j < self.vectors - 1 else last)
                for j, address in enumerate(row)
            ]
            for row in self._addresses()
        ]

    def _load_start(self, address: Value, mask: Value) -> Value:
        return self.f.masked_load(self.shape.vector, address, mask, zero(self.shape.vector))

    def _addresses(self) -> Tile:
        """Where the vectors of the tile lie in C."""
        f, shape = self.f, self.shape
        rows = [f.argument("c")]
        while len(rows) < self.rows:
            rows.append(f.gep(shape.element, rows[-1], f.argument("c_rs")))
        return [[f.gep(shape.element, row, i64(j * shape.lanes)) for j in range(self.vectors)] for row in rows]

    def _store_tile(self, tile: Tile, mask: Value) -> None:
        for values, addresses in zip(tile, self._addresses(), strict=True):
            for value, address in zip(values[:-1], addresses[:-1], strict=True):
                self.f.store(value, address)
            self.f.masked_store(values[-1], addresses[-1], mask)
