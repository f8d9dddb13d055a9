"""Code for another kind of processor, run under an emulator: some of what `python -m tests.gate.foreign_code` runs."""

from __future__ import annotations

import pytest

from tests.gate import foreign_code
from tests.support.foreign_run import missing

pytestmark = pytest.mark.skipif(bool(missing("aarch64")), reason=missing("aarch64") or "all is there")
SOME = ("matmul", "exp", "cumsum", "sort")


@pytest.mark.parametrize("name", SOME)
def test_an_op_compiled_for_aarch64_computes_the_reference(name: str) -> None:
    foreign_code.run_op(next(record for record in foreign_code.records() if record.name == name))


def test_a_program_with_state_and_loops_does_so_too() -> None:
    foreign_code.run_program(7)
