"""Contractions: through the matrix product where the factors are matrices, in memory or of windows; else as loops.

Guarantees that sums are made in the accumulator's type and that the epilogue runs once at each finished point. How a
contraction is cut into parts changes no bits: the product of each element is one chain over k.
"""

from dataclasses import replace

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dtypes import BF16, F16, F32, F64, DType
from dfc.kernels.access import NONE, Access, StageAccess, can_fault, kernel_access, stage_access
from dfc.kernels.body import Accumulated, BodyBuilder, Instruction, Reduced
from dfc.kernels.form import ContractKernel, Kernel, LoopKernel, Reduction, RoutineKernel, RowBlockKernel, Stage
from dfc.kernels.operand_maps import OperandMap, emit_load, operand_map, readable_depth


def kernel_faults(kernel: Kernel) -> bool:
    """Whether running a kernel may report an error."""
    if isinstance(kernel, RowBlockKernel):
        return any(kernel_faults(step.kernel) for step in kernel.steps)
    if isinstance(kernel, RoutineKernel):
        return False
    if isinstance(kernel, ContractKernel):
        return contract_faults(kernel)
    return any(can_fault(s.body, a) for s, a in zip(kernel.stages, kernel_access(kernel), strict=True))


def contract_faults(kernel: ContractKernel) -> bool:
    return can_fault(kernel.epilogue, epilogue_access(kernel))


def epilogue_access(kernel: ContractKernel) -> StageAccess:
    return stage_access(kernel.operands, len(kernel.axes), kernel.epilogue, kernel.stores)


@dataclass(frozen=True, slots=True)
class Product:
    """A contraction as matrix products: one for each point of the batch axes."""

    kernel: ContractKernel
    a: OperandMap
    b: OperandMap
    epilogue: StageAccess
    direct: int  # the store whose memory holds the sums while they are made, or NONE

    @property
    def element(self) -> str:
        return "float" if self.kernel.accumulator == F32 else "double"

    @property
    def loads(self) -> list[Access]:
        return list(self.epilogue.loads.values())

    @property
    def is_plain(self) -> bool:
        """Whether the sums themselves are the only result, so that there is nothing to do after them."""
        stores = self.kernel.stores
        value = self.kernel.epilogue[stores[0].value]
        return self.direct != NONE and len(stores) == 1 and isinstance(value.operation, Accumulated)

    @property
    def widens(self) -> bool:
        """Whether a factor is of a narrower type than the sums."""
        return any(self.widens_factor(one) for one in (self.a, self.b))

    def widens_factor(self, one: OperandMap) -> bool:
        return self.kernel.operands[one.factor.operand].dtype != self.kernel.accumulator

    @property
    def in_place(self) -> bool:
        """Whether both factors are matrices in memory of the type of the sums."""
        return self.a.is_strided and self.b.is_strided and not self.widens


def as_product(kernel: ContractKernel) -> Product | None:
    """The kernel as matrix products, if it can be one and that is the best way."""
    if kernel.accumulator not in (F32, F64):
        return None
    types = {kernel.operands[one.operand].dtype for one in (kernel.a, kernel.b)}
    narrow = {F16, BF16} if kernel.accumulator == F32 else set[DType]()
    factors = matrix_factors(kernel)
    if factors is None or not types <= {kernel.accumulator, *narrow}:
        return None
    a, b = factors
    product = Product(kernel, a, b, epilogue_access(kernel), NONE)
    return product if product.widens else replace(product, direct=_direct_store(product))


def matrix_factors(kernel: ContractKernel) -> tuple[OperandMap, OperandMap] | None:
    """The factors as matrices, each of an axis of its own and the depth. None where they are not, or where rows of a
    reduction are the better way."""
    a, b = (operand_map(kernel, factor) for factor in (kernel.a, kernel.b))
    if any(axis < kernel.m for one in (a, b) for axis in one.split_axes()):
        return None
    if a.depends_on(kernel.n) or b.depends_on(kernel.m) or _is_dot_products(kernel, a, b):
        return None
    return a, b


def _is_dot_products(kernel: ContractKernel, a: OperandMap, b: OperandMap) -> bool:
    """One row or column whose sums run along memory: rows of a reduction are faster than tiles."""
    if not (a.is_strided and b.is_strided):
        return False
    extents = [axis.extent.constant for axis in kernel.axes]
    if extents[kernel.n] == 1:
        return a.access.coefficients[kernel.k].constant == 1
    return extents[kernel.m] == 1 and b.access.coefficients[kernel.k].constant == 1


def _direct_store(p: Product) -> int:
    """A store of unchanged shape and type, whose operand nothing else reads."""
    read = {p.kernel.a.operand, p.kernel.b.operand, *(one.operand for one in p.loads)}
    for number, (store, access) in enumerate(zip(p.kernel.stores, p.epilogue.stores, strict=True)):
        fits = p.kernel.operands[access.operand].dtype == p.kernel.accumulator and not access.lookups
        in_rows = access.coefficients[p.kernel.n].constant == 1
        if fits and in_rows and not store.combine and access.operand not in read:
            return number
    return NONE


def as_loops(kernel: ContractKernel) -> LoopKernel:
    """The same kernel as one sum of products at each point of the result, then the epilogue."""
    body = BodyBuilder()
    factors = [body.cast(emit_load(body, kernel, one), kernel.accumulator) for one in (kernel.a, kernel.b)]
    product = body.apply("mul", *factors)
    outer = len(kernel.axes) - 1
    sums = Stage((outer,), tuple(body.instructions), (Reduction("add", product, kernel.accumulator),))
    finish = Stage((), tuple(map(_with_reduced, kernel.epilogue)), (), kernel.stores)
    return LoopKernel(kernel.operands, (*kernel.axes[:outer], readable_depth(kernel)), outer, (sums, finish))


def _with_reduced(one: Instruction) -> Instruction:
    return replace(one, operation=Reduced(0, 0)) if isinstance(one.operation, Accumulated) else one
