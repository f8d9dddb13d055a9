"""Losses whose gradients pick, sort, scatter and loop: what one has of its examples is `e`, and its state is `w`."""

from __future__ import annotations

from textwrap import dedent, indent

VECTOR = "param w: f32[5] = [0.3, -0.2, 0.5, 0.1, -0.4]"
MATRIX = "param w: f32[5, 6] = normal(0, 0.5)"
TABLE = "param w: f32[7, 3] = normal()"
MANY = "param w: f32[5, 100] = normal()"
LINES = {
    "top-k gating": (
        MATRIX,
        "let best, places = top_k(softmax(x @ w), k = 2)\nlet e = square(sum(best, axis = 1) - y)",
    ),
    "sort rows": (MATRIX, "let s = sort(x @ w)\nlet e = square(s[:, 0] * 2.0 - y)"),
    "sort long rows": (MANY, "let s = sort(x @ w)\nlet e = square(s[:, 0] - y)"),
    "sort examples": (VECTOR, "let e = square(sort(x @ w) - y)"),
    "gather_along rows": (
        VECTOR,
        "let s = gather_along(x * w, argsort(x))\nlet e = square(sum(s[:, 0:2], axis = 1) - y)",
    ),
    "gather_along examples": (VECTOR, "let e = square(gather_along(x @ w, argsort(y)) - y)"),
    "pick examples": (VECTOR, "let e = square((x @ w)[argsort(y)] - y)"),
    "pick a label": (MATRIX, "let e = -gather_along(log_softmax(x @ w), reshape(i, [B, 1]) % 6)"),
    "pick one": (VECTOR, "let h = x @ w\nlet e = square(h - h[0] - y)"),
    "cummax in rows": (VECTOR, "let e = square(sum(cummax(x * w, axis = 1), axis = 1) - y)"),
    "cummax over examples": (VECTOR, "let e = square(cummax(x @ w, axis = 0) - y)"),
    "cumsum in rows": (VECTOR, "let e = square(sum(cumsum(x * w, axis = 1), axis = 1) - y)"),
    "emit": (VECTOR, "let h = x * w\nlet e = for r in h { emit square(sum(r)) }"),
    "emit with the weights": (VECTOR, "let e = for r in x { emit square(sum(r * w)) }"),
    "recurrent": (
        VECTOR,
        "let a = loop a = zeros(f32[B]) for t in 0..5 { a = tanh(a + x[:, t] * w[t]) }\nlet e = square(a - y)",
    ),
    "neighbours": (VECTOR, "let h = x @ w\nlet e = square(h[1:] - h[:-1] - y[1:])"),
    "turned round": (VECTOR, "let e = square(roll(x @ w, 1) - y)"),
    "masked": (VECTOR, "let h = x @ w\nlet e = square(h[y > 0.0] - 0.5)"),
    "from the largest": (VECTOR, "let h = x @ w\nlet e = square(h - max(h))"),
    "normalised": (VECTOR, "let h = x @ w\nlet e = square((h - mean(h)) / sqrt(variance(h) + 0.1) - y)"),
    "from the median": (VECTOR, "let h = x @ w\nlet e = square(h - median(h))"),
    "pooled": (VECTOR, "let e = sum(max_pool(reshape(x * w, [B, 5, 1]), [2]), axis = [1, 2])"),
    "table": (TABLE, "let e = sum(square(w[i] - 1.0), axis = 1)"),
    "table, sorted": (TABLE, "let s = sort(w[i])\nlet e = square(s[:, 0])"),
    "labels": (MATRIX, "let e = cross_entropy(x @ w, i % 6)"),
}


def text_of(state: str, lines: str, loss: str) -> str:
    return f"""dfg 1
{state}
entry f[B](x: f32[B, 5], y: f32[B], i: i32[B]) -> (loss: f32) where B >= 2 {{
{indent(dedent(lines), "  ")}
  let loss = {loss}
  w -= grad(loss, w)
  return loss
}}
"""
