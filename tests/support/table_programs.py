"""Random programs on whole tables, each with the NumPy function that computes the same.

The text is a function of the seed. Tables are mapped element by element, with each other, with rows, columns and
numbers, summed up along any axes, carried through loops, chosen by branches, written back, changed by the gradients of
losses that look at all rows, and returned. Values stay near 0, so that rounding does not grow.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np

ROWS, COLUMNS = 11, 3
TABLES = ("a", "b", "c")
Env = dict[str, np.ndarray]
Term = tuple[str, Callable[[Env], np.ndarray]]

HEAD = "dfg 1\n" + "".join(f"param {name}: f64[{ROWS}, {COLUMNS}] = uniform(-0.9, 0.9)\n" for name in TABLES)


def _leaf(random: Random, names: tuple[str, ...]) -> Term:
    name = random.choice(names)
    return name, lambda env: env[name]


def _number(random: Random, names: tuple[str, ...]) -> Term:
    """Something that meets a table: a number, a number for each column, or one for each row."""
    text, value = table(random, names, 1)
    kinds: list[Term] = [
        ("0.5", lambda _: np.float64(0.5)),
        ("rate", lambda env: env["rate"]),
        ("w", lambda env: env["w"]),
        (f"mean({text})", lambda env: value(env).mean()),
        (f"max({text})", lambda env: value(env).max()),
        (f"prod({text} * 0.1 + 1)", lambda env: (value(env) * 0.1 + 1).prod()),
        (f"mean({text}, axis = 0)", lambda env: value(env).mean(axis=0)),
        (f"min({text}, axis = 0)", lambda env: value(env).min(axis=0)),
        (f"tanh(sum({text}, axis = 1, keep_dims = true))", lambda env: np.tanh(value(env).sum(1, keepdims=True))),
        (f"max({text}, axis = 1, keep_dims = true)", lambda env: value(env).max(1, keepdims=True)),
    ]
    return random.choice(kinds)


def table(random: Random, names: tuple[str, ...], depth: int) -> Term:
    """A table, with elements between -1 and 1."""
    if depth == 0:
        return _leaf(random, names)
    left, a = table(random, names, depth - 1)
    kind = random.randrange(5)
    if kind == 0:
        return f"sin({left})", lambda env: np.sin(a(env))
    if kind == 1:
        right, b = table(random, names, depth - 1)
        return f"({left} * {right})", lambda env: a(env) * b(env)
    if kind == 2:
        right, b = table(random, names, depth - 1)
        return f"(({left} - {right}) * 0.5)", lambda env: (a(env) - b(env)) * 0.5
    if kind == 3:
        right, b = _number(random, names)
        return f"tanh({left} + {right})", lambda env: np.tanh(a(env) + b(env))
    return f"({left} @ m)", lambda env: a(env) @ env["m"]


def _assign(random: Random, number: int) -> tuple[str, Callable[[Env], None]]:
    name, (text, value) = random.choice(TABLES), table(random, (*TABLES, "x"), 2)
    if random.random() < 0.5:
        return f"  {name} := {text}\n", lambda env: env.update({name: value(env)})
    return f"  {name} -= rate * {text}\n", lambda env: env.update({name: env[name] - env["rate"] * value(env)})


def _gradient(random: Random, number: int) -> tuple[str, Callable[[Env], None]]:
    """Losses whose gradients are known."""
    name, other = random.sample(TABLES, 2)
    losses: list[Term] = [
        (f"mean(square({name}))", lambda env: 2 * env[name] / env[name].size),
        (f"0.01 * sum(square({name}))", lambda env: 0.02 * env[name]),
        (f"sum(sin({name}) * {other})", lambda env: np.cos(env[name]) * env[other]),
        (f"sum(square(sum({name}, axis = 1)))", lambda env: 2 * np.repeat(env[name].sum(1)[:, None], COLUMNS, 1)),
        (f"sum(square(mean({name}, axis = 0)))", lambda env: 2 / ROWS * np.tile(env[name].mean(0), (ROWS, 1))),
    ]
    loss, gradient = random.choice(losses)
    text = f"  let loss{number} = {loss}\n  {name} -= rate * grad(loss{number}, {name})\n"
    return text, lambda env: env.update({name: env[name] - env["rate"] * gradient(env)})


def _loop(random: Random, number: int) -> tuple[str, Callable[[Env], None]]:
    """Loops that carry a table and a number for each column; how many is known, or found out."""
    first, begin = random.choice([_leaf(random, TABLES), ("zeros(f64[11, 3])", lambda _: np.zeros((ROWS, COLUMNS)))])
    text, value = table(random, (*TABLES, "t"), 2)
    name, limit, finds = random.choice(TABLES), random.randrange(4), random.random() < 0.4
    head = f"while sum(abs(s)) < {limit}" if finds else f"for k in 0..{limit}"
    body = f"    t = {text}\n    s = s + 0.4 + abs(mean(t, axis = 0))\n"
    source = f"  let t{number}, s{number} = loop t: f64[11, 3] = {first}, s: f64[3] = w * 0 {head} {{\n{body}  }}\n"

    def run(env: Env) -> None:
        t, s, k = begin(env), env["w"] * 0, 0
        while (abs(s).sum() < limit) if finds else k < limit:
            t, k = value({**env, "t": t}), k + 1
            s = s + 0.4 + abs(t.mean(axis=0))
        env.update({name: t, "s": s})

    return f"{source}  {name} := t{number}\n", run


def _branch(random: Random, number: int) -> tuple[str, Callable[[Env], None]]:
    (yes, a), (no, b) = table(random, TABLES, 1), table(random, (*TABLES, "x"), random.randrange(2))
    name = random.choice(TABLES)
    text = f"  let t{number} = if max(a) > rate {{ yield {yes} }} else {{ yield {no} }}\n  {name} := t{number}\n"
    return text, lambda env: env.update({name: a(env) if env["a"].max() > env["rate"] else b(env)})


def program(seed: int) -> tuple[str, Callable[[Env], list[np.ndarray]]]:
    """An entry `e(x, m, w, rate)`, and the results that it gives for an environment, which also has the tables and
    ends with what they have become."""
    random = Random(seed)
    kinds = (_assign, _assign, _gradient, _loop, _branch)
    steps = [random.choice(kinds)(random, number) for number in range(4)]
    whole, summed = table(random, TABLES, 2), _number(random, TABLES)
    rows = random.choice(TABLES)
    text = (
        HEAD + "entry e(x: f64[11, 3], m: f64[3, 3], w: f64[3], rate: f64) -> (whole: f64[11, 3], s: f64[11, 3],"
        " line: f64[11]) {\n" + "".join(each for each, _ in steps)
    )
    text += f"  return {whole[0]}, {rows} + {summed[0]}, sum({rows}, axis = 1)\n}}\n"

    def run(env: Env) -> list[np.ndarray]:
        for _, step in steps:
            step(env)
        return [whole[1](env), env[rows] + summed[1](env), env[rows].sum(axis=1)]

    return text, run
