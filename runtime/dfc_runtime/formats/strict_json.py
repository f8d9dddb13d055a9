"""JSON from outside: no NaN, no infinities, no duplicate keys, no deep nesting; and JSON with one spelling.

Assumes that the caller has bounded the length. Guarantees a `ValueError` of one short line for whatever is refused,
and that `dump` gives equal bytes for equal data.
"""

from __future__ import annotations

import json
import math

MAXIMUM_DEPTH = 100


def parse(text: str) -> object:
    """The data of a JSON text; `ValueError` says what is wrong with it."""
    try:
        data: object = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_finite_float
        )
    except json.JSONDecodeError as problem:
        raise ValueError(f"no valid JSON at character {problem.pos}") from None
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None
    _check_depth(data)
    return data


def dump(data: object) -> str:
    """The one spelling of this data: keys sorted, no spaces, ASCII."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("JSON has a key twice")
    return members


def _refuse_constant(name: str) -> object:
    raise ValueError(f"JSON holds {name}")


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("JSON holds a number that is too large")
    return value


def _check_depth(data: object) -> None:
    level: list[object] = [data]
    for _ in range(MAXIMUM_DEPTH):
        level = [inner for each in level for inner in _children(each)]
        if not level:
            return
    raise ValueError("JSON is nested too deeply")


def _children(data: object) -> list[object]:
    if isinstance(data, dict):
        return [*data.values()]
    return [*data] if isinstance(data, list) else []
