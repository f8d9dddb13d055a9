"""Random programs whose variables are read by rows, columns, slices and numbers, and updated by their gradients.

The text is a function of the seed. Losses are sums of a few terms, most of which read a part of a variable; updates
apply functions that keep zeros zero to the gradients. Indices are inside, in any order, negative and repeated.
"""

from __future__ import annotations

from random import Random

import numpy as np

ROWS, COLUMNS = 23, 6

HEAD = f"""dfg 1
var table: f64[{ROWS}, {COLUMNS}] = 0
var bias: f64[{ROWS}] = 0
var squares: f64[{ROWS}, {COLUMNS}] = 0
var narrow: f32[{ROWS}, {COLUMNS}] = 0
"""

TERMS = (
    "sum(sin(table[ids]))",
    "sum(square(table[ids]) * k)",
    "sum(cos(table[pairs]))",
    "sum(table[1:4] * table[0])",
    "sum(square(table[2:19:3]))",
    "sum(exp(table[ids[0]]))",
    "sum(square(transpose(table)[:, ids]))",
    "sum(sin(table[:, columns]))",
    "sum(square(table[ids][:, columns]))",
    "sum(square(table[ids, 1:3]))",
    "sum(tanh(table[4:9][:, 2:5]))",
    "sum(square(table[0:9][small]))",
    "sum(bias[ids] * table[ids, 0])",
    "sum(square(bias[pairs]))",
    "sum(square(bias[3:9]) * bias[0])",
    "sum(square(table[ids] @ table[0:1][0]))",
    "sum(square(narrow[ids] as f64))",
    "inner(ids, c)",
    "chosen(pairs[0], c)",
    "rounds(ids)",
    "nested(pairs)",
    "parts_in_rounds(ids, columns)",
    "branches_in_rounds(pairs[0], c)",
)
DENSE = ("sum(square(table))", "sum(table @ transpose(table))", "sum(sin(bias))")

BODY = """
proc inner[B](ids: i64[B], c: bool) -> f64 {
  let y = if c { yield sum(square(table[ids])) } else { yield sum(square(table[2:4])) }
  return y
}
proc chosen(ids: i64[2], c: bool) -> f64 {
  let y = if c { yield 1.5 as f64 } else { yield sum(sin(table[ids])) + sum(bias[ids]) }
  return y
}
proc rounds[B](ids: i64[B]) -> f64 {
  let y = loop s: f64 = 0 for i in 0..B { s = s + sum(sin(table[ids[i]])) * (1 + 0.1 * s) }
  return y
}
proc nested(pairs: i64[3, 2]) -> f64 {
  let y = loop s: f64 = 0 for i in 0..3 {
    let u = loop t: f64 = s for j in 0..2 { t = 0.5 * t + sum(square(table[pairs[i, j]])) }
    s = s + u
  }
  return y
}
proc parts_in_rounds[B](ids: i64[B], columns: i64[3]) -> f64 {
  let y = loop s: f64 = 0 for i in 0..3 {
    s = 0.5 * s + sum(sin(table[2:4])) * s + sum(square(table[:, columns[i]])) + sum(square(transpose(table)[:, ids]))
  }
  return y
}
proc branches_in_rounds(ids: i64[2], c: bool) -> f64 {
  let y = loop s: f64 = 1 for i in 0..3 {
    let u = if c or i == 1 { yield sum(square(table[ids])) } else { yield s }
    s = 0.5 * s + u
  }
  return y
}
"""

UPDATES = (
    "table -= rate * grad(loss, table)",
    "table += -grad(loss, table) * 0.1",
    "table := table - rate * grad(loss, table)",
    "table := grad(loss, table) * rate + table",
    "table -= grad(loss, table) / 3 * rate",
    "table -= rate * clamp(grad(loss, table), -0.1, 0.1)",
    "table -= rate * tanh(grad(loss, table))",
    "table -= rate * grad(loss, table) * squares",
    "table -= rate * grad(loss, table) * square(grad(loss, table))",
    "table -= rate * grad(loss, table) * k",
    "bias -= rate * grad(loss, bias)",
    "let n = sum(square(grad(loss, table)))\n  table -= rate * grad(loss, table) / (1 + n)",
    "let m = sum(grad(loss, bias))\n  bias -= rate * m * grad(loss, bias)",
    "bias := bias - rate * sign(grad(loss, bias))",
    "narrow -= rate as f32 * grad(loss, narrow)",
    "narrow -= (rate * grad(loss, narrow) as f64) as f32",
    "squares := squares + square(grad(loss, table))",
    "let old = squares\n  squares *= 0.5\n  squares := old + square(grad(loss, table))",
    "squares := squares + square(grad(loss, table))\n  table -= rate * grad(loss, table) / (sqrt(squares) + 1e-3)",
    "let g = grad(loss, table)\n  table -= rate * g\n  bias[0:6] += g[0]",
)

RESULTS = ("loss", "sum(table[ids])", "sum(square(table))", "sum(bias[3:5])", "sum(before)", "sum(squares[ids])")


def program(seed: int, dense: float = 0.1) -> str:
    """A program with one entry `e(ids, pairs, small, columns, k, c, rate)`."""
    chance = Random(seed)
    terms = chance.sample(TERMS, chance.randint(2, 5))
    if chance.random() < dense:
        terms.append(chance.choice(DENSE))
    updates = chance.sample(UPDATES, chance.randint(1, 3))
    results = chance.sample(RESULTS, 2)
    signature = f"ids: i64[B], pairs: i64[3, 2], small: i64[4], columns: i64[3], k: f64[{COLUMNS}], c: bool, rate: f64"
    lines = [
        f"let before = table[{chance.choice(('1:3', 'ids', '0'))}]",
        # every variable must be on a path to the loss, and reading nothing of it is a path too
        "let reads = sum(table[0:0]) + sum(bias[0:0]) + sum(narrow[0:0] as f64)",
        f"let loss = reads + {' + '.join(terms)}",
        *updates,
        f"return {', '.join(results)}",
    ]
    body = "\n  ".join(lines)
    return f"{HEAD}{BODY}\nentry e[B]({signature}) -> (a: f64, b: f64) where B >= 1 {{\n  {body}\n}}\n"


def feeds(seed: int, count: int) -> dict[str, object]:
    rng = np.random.default_rng(seed)
    return {
        "ids": rng.integers(-ROWS, ROWS, count),
        "pairs": rng.integers(-4, 4, (3, 2)),
        "small": rng.integers(-9, 9, 4),
        "columns": rng.integers(-COLUMNS, COLUMNS, 3),
        "k": rng.normal(size=COLUMNS),
        "c": bool(rng.random() < 0.5),
        "rate": 0.1,
    }


def state(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed + 1)
    return {
        "table": rng.normal(size=(ROWS, COLUMNS)),
        "bias": rng.normal(size=ROWS),
        "squares": rng.random((ROWS, COLUMNS)),
        "narrow": rng.normal(size=(ROWS, COLUMNS)).astype(np.float32),
    }
