"""Householder reflections, one by one and in blocks.

A reflection I - tau v v^T has its v in a row; a block of them is I - V^T T V with the rows v of V and an upper triangle
T (Schreiber and Van Loan, "A storage-efficient WY representation", 1989). `TRIANGLE` is how far rows of T are apart;
T is stored with the other sign, because products are added.
"""

from __future__ import annotations

from dfc.kernels.routines import BLOCK
from dfc_target_cpu.routines.notation import Array, Code, Matrix, Number, procedure
from dfc_target_cpu.routines.vectors import add_scaled, divided, dot, filled

TRIANGLE = BLOCK


@procedure("double")
def reflector(c: Code, x: Array, n: Number, tau: Array) -> Number:
    """Makes of `x` the v that reflects it to its first element, the result, whose sign is the other one; v[0] = 1."""
    first, below = x[0], dot(c, x.at(1), x.at(1), n - 1)
    tau[0] = c.real(0)
    result = c.variable(first)
    with c.when(below.differs(0)):
        length = first.fma(first, below).sqrt()
        result.value = -length.with_sign_of(first)
        tau[0] = (result.value - first) / result.value
        divided(c, x.at(1), first - result.value, n - 1)
    x[0] = c.real(1)
    return result.value


@procedure()
def reflected(c: Code, v: Array, tau: Number, x: Array, step: Number, count: Number, n: Number) -> None:
    """`count` rows x of `n` elements, reflected."""
    with c.loop(0, count) as i:
        line = x.at(i * step)
        add_scaled(c, -(dot(c, v, line, n) * tau), v, line, n)


@procedure()
def triangle_of_block(c: Code, v: Array, step: Number, tau: Array, t: Array, count: Number, n: Number) -> None:
    """-T of `count` reflections, whose v are whole rows of `n` elements (zeros in front)."""
    filled(c, t, c.real(0), c.integer(BLOCK * TRIANGLE))
    products = c.array(BLOCK)
    with c.loop(0, count) as k:
        with c.loop(0, k) as i:
            products[i] = dot(c, v.at(i * step), v.at(k * step), n)
        with c.loop(0, k) as i:
            total = c.variable(c.real(0))
            with c.loop(i, k) as p:
                total.value = t[i * TRIANGLE + p].fma(products[p], total.value)
            t[i * TRIANGLE + k] = -tau[k] * total.value
        t[k * TRIANGLE + k] = tau[k]
    with c.loop(0, c.integer(BLOCK * TRIANGLE)) as i:
        t[i] = -t[i]


class Block:
    """`count` reflections of rows of `n` elements: where V and -T lie."""

    def __init__(self, v: Matrix, t: Matrix, count: Number, n: Number) -> None:
        self.v, self.t, self.count, self.n = v, t, count, n


def apply_block(c: Code, x: Matrix, rows: Number, block: Block, memory: Array, product: Array) -> None:
    """x -= (x V^T) T V for the rows of `x`; of a turned T the reflections are applied in the opposite order. `memory`
    has room for 2 `rows` by `BLOCK`."""
    width = c.integer(BLOCK)
    first, second = Matrix(memory, width), Matrix(memory.at(rows * BLOCK), width)
    c.product(x, block.v.turned(), first, (rows, block.count, block.n), product, adds=False)
    c.product(first, block.t, second, (rows, block.count, block.count), product, adds=False)
    c.product(second, block.v, x, (rows, block.n, block.count), product, adds=True)


@procedure()
def formed(c: Code, v: Array, step: Number, t: Array, q: Array, q_step: Number, count: Number, n: Number,
           memory: Array, product: Array) -> None:  # fmt: skip
    """Q^T, as many rows as it has already (`count`), of the reflections whose blocks v and t hold; `q` is filled here.

    Row k of v begins at its element k. The last block is applied first, so that rows stay short."""
    with c.loop(0, count) as i:
        filled(c, q.at(i * q_step), c.real(0), n)
        q[i * q_step + i] = c.real(1)
    blocks = Number(c.f, c.f.udiv((count + (BLOCK - 1)).value, c.integer(BLOCK).value))
    with c.loop_down(blocks, 0) as number:
        j = number * BLOCK
        size = (count - j).minimum(BLOCK)
        triangle = Matrix(t.at(j * TRIANGLE), c.integer(TRIANGLE)).turned()
        block = Block(Matrix(v, step).from_(j, j), triangle, size, n - j)
        apply_block(c, Matrix(q, q_step).from_(j, j), count - j, block, memory, product)
