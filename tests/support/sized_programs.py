"""Random programs about sizes that only the run finds out, each with its meaning in NumPy.

A program is a list of lines over whole numbers; every value has a group, and values of one group have one shape, so
that they can be added. What a line means is computed beside it, on the feeds of the test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

Array = np.ndarray


@dataclass
class SizedProgram:
    """`values` are by name; `results` name those that the entry returns."""

    rng: np.random.Generator
    feed: Array
    lines: list[str] = field(default_factory=list)
    values: dict[str, Array] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    count: int = 0

    def __post_init__(self) -> None:
        self.add("x", None, self.feed)

    def add(self, name: str, group: str | None, value: Array) -> None:
        self.values[name] = value
        self.groups[name] = self.groups[group] if group is not None else len(self.groups)

    def line(self, text: str, group: str | None, value: Array) -> str:
        name = f"v{self.count}"
        self.count += 1
        self.lines.append(f"let {name} = {text}")
        self.add(name, group, value)
        return name

    def any_name(self) -> str:
        return str(self.rng.choice(list(self.values)))

    def partner(self, name: str) -> str:
        return str(self.rng.choice([other for other, g in self.groups.items() if g == self.groups[name]]))

    @property
    def text(self) -> str:
        names = list(self.values)
        sums = [f"sum({name})" for name in names]
        types = [*["i64[?]"] * (len(names) - 1), *["i64"] * len(names)]
        results = ", ".join(f"r{number}: {type_}" for number, type_ in enumerate(types))
        body = "\n  ".join([*self.lines, f"return {', '.join([*names[1:], *sums])}"])
        return f"dfg 1\n\nreadonly entry f[B](x: i64[B]) -> ({results}) {{\n  {body}\n}}\n"

    @property
    def expected(self) -> list[Array]:
        values = list(self.values.values())
        return [*values[1:], *(np.asarray(v.sum()) for v in values)]


def picked(p: SizedProgram) -> None:
    name = p.any_name()
    k, x = int(p.rng.integers(-3, 4)), p.values[name]
    p.line(f"{name}[{name} > {k}]", None, x[x > k])


def nonzero(p: SizedProgram) -> None:
    name = p.any_name()
    p.line(f"nonzero({name})", None, np.flatnonzero(p.values[name]))


def distinct(p: SizedProgram) -> None:
    name = p.any_name()
    values, inverse, counts = np.unique(p.values[name], return_inverse=True, return_counts=True)
    new = p.line(f"unique({name}).values", None, values)
    # another call has another size of its own, whatever it is
    p.line(f"unique({name}).counts", None, counts)
    p.line(f"unique({name}).inverse", name, inverse)
    p.line(f"{new} * 2 + 1", new, values * 2 + 1)


def combined(p: SizedProgram) -> None:
    a = p.any_name()
    b = p.partner(a)
    p.line(f"{a} * 3 - {b}", a, p.values[a] * 3 - p.values[b])


def counted(p: SizedProgram) -> None:
    name = p.any_name()
    total = int(p.values[name].sum() % 5)
    p.line(f"range(sum({name}) % 5, 4)", None, np.arange(total))


def looped(p: SizedProgram) -> None:
    name = p.any_name()
    p.line(f"for e in {name} {{ emit e * e - 1 }}", name, p.values[name] ** 2 - 1)


def turned(p: SizedProgram) -> None:
    name = p.any_name()
    p.line(f"{name}[::-1]", name, p.values[name][::-1])


def gathered(p: SizedProgram) -> None:
    """Every position of one value, counted from the end, picks from itself."""
    name = p.any_name()
    x = p.values[name]
    p.line(f"sort({name})", name, np.sort(x))


def inside(p: SizedProgram) -> None:
    """A size that belongs to a branch or an iteration; only a number leaves."""
    name = p.any_name()
    x = p.values[name]
    total = sum(int(np.unique(x[x > k]).sum()) for k in range(3))
    loop = f"loop t: i64 = 0 for k in 0..3 {{ t = t + sum(unique({name}[{name} > k]).values) }}"
    new = p.line(loop, None, np.asarray(total))
    chosen = int(x[x > 0].sum() if total > 4 else np.unique(x).size)
    yes, no = f"{{ yield sum({name}[{name} > 0]) }}", f"{{ yield count_distinct({name}) }}"
    p.lines.append(f"let c{new} = if {new} > 4 {yes} else {no}")
    p.lines.append(f"let {new}n = {name} + c{new}")
    p.add(f"{new}n", name, x + chosen)
    del p.values[new], p.groups[new]


STEPS: tuple[Callable[[SizedProgram], None], ...] = (
    picked, nonzero, distinct, combined, combined, counted, looped, turned, gathered, inside,
)  # fmt: skip


def random_program(seed: int, size: int, steps: int) -> SizedProgram:
    rng = np.random.default_rng(seed)
    program = SizedProgram(rng, rng.integers(-4, 5, size))
    for _ in range(steps):
        step = STEPS[int(rng.integers(len(STEPS)))]
        step(program)
    return program
