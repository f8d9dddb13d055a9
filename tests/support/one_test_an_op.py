"""Matrices of ops and samples as one test an op, which goes through all samples and names each that fails.

@one_test_an_op([(record, sample), ...])          # instead of pytest.mark.parametrize(("record", "sample"), ...)
def test_programs_compute_the_reference(record: OpRecord, sample: Sample) -> None: ...

A case is what the function takes, the record first; as `pytest.param` it may have a name of its own. Functions take no
fixtures.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

Test = Callable[..., None]


def one_test_an_op(cases: Iterable[Any]) -> Callable[[Test], Test]:
    """A decorator; the tests have the names of the ops."""
    every: dict[str, list[tuple[str, Sequence[Any]]]] = {}
    for number, case in enumerate(cases):
        values: Sequence[Any] = getattr(case, "values", case)
        name = getattr(case, "id", None) or f"{values[0].name}-{number}"
        every.setdefault(values[0].name, []).append((name, values))

    def decorate(check: Test) -> Test:
        def test(op: str) -> None:
            assert every[op]
            failures = [failure for name, values in every[op] if (failure := failure_of(check, name, values))]
            assert not failures, f"{len(failures)} of {len(every[op])} samples fail\n\n" + "\n".join(failures)

        test.__name__, test.__qualname__, test.__doc__ = check.__name__, check.__qualname__, check.__doc__
        test.__module__ = check.__module__
        return pytest.mark.parametrize("op", list(every))(test)

    return decorate


def failure_of(check: Test, name: str, values: Sequence[Any]) -> str:
    """Why a sample fails; nothing if it does not."""
    try:
        check(*values)
    except (Exception, pytest.fail.Exception):
        return f"sample {name}: {values[1]}\n{traceback.format_exc()}"
    return ""
