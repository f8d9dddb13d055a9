"""Every op of the table, on samples of its record, on the device: what the reference evaluator says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dfc.bundle.target import Lowered
from dfc.ir.options import TargetOptions
from dfc.kernels.program import Program
from dfc.lower.program import lower_graph
from dfc.ops.evaluate import evaluate
from dfc.ops.record import OpRecord
from dfc.transforms.expand import expand
from dfc_driver_cuda import libcuda
from dfc_target_cuda.target import CudaTarget
from tests.support.lowering import close
from tests.support.op_graphs import RECORDS, graph_of_samples
from tests.support.simulated_programs import SimulatedRun


@pytest.mark.parametrize("portable", [False, True], ids=["machine", "portable"])
@pytest.mark.parametrize("record", RECORDS)
def test_device_code_computes_the_reference(record: OpRecord, portable: bool, architecture: str) -> None:
    """By machine code, where there is an assembler, and by PTX that the driver translates."""

    def lower(program: Program) -> Lowered:
        made = CudaTarget().lower(program, TargetOptions((architecture,)))
        return replace(made, images=made.images[-1:] if portable else made.images[:1])

    graph, feeds = graph_of_samples(record)
    with np.errstate(all="ignore"):
        expected = evaluate(graph, "e", feeds).results
    run = SimulatedRun(lower_graph(expand(graph)), device=libcuda.open_device(0), lower=lower)
    try:
        close(run.call("e", list(feeds.values())), expected)
    finally:
        run.driver.close()
