"""Contractions: through the matrix product where the factors are strided matrices, else as a loop kernel.

Guarantees that sums are made in the accumulator's type and that the epilogue runs once at each finished point.
"""

from dataclasses import replace

from dfc.kernels.body import Accumulated, BodyBuilder, Instruction, Load, Reduced
from dfc.kernels.form import ContractKernel, LoopKernel, MatrixOperand, Reduction, Stage
from dfc_targets.cpu.lower_access import can_fault, stage_access
from dfc_targets.cpu.lower_kernels import Lowering, lower_loop_kernel


def lower_contraction(lowering: Lowering, kernel: ContractKernel, number: int) -> str:
    """The functions of one contraction; the name to launch it by."""
    return lower_loop_kernel(lowering, as_loops(kernel), number)


def contract_faults(kernel: ContractKernel) -> bool:
    access = stage_access(kernel.operands, len(kernel.axes), kernel.epilogue, kernel.stores)
    return can_fault(kernel.epilogue, access)


def as_loops(kernel: ContractKernel) -> LoopKernel:
    """The same kernel as one sum of products at each point of the result, then the epilogue."""
    body = BodyBuilder()
    factors = [body.cast(_load(body, kernel, one), kernel.accumulator) for one in (kernel.a, kernel.b)]
    product = body.apply("mul", *factors)
    outer = len(kernel.axes) - 1
    sums = Stage((outer,), tuple(body.instructions), (Reduction("add", product, kernel.accumulator),))
    finish = Stage((), tuple(map(_with_reduced, kernel.epilogue)), (), kernel.stores)
    return LoopKernel(kernel.operands, kernel.axes, outer, (sums, finish))


def _load(body: BodyBuilder, kernel: ContractKernel, factor: MatrixOperand) -> int:
    return body.append(Load(factor.operand, factor.index), (), kernel.operands[factor.operand].dtype)


def _with_reduced(one: Instruction) -> Instruction:
    return replace(one, operation=Reduced(0, 0)) if isinstance(one.operation, Accumulated) else one
