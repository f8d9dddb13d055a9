"""One test an op goes through all samples, and says of each that fails which one it is."""

from __future__ import annotations

import pytest

from dfc.ops import registry
from dfc.ops.record import OpRecord, Sample
from tests.support.one_test_an_op import one_test_an_op

ADD, EXP = registry.record("add"), registry.record("exp")


def test_there_is_a_test_for_each_op() -> None:
    @one_test_an_op([(ADD, 1), (EXP, 2), (ADD, 3)])
    def check(record: OpRecord, sample: Sample) -> None:
        """Nothing."""

    (mark,) = check.pytestmark  # pyright: ignore[reportFunctionMemberAccess]
    assert mark.args == ("op", ["add", "exp"]) and check.__doc__ == "Nothing."


def test_all_samples_are_tried_and_those_that_fail_are_named() -> None:
    tried: list[int] = []

    @one_test_an_op([(ADD, 1), pytest.param(ADD, 2, id="the second"), (EXP, 3), (ADD, 4)])
    def check(record: OpRecord, sample: int) -> None:
        tried.append(sample)
        if sample == 4:
            with pytest.raises(ValueError):
                pass
        assert sample != 2

    with pytest.raises(AssertionError) as failed:
        check("add")
    told = str(failed.value)
    assert tried == [1, 2, 4]
    assert told.startswith("2 of 3 samples fail\n") and "sample the second: 2" in told and "sample add-3: 4" in told
    check("exp")
    assert tried[-1] == 3


def test_an_op_without_samples_is_no_test() -> None:
    @one_test_an_op([])
    def check(record: OpRecord, sample: Sample) -> None: ...

    with pytest.raises(KeyError):
        check("add")
