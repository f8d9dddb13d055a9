"""Types of values: tensors and effect tokens. Tuples are gone before the graph; resources are named, not passed."""

from __future__ import annotations

from dfc.deferred.dataclasses import dataclass
from dfc.ir.dims import Dim, DimLike, dim, product
from dfc.ir.dtypes import DType, DTypeVariable


@dataclass(frozen=True, slots=True)
class TensorType:
    """A dense row-major tensor. A scalar has the empty shape."""

    dtype: DType | DTypeVariable
    shape: tuple[Dim, ...] = ()

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def elements(self) -> Dim:
        return product(self.shape)

    @property
    def machine(self) -> DType:
        """The element type of a compiled graph; a generic one is a bug by then."""
        assert isinstance(self.dtype, DType), self
        return self.dtype

    def with_shape(self, shape: tuple[Dim, ...]) -> TensorType:
        return TensorType(self.dtype, shape)

    def with_dtype(self, dtype: DType | DTypeVariable) -> TensorType:
        return TensorType(dtype, self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]" if self.shape else str(self.dtype)


@dataclass(frozen=True, slots=True)
class TokenType:
    """The order of effects on one resource: each effect consumes the resource's token and makes the next."""

    resource: str

    def __str__(self) -> str:
        return f"token({self.resource})"


@dataclass(frozen=True, slots=True)
class TextType:
    """A string that only names something outside the program, such as the path of a checkpoint."""

    def __str__(self) -> str:
        return "string"


Type = TensorType | TokenType | TextType


def tensor(dtype: DType | DTypeVariable, *shape: DimLike) -> TensorType:
    """A tensor type from plain numbers, symbols or dimensions."""
    return TensorType(dtype, tuple(dim(d) for d in shape))
