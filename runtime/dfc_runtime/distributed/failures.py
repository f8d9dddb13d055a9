"""Errors on their way between ranks: the same error everywhere, with the rank where it arose named.

Guarantees that an error of dfc keeps its class, code, places and numbers; any other is reported as what failed there,
with the exit code it would have on one rank: a bug is no death of a rank, which a restart may cure.
"""

from __future__ import annotations

from collections.abc import Mapping

from dfc_runtime import errors
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.errors import DfcError, FileError, LimitError, RankError, RunError
from dfc_runtime.formats.fields import integer, items, text
from dfc_runtime.formats.manifest import SourceLocation

_CLASSES: Mapping[str, type[DfcError]] = {
    each.__name__: each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, DfcError)
}


class CallStoppedError(Exception):
    """This rank stops a call because another one failed."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as data."""

    kind: str
    code: str
    message: str
    spans: tuple[tuple[str, int, int], ...] = ()
    values: tuple[int, ...] = ()

    def to_json(self) -> dict[str, object]:
        return {
            "kind": self.kind,
            "code": self.code,
            "message": self.message,
            "spans": [list(each) for each in self.spans],
            "values": list(self.values),
        }

    def error(self) -> DfcError:
        """The error it stands for."""
        spans = [SourceLocation(*each) for each in self.spans]
        error_class = _CLASSES.get(self.kind, RankError)
        if issubclass(error_class, RunError):
            return error_class(self.message, code=self.code, spans=spans, values=self.values)
        return error_class(self.message, code=self.code, spans=spans)


def failure_of(problem: BaseException, task: str) -> Failure:
    """The error that arose in a task; "" where the error itself says it, or nobody is to blame."""
    where = f"\n  on {task}" if task else ""
    if isinstance(problem, DfcError):
        known = next(each.__name__ for each in type(problem).__mro__ if each.__name__ in _CLASSES)
        spans = tuple((each.name, each.line, each.column) for each in problem.spans)
        values = problem.values if isinstance(problem, RunError) else ()
        return Failure(known, problem.code, problem.message + where, spans, values)
    if isinstance(problem, MemoryError):
        return Failure(LimitError.__name__, "E0905", "there is no memory for the call" + where)
    if isinstance(problem, OSError):
        return Failure(FileError.__name__, "E0909", f"{_in_words(problem)}{where}")
    return Failure(DfcError.__name__, "", f"{type(problem).__name__}: {problem}{where}")


def _in_words(problem: OSError) -> str:
    name = f"{problem.filename}: " if problem.filename else ""
    return f"{name}{problem.strerror or problem}"


def failure_from(data: Mapping[str, object]) -> Failure:
    spans: list[tuple[str, int, int]] = []
    for each in items(data["spans"], "spans"):
        name, line, column = items(each, "span")
        spans.append((text(name, "span"), integer(line, "span"), integer(column, "span")))
    values = tuple(integer(each, "value", -(2**63)) for each in items(data["values"], "values"))
    return Failure(
        text(data["kind"], "kind"), text(data["code"], "code"), text(data["message"], "message"), tuple(spans), values
    )
