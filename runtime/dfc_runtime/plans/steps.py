"""The steps of a plan: launches, copies and control flow over numbered buffers, with sizes as formulas.

    ["if", 0], ["launch", 3, [4, 5], [["$B"]]], ["else"], ["end"], ["copy", 1, 2]

In JSON they are a flat list in program order, a row for each: `if`, `while` and `for` open blocks, `else` and `do`
divide them, `end` closes. Guarantees that blocks which are read fit each other; `plan` checks the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from dfc_runtime.calls.formulas import Formula
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.formats.fields import integer, items, shown, text
from dfc_runtime.formats.records import read_row, write_row
from dfc_runtime.plans.convolutions import ConvolutionPlan

T = TypeVar("T")

DEEPEST = 200
"""How deep blocks nest at most."""


@dataclass(frozen=True, slots=True)
class Launch:
    kernel: int
    buffers: tuple[int, ...]
    sizes: tuple[Formula, ...]
    convolution: ConvolutionPlan | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class If:
    condition: int
    then: tuple[Step, ...]
    otherwise: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class While:
    condition: tuple[Step, ...]
    test: int
    body: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class For:
    """`counter` numbers the loops of an entry that was read: each has 16 bytes for its running index and its end."""

    index: int
    start: int
    stop: int
    body: tuple[Step, ...]
    counter: int = -1


@dataclass(frozen=True, slots=True)
class Check:
    condition: int
    fault: int


@dataclass(frozen=True, slots=True)
class Measure:
    """`symbol` is the name of the size."""

    symbol: str
    source: int
    most: Formula
    fault: int


@dataclass(frozen=True, slots=True)
class HostCall:
    site: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    extents: tuple[Formula, ...]


Step = Launch | Copy | If | While | For | Check | Measure | HostCall


def inner_steps(step: object) -> tuple[Step, ...]:
    """The steps that a step itself holds, in order."""
    match step:
        case If():
            return step.then + step.otherwise
        case While():
            return step.condition + step.body
        case For():
            return step.body
        case _:
            return ()


def walk(steps: Sequence[T]) -> list[T | Step]:
    """All steps, outer before inner, in the order of the program; iterative."""
    all_steps: list[T | Step] = []
    pending: list[T | Step] = list(reversed(steps))
    while pending:
        step = pending.pop()
        all_steps.append(step)
        pending += reversed(inner_steps(step))
    return all_steps


def operands_of(step: Step) -> set[int]:
    """The buffers that a step itself uses, without those of inner ones."""
    match step:
        case Launch():
            return set(step.buffers)
        case Copy():
            return {step.source, step.target}
        case If() | Check():
            return {step.condition}
        case While():
            return {step.test}
        case For():
            return {step.index, step.start, step.stop}
        case Measure():
            return {step.source}
        case HostCall():
            return {*step.inputs, *step.outputs}


# --- as JSON

ROWS: dict[str, type[Launch | Copy | Check | Measure | HostCall]] = {
    "launch": Launch,
    "copy": Copy,
    "check": Check,
    "measure": Measure,
    "call": HostCall,
}
END: list[object] = ["end"]
_WORDS = {step: word for word, step in ROWS.items()}
_HEADS = {"if": 1, "while": 0, "for": 3}
"""How many buffers the row names that opens a block."""

_DIVIDERS = {"else": ("if", 0), "do": ("while", 1)}
"""The block that a row divides, and how many buffers it names."""


def read_steps(value: object, where: str) -> tuple[Step, ...]:
    """Nested steps of a flat list, without recursion. Loops are numbered in the order in which they end."""
    here: list[Step] = []
    opened: list[tuple[str, list[int], list[Step], tuple[Step, ...]]] = []
    loops = 0
    for number, row in enumerate(items(value, where)):
        path = f"{where}[{number}]"
        fields = items(row, path)
        word = text(fields[0] if fields else None, path)
        if word in _HEADS:
            opened.append((word, _numbers(fields, path, _HEADS[word]), here, ()))
            here = []
            if len(opened) > DEEPEST:
                raise ValueError(f"{path} is nested more than {DEEPEST} deep")
        elif word in _DIVIDERS:
            block, count = _DIVIDERS[word]
            if not opened or opened[-1][0] != block:
                raise ValueError(f"{path} is `{word}` where none belongs")
            _, head, outer, _ = opened.pop()
            opened.append((word, head + _numbers(fields, path, count), outer, tuple(here)))
            here = []
        elif word == "end":
            if not opened or opened[-1][0] in ("if", "while"):
                raise ValueError(f"{path} ends nothing")
            word, head, outer, first = opened.pop()
            outer.append(_block(word, head, first, tuple(here), loops))
            loops, here = loops + (word == "for"), outer
        elif word in ROWS:
            here.append(read_row(ROWS[word], fields[1:], path))
        else:
            raise ValueError(f"{path} is the unknown step {shown(word)}")
    if opened:
        raise ValueError(f"{where} leave a block open")
    return tuple(here)


def _numbers(fields: Sequence[object], where: str, count: int) -> list[int]:
    if len(fields) != count + 1:
        raise ValueError(f"{where} has {len(fields) - 1} operands, not {count}")
    return [integer(value, where) for value in fields[1:]]


def _block(word: str, head: Sequence[int], first: tuple[Step, ...], second: tuple[Step, ...], loops: int) -> Step:
    if word == "for":
        return For(head[0], head[1], head[2], second, loops)
    return If(head[0], first, second) if word == "else" else While(first, head[0], second)


def write_steps(steps: Sequence[Step]) -> list[list[object]]:
    """The flat list of steps; iterative: what is pending are steps, and rows that are finished."""
    flat: list[list[object]] = []
    pending: list[Step | list[object]] = list(reversed(steps))
    while pending:
        step = pending.pop()
        match step:
            case list():
                flat.append(step)
            case If():
                flat.append(["if", step.condition])
                pending += _rows(step.then, ["else"], step.otherwise)
            case While():
                flat.append(["while"])
                pending += _rows(step.condition, ["do", step.test], step.body)
            case For():
                flat.append(["for", step.index, step.start, step.stop])
                pending += [END, *reversed(step.body)]
            case _:
                flat.append([_WORDS[type(step)], *write_row(step)])
    return flat


def _rows(first: Sequence[Step], divider: list[object], second: Sequence[Step]) -> list[Step | list[object]]:
    """The two halves of a block, last row first."""
    return [END, *reversed(second), divider, *reversed(first)]
