"""The stage that gives a program the functions of its kernels."""

import pytest

from dfc.driver.pipeline import optimise
from dfc.kernels.body import Apply
from dfc.kernels.errors import CodeGenerationError
from dfc.kernels.form import LoopKernel, Stage
from dfc.kernels.program import Program
from dfc.lower.legalise.stage import kernel_functions, legalise
from dfc.lower.legalise.verify import verify_legalised
from dfc.lower.program import lower_graph
from dfc.lower.verify import LoweringError
from tests.support.building import graph_of

TEXT = """dfg 1

entry run[B](x: bf16[B], y: f32[B]) -> (a: bf16[B], b: i32, c: f32[B]) {
    return tanh(x), argmax(y), y + sin(y)
}
"""


def program() -> Program:
    return lower_graph(optimise(graph_of(TEXT)))


def test_a_program_has_the_functions_of_its_kernels_behind_what_they_call() -> None:
    names = [function.name for function in program().functions]
    assert {"bf16_load", "bf16_store", "f32_tanh", "f32_above", "f32_sin", "reduce_half_pi"} <= set(names)
    assert names.index("reduce_half_pi") < names.index("f32_sin")
    assert len(names) == len(set(names)) and "f32_add" not in names


def test_what_no_function_means_is_refused() -> None:
    broken = program()
    kernel = next(one for one in broken.kernels if isinstance(one, LoopKernel) and list(kernel_functions(one)))
    stage = kernel.stages[0]
    body = tuple(
        type(one)(Apply("hypot"), one.arguments, one.dtype) if isinstance(one.operation, Apply) else one
        for one in stage.body
    )
    changed = Stage(stage.axes, body, stage.reductions, stage.stores)
    broken.kernels = [LoopKernel(kernel.operands, kernel.axes, kernel.outer, (changed,))]
    with pytest.raises(CodeGenerationError, match="hypot"):
        legalise(broken)


def test_functions_in_another_order_are_found() -> None:
    broken = program()
    verify_legalised(broken)
    broken.functions.reverse()
    with pytest.raises(LoweringError, match="which it calls"):
        verify_legalised(broken)
