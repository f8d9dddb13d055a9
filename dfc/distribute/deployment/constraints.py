"""Partial constraints together: what satisfies both, and when nothing does."""

from __future__ import annotations

from typing import TypeVar

from dfc.diagnostics.source import Span
from dfc.distribute.deployment.model import Colocate, Constraint, PlaceStatement, Shard

Part = TypeVar("Part", str, int)


def intersection(left: Constraint, right: Constraint) -> Constraint | None:
    """What satisfies both, or None. The span is that of the one that says more."""
    parts = (
        (left.job, right.job),
        (left.task, right.task),
        (left.device, right.device),
        (left.number, right.number),
    )
    if any(one is not None and other is not None and one != other for one, other in parts):
        return None
    longer = left if len(str(left).split()) >= len(str(right).split()) else right
    return Constraint(
        _either(left.job, right.job),
        _either(left.task, right.task),
        _either(left.device, right.device),
        _either(left.number, right.number),
        longer.span,
    )


def asked_by(statement: PlaceStatement | Shard) -> Constraint:
    """What a line asks for; a sharded variable is in all tasks of a job."""
    if isinstance(statement, PlaceStatement):
        return statement.where
    return Constraint(statement.job, None, None, None, statement.job_span)


def contradict(first: PlaceStatement | Shard, second: PlaceStatement | Shard) -> bool:
    """Nothing can be where both lines say; nor can what is distributed over tasks be in a single one."""
    one, other = asked_by(first), asked_by(second)
    is_sharded = isinstance(first, Shard) or isinstance(second, Shard)
    if is_sharded and (one.task is not None or other.task is not None):
        return True
    return intersection(one, other) is None


def words_of(statement: PlaceStatement | Shard | Colocate) -> Span:
    """The part of a line that says where."""
    if isinstance(statement, PlaceStatement):
        return statement.where.span
    return statement.job_span if isinstance(statement, Shard) else statement.span


def where_text(asked: Constraint) -> str:
    """A constraint as a `place` line says it."""
    if asked.job is not None or asked.task is None:
        return str(asked) or "any cpu"
    kind = "" if asked.device is None else f"/device:{asked.device}:{'*' if asked.number is None else asked.number}"
    return f'"/task:{asked.task}{kind}"'


def _either(left: Part | None, right: Part | None) -> Part | None:
    return right if left is None else left
