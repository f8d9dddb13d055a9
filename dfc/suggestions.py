"""Names that the author may have meant, and text to type instead."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher


def closest(name: str, candidates: Iterable[str]) -> str:
    """The candidate most like a misspelt name, or the empty string if none is close."""
    best, best_score = "", 0.0
    for candidate in sorted(set(candidates)):
        score = _likeness(name, candidate)
        if score > best_score:
            best, best_score = candidate, score
    return best if best_score >= 0.7 else ""


def did_you_mean(name: str) -> str:
    return f"did you mean `{name}`?" if name else ""


def listed(names: Iterable[str], limit: int = 12) -> str:
    """`a, b and c`"""
    ordered = list(names)
    if len(ordered) > limit:
        ordered = [*ordered[:limit], f"{len(ordered) - limit} more"]
    if len(ordered) < 2:
        return "".join(ordered)
    return f"{', '.join(ordered[:-1])} and {ordered[-1]}"


_LOOSER = frozenset("+-*/%@<>=!|")  # what operators that bind less tightly than `as` are written with


def converted(text: str, dtype: object) -> str:
    """An expression of the author with a conversion behind it, which binds more tightly than most operators."""
    return f"({text}) as {dtype}" if _has_operator(text) else f"{text} as {dtype}"


def grouped(text: str) -> str:
    """An expression of the author where an operand of any operator, or of brackets behind it, may stand."""
    return f"({text})" if _has_operator(text) or text.startswith("-") else text


def _has_operator(text: str) -> bool:
    depth = 0
    for place, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and (character.isspace() or (place > 0 and character in _LOOSER)):
            return True
    return False


def _likeness(name: str, candidate: str) -> float:
    if name.lower().replace("_", "") == candidate.lower().replace("_", ""):
        return 0.99
    if abs(len(name) - len(candidate)) > max(len(name), len(candidate)) // 2 + 1:
        return 0.0
    score = SequenceMatcher(None, name, candidate).ratio()
    shorter, longer = sorted((name.lower(), candidate.lower()), key=len)
    if len(shorter) >= 4 and longer.startswith(shorter):
        score = max(score, 0.75)
    return score if len(name) > 1 else 0.0
