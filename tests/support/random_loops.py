"""Random recurrent programs as text: carried tuples, emits, branches, inner loops, products, draws, and zero trips."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

WIDTH = 3


@dataclass(frozen=True, slots=True)
class RandomLoop:
    """A program with the entries `f` (loss and gradients) and `value` (loss), and its feeds. SETTING stands in it."""

    text: str
    feeds: dict[str, np.ndarray]
    over_sizes: bool

    def with_setting(self, setting: str) -> str:
        return self.text.replace(" SETTING", setting)


def random_loop(seed: int) -> RandomLoop:
    rng = np.random.default_rng(seed)
    kind = str(rng.choice(["sequence", "sequence", "count", "run", "while"]))
    iterations = int(rng.choice([0, 1, 2, 5, 16, 17, 35]))
    body = _Body(rng, kind == "sequence")
    lines = body.lines()
    emits = kind in ("sequence", "count") and bool(rng.integers(2))
    head = {
        "sequence": "for x in xs SETTING",
        "count": f"for i in 0..{iterations} SETTING",
        "run": "for i in 0..n",
        "while": "while k < n",
    }[kind]
    more = ", k: i32 = 0" if kind == "while" else ""
    names = ["h", "p", *(["_"] if more else []), *(["es"] if emits else [])]
    if emits:
        lines.append("emit h * q + p.b")
    lines += ["k = k + 1"] if more else []
    loss = "sum(h) + p.a * sum(p.b)" + (" + sum(es * es)" if emits else "")
    loop = f"let {', '.join(names)} = loop h = start, p: (a: f64, b: f64[3]) = (a = s, b = w[0]){more} {head} {{"
    inner = "\n    ".join(lines)
    feeds = {
        "xs": rng.normal(size=(iterations if kind == "sequence" else 4, WIDTH)) / 2,
        "start": rng.normal(size=WIDTH) / 2,
        "w": rng.normal(size=(WIDTH, WIDTH)) / 2,
        "u": rng.normal(size=(WIDTH, WIDTH)) / 2,
        "s": np.array(rng.normal() / 2),
    }
    parameters = "xs: f64[N, 3], start: f64[3], w: f64[3, 3], u: f64[3, 3], s: f64, n: i32"
    gradients = "gx: f64[N, 3], gh: f64[3], gw: f64[3, 3], gu: f64[3, 3], gs: f64"
    body_text = f"  {loop}\n    {inner}\n  }}\n  let l = {loss} + 0.1 * (sum(u) + sum(w) + sum(xs) + sum(start)) + s"
    text = f"""dfg 1
var dice: rng = philox(seed = {seed})
var level: f64 = 0.5
entry f[N]({parameters}) -> (l: f64, {gradients}) {{
{body_text}
  let gx, gh, gw, gu, gs = grad(l, [xs, start, w, u, s])
  return l, gx, gh, gw, gu, gs
}}
entry value[N]({parameters}) -> f64 {{
{body_text}
  return l
}}
"""
    return RandomLoop(text, {**feeds, "n": np.int32(iterations)}, kind in ("sequence", "count"))


class _Body:
    """The statements of an iteration: `q` is a vector that every iteration makes."""

    def __init__(self, rng: np.random.Generator, has_row: bool) -> None:
        self._rng = rng
        self._vectors = ["h", "p.b", *(["x"] if has_row else [])]

    def _vector(self) -> str:
        return str(self._rng.choice(self._vectors))

    def _value(self) -> str:
        v, o = self._vector(), self._vector()
        choices = [
            f"tanh({v} @ w + {o})",
            f"sin(u @ {v}) * {o}",
            f"tanh({v}[new] @ u + {o}[new] @ w)[0]",
            f"{v} * s + cos({o})",
            f"tanh({v}) * p.a",
            f"{v} * {o}",
            f"tanh(concat([{v}, {o}], axis = 0)[1:4] @ w)",
        ]
        return str(self._rng.choice(choices))

    def lines(self) -> list[str]:
        lines = [f"let q = {self._value()}"]
        self._vectors.append("q")
        for number in range(int(self._rng.integers(1, 4))):
            lines += self._statement(number)
        lines += [f"p = (a = tanh(p.a + mean({self._vector()})), b = {self._value()})", f"h = {self._value()}"]
        return lines

    def _statement(self, number: int) -> list[str]:
        name = f"t{number}"
        match int(self._rng.integers(5)):
            case 0:
                lines = [f"let {name} = if p.a > 0 then {self._value()} else {self._value()}"]
            case 1:
                count = int(self._rng.integers(0, 3))
                lines = [f"let {name} = loop z = {self._vector()} for j in 0..{count} {{ z = tanh(z @ u) + s }}"]
            case 2:
                lines = ["let d = dice.uniform(f64[3])", f"let {name} = {self._vector()} * d"]
            case 3:
                lines = [f"let {name} = {self._vector()} * level", "level := level * 0.9 + 0.1"]
            case _:
                lines = [f"let {name} = {self._value()}"]
        self._vectors.append(name)
        return lines
