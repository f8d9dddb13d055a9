"""Names that the author may have meant, and text to type instead."""

from __future__ import annotations

from collections.abc import Iterable


def closest(name: str, candidates: Iterable[str]) -> str:
    """The candidate most like a misspelt name, or the empty string if none is close."""
    best, best_score = "", 0.0
    for candidate in sorted(set(candidates)):
        score = _likeness(name, candidate)
        if score > best_score:
            best, best_score = candidate, score
    return best if best_score > 0 else ""


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
    for index, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and (character.isspace() or (index > 0 and character in _LOOSER)):
            return True
    return False


def _likeness(name: str, candidate: str) -> float:
    """How likely it is that a name is a misspelling; 0 if it is more likely to be another word.

    Few letters differ in a misspelling: one, or two of seven and more; digits are never misspelt.
    """
    if len(name) < 2:
        return 0.0
    if name.lower().replace("_", "") == candidate.lower().replace("_", ""):
        return 0.99
    shorter, longer = sorted((name, candidate), key=len)
    if len(shorter) >= 5 and longer.lower().startswith(shorter.lower()):
        return 0.5
    if abs(len(name) - len(candidate)) > 2 or not _same_digits(name, candidate):
        return 0.0
    distance, size = _distance(name, candidate), len(shorter)
    most = 2 if size >= 7 else 1 if size >= 3 or (size == 2 and longer.startswith(shorter)) else 0
    if size == 3 and len(name) == len(candidate) and sorted(name) != sorted(candidate):
        return 0.0  # of three letters another one makes another word
    turned = 0.05 if sorted(name) == sorted(candidate) else 0.0  # letters change places more often than they go missing
    return 0.9 + turned - distance / max(len(name), len(candidate)) if 0 < distance <= most else 0.0


def _same_digits(name: str, candidate: str) -> bool:
    return [c for c in name if c.isdigit()] == [c for c in candidate if c.isdigit()]


def _distance(name: str, candidate: str) -> int:
    """How many letters are missing, too many, wrong, or exchanged with the next one."""
    before, last = list[int](), list(range(len(candidate) + 1))
    for i, letter in enumerate(name, 1):
        line = [i]
        for j, other in enumerate(candidate, 1):
            best = min(last[j] + 1, line[j - 1] + 1, last[j - 1] + (letter != other))
            if i > 1 and j > 1 and (letter, name[i - 2]) == (candidate[j - 2], other):
                best = min(best, before[j - 2] + 1)
            line.append(best)
        before, last = last, line
    return last[-1]
