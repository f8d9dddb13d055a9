"""What `dfc ops` says of GPUs is true: every op that it does not list as lacking becomes kernel text."""

from __future__ import annotations

import pytest

from dfc.bundle.target import lacking
from dfc.ir.options import TargetOptions
from dfc.lower.program import lower_graph
from dfc.ops.record import OpRecord
from dfc.transforms.expand import expand
from dfc_runtime.errors import DfcError
from dfc_target_cuda.target import SIMULATOR, CudaTarget
from tests.support.op_graphs import LIMIT, RECORDS, graph_of_samples
from tests.support.sweeping import WHOLE


@pytest.mark.parametrize("record", RECORDS)
def test_an_op_has_a_kernel_unless_the_table_says_otherwise(record: OpRecord) -> None:
    graph, _ = graph_of_samples(record, limit=LIMIT if WHOLE else 1)
    try:
        CudaTarget().lower(lower_graph(expand(graph)), TargetOptions((SIMULATOR,)))
        has_kernel = True
    except DfcError:
        has_kernel = False
    assert has_kernel is (record.name not in lacking(CudaTarget()))
