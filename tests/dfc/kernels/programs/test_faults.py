"""Which kernels are guarded, because they may run after a fault."""

from __future__ import annotations

from dfc.ir.dims import dim
from dfc.kernels.program import Check, EntryProgram, For, If, Launch, Program, Step, While
from dfc.kernels.programs.faults import launched_after_faults

SAFE, FAULTY, LATER = 0, 1, 2


def launch(kernel: int) -> Launch:
    return Launch(kernel, (), ())


def guarded(*steps: Step) -> set[int]:
    """The kernels that are guarded in an entry of these steps; kernel `FAULTY` can fail."""
    entry = EntryProgram("e", [], steps, (), (), (), dim(0), dim(0))
    return set(launched_after_faults(Program("p", entries=[entry]), lambda kernel: kernel == FAULTY))


def test_kernels_after_a_fault_are_guarded() -> None:
    assert guarded(launch(SAFE), launch(FAULTY), launch(LATER)) == {LATER}
    assert guarded(launch(SAFE), Check(0, 0), launch(LATER)) == {LATER}
    assert guarded(launch(FAULTY), launch(FAULTY)) == {FAULTY}
    assert guarded(launch(SAFE), launch(LATER)) == set()


def test_faults_reach_out_of_blocks() -> None:
    assert guarded(If(0, (launch(FAULTY),), (launch(SAFE),)), launch(LATER)) == {SAFE, LATER}
    assert guarded(For(0, 1, 2, (launch(SAFE), launch(FAULTY))), launch(LATER)) == {LATER}


def test_a_condition_is_computed_again_after_a_body_that_failed() -> None:
    assert guarded(While((launch(SAFE),), 0, (launch(FAULTY), launch(LATER)))) == {SAFE, LATER}
