"""Random programs mean the same fused, unfused and to the reference evaluator."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.lowering import agree
from tests.support.random_programs import Generator
from tests.support.sweeping import few


@pytest.mark.parametrize("seed", few(range(200), 20))
def test_random_programs_agree(seed: int) -> None:
    program = Generator(seed).program()
    with np.errstate(all="ignore"):
        agree(program.graph, program.feeds, program.state, {"B": program.batch})
