"""Many cases that take less time than a test does (some 4 ms to be collected, run and reported), as one test.

@one_test_for_all(RECORDS)          # instead of pytest.mark.parametrize("record", RECORDS)
def test_a_record_documents_itself(record: OpRecord) -> None: ...

A case is the first argument; the others are fixtures, of which all cases have the same. Every case is tried, and each
that fails is named, with its traceback.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable
from typing import Any

import pytest

Test = Callable[..., None]


def one_test_for_all(cases: Iterable[Any]) -> Callable[[Test], Test]:
    every = list(cases)

    def decorate(check: Test) -> Test:
        def test(**fixtures: Any) -> None:
            assert every
            failures = [failure for case in every if (failure := _failure(check, case, fixtures))]
            assert not failures, f"{len(failures)} of {len(every)} cases fail\n\n" + "\n".join(failures)

        signature = inspect.signature(check)
        test.__signature__ = signature.replace(parameters=[*signature.parameters.values()][1:])  # type: ignore[attr-defined]
        test.__name__, test.__qualname__, test.__doc__ = check.__name__, check.__qualname__, check.__doc__
        test.__module__ = check.__module__
        return test

    return decorate


def _failure(check: Test, case: Any, fixtures: dict[str, Any]) -> str:
    """Why a case fails; nothing if it does not."""
    try:
        check(case, **fixtures)
    except (Exception, pytest.fail.Exception):
        return f"case {getattr(case, 'name', case)}:\n{traceback.format_exc()}"
    return ""
