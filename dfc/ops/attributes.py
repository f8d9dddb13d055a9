"""Attribute records of the ops, with each op's operands and results. The vocabulary all stages share.

Notation: operands -> results. Axes are normalised (0 <= axis < rank). `*t` are tokens (see `dfc.ir.graph`).

Sources       constant(ConstantAttributes) -> x            dim(DimAttributes) -> i64
              iota(TypeAttributes) -> x (1-d)              eye(TypeAttributes) -> x (2-d)
              random(RandomAttributes) -> x                pure: a function of seed, stream name and global index
              random_at(RandomAtAttributes): elements, key0, key1, draw -> x   some numbers of a draw
Element-wise  neg abs sign exp log log1p sqrt rsqrt square sin cos tanh sigmoid relu gelu erf floor ceil round
              is_finite not stop_gradient: x -> y
              expm1 exp2 log2 log10 tan asin acos atan sinh cosh asinh acosh atanh erf_inverse log_sigmoid silu
              trunc is_nan is_infinite sign_bit bit_not: x -> y
              add sub mul div floordiv mod pow minimum maximum equal not_equal less less_equal greater
              greater_equal and or xor bit_and bit_or bit_xor shift_left shift_right atan2 hypot fmod
              logaddexp sigmoid_cross_entropy:
              a, b -> c                                    operands broadcast by the strict rule (language 3.3.6)
              select(mask, a, b), clamp(x, low, high)      cast(CastAttributes): x -> y
Shape         reshape(ShapeAttributes) transpose(PermutationAttributes) reverse(AxesAttributes)
              broadcast(ShapeAttributes): x -> y           NumPy alignment: axes are added in front, ones stretch
              slice(SliceAttributes): x -> y               pad(PadAttributes): x, fill (scalar) -> y
              concat(AxisAttributes): x0, x1, .. -> y
              windows(WindowAttributes): x -> y            windowed axes count windows; one axis each is added behind
              segment_sum(SegmentAttributes): rows, ids -> y      resize(ResizeAttributes): x -> y
              gather_along(AxisAttributes): x, ids -> y    one index for each result
              diagonal(DiagonalAttributes): x -> y         the diagonal becomes the last axis
              diag: x -> y    tril triu(TriangleAttributes): x -> y
              gather(AxisAttributes): x, ids -> y          the axis is replaced by the axes of ids (0-d ids drop it)
              pick(AxesAttributes): x, *ids -> y           a gather along each of the axes
              scatter_add(ScatterAttributes): ids, rows -> y   zeros of the shape, plus rows at ids along the axis
              roll(RollAttributes) tile(TileAttributes) repeat(RepeatAttributes): x -> y
              swap_axes move_axis(AxisPairAttributes) squeeze(AxesAttributes): x -> y
Reductions    sum prod max min any all mean logsumexp(ReduceAttributes): x -> y
              max_pool mean_pool(PoolAttributes): x -> y   channels last
              argmax argmin(ArgAttributes): x -> y         cumsum cumprod cummax cummin(AxisAttributes): x -> y
              variance deviation(SpreadAttributes): x -> y median(AxisAttributes): x -> y
Ordering      sort(SortAttributes) argsort(ArgSortAttributes): x -> y
              top_k(TopAttributes): x -> values, indices   search(SearchAttributes): sorted, values -> indices
Measuring     range(MeasuredAttributes): count -> i64[N]    gives the symbol N a value while the entry runs
              nonzero(SizedAttributes): mask -> one i64[N] an axis   count_distinct: x -> i64
              unique(SizedAttributes): x -> values[N], inverse, counts[N]
Products      matmul: a[..,M,K], b[..,K,N] -> c            1-d operands as in NumPy; batch axes equal (no stretching)
              solve: a[N,N], b[N] or b[N,K] -> x
              inverse cholesky: a[N,N] -> x   determinant log_determinant: a[N,N] -> x (scalar)
              pivots: a[N,N] -> d[N]   triangular_solve(TriangularAttributes): a, b -> x   qr: a[M,N] -> q, r
              eigh: a[N,N] -> w, v    svd: a[M,N] -> u, s, vt
              einsum(EquationAttributes): x0, x1, .. -> y
              conv2d conv1d(ConvolutionAttributes): x, kernel -> y   channels last
Learning      softmax log_softmax(AxisAttributes): x -> y  cross_entropy: logits[..,C], labels[..] -> losses[..]
State         read(ResourceAttributes): t -> x, t          the whole variable, a snapshot
              assign(AssignAttributes): value, *index operands, t -> t
              draw(DrawAttributes): t -> x, t              next numbers of an rng: uniform in [0, 1), or normal
              redraw(RedrawAttributes): u64[4] -> x        what an rng in this state draws next
Host          checkpoint_save(HostAttributes), checkpoint_restore(HostAttributes): path, *t -> *t
Control       if: condition, *t -> values.., *t            regions: then, else (parameters *t; outputs values.., *t)
              while: carries.., *t -> carries.., *t        regions: condition (carries.., *t -> bool, *t), body
              for(ForAttributes): start, stop, carries.., *t -> carries.., stacked emits.., *t
                                                           region: index, carries.., *t -> carries.., emits.., *t
              assert(AssertAttributes): condition, t -> t  the token of the pseudo-resource "@assert"
Gradients     grad: loss, targets.. -> one gradient a target   gone after `autodiff`
              jacobian: y (1-d or scalar), x -> shape(y) + shape(x)  gone after `autodiff`
              custom(CustomAttributes): results.., parameters.., cotangents.., gradients.. -> results..
              cotangent: x -> x                            placeholder among the operands of `custom`
Queues        queue_put queue_take queue_take_up_to queue_size queue_close   see `dfc.ops.effects.queues`
              mutex_acquire mutex_release                  see `dfc.ops.effects.mutexes`
Records       record_next parse_example decode_raw decode_image   see `dfc.ops.effects.records`
Host output   summary_scalar summary_histogram debug_print clock   see `dfc.ops.effects.host_io`
Messages      send recv contribute combined own_rows send_rows   see `dfc.ops.effects.communication`
              route_ids routed_ids route_rows routed_rows answer_rows answered_rows shard_place shard_rows
              shard_positions                              see `dfc.ops.effects.routing`
"""

from __future__ import annotations

from dfc.deferred.dataclasses import dataclass
from dfc.ir.attributes import Attributes, Literal
from dfc.ir.attributes import ForAttributes as ForAttributes
from dfc.ir.dims import Dim
from dfc.ir.dtypes import DType, DTypeVariable
from dfc.ir.types import TensorType

ASSERT_RESOURCE = "@assert"
FINITE = "@finite"
"""The condition of a check that a value is finite, which no author can write."""


@dataclass(frozen=True, slots=True)
class ConstantAttributes(Attributes):
    value: Literal


@dataclass(frozen=True, slots=True)
class DimAttributes(Attributes):
    size: Dim


@dataclass(frozen=True, slots=True)
class TypeAttributes(Attributes):
    type: TensorType


@dataclass(frozen=True, slots=True)
class RandomAttributes(Attributes):
    """`distribution` is uniform (in [0, 1)) or normal; `stream` is the full name that keys the numbers."""

    distribution: str
    seed: int
    stream: str
    type: TensorType


@dataclass(frozen=True, slots=True)
class RandomAtAttributes(Attributes):
    """As `RandomAttributes`; the numbers are those of the elements that an operand names."""

    distribution: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class CastAttributes(Attributes):
    dtype: DType | DTypeVariable


@dataclass(frozen=True, slots=True)
class ShapeAttributes(Attributes):
    shape: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class PermutationAttributes(Attributes):
    permutation: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AxisAttributes(Attributes):
    axis: int


@dataclass(frozen=True, slots=True)
class AxesAttributes(Attributes):
    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SliceAttributes(Attributes):
    """Per axis: first index, number of elements, step (non-zero; negative walks backwards from `starts`)."""

    starts: tuple[Dim, ...]
    sizes: tuple[Dim, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PadAttributes(Attributes):
    """Per axis: elements added before, after, and between neighbours (`interior`; the gradient of a stepped slice)."""

    low: tuple[Dim, ...]
    high: tuple[Dim, ...]
    interior: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WindowAttributes(Attributes):
    """Per windowed axis: its number, how many windows there are, and the size, step and dilation of a window."""

    axes: tuple[int, ...]
    counts: tuple[Dim, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    dilations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ConvolutionAttributes(Attributes):
    """Per spatial axis: stride, dilation, zeros before and behind, and how many windows there are. `groups`: into how
    many the channels are divided, each with kernels of its own."""

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[Dim, ...]
    high: tuple[Dim, ...]
    counts: tuple[Dim, ...]
    groups: int = 1


@dataclass(frozen=True, slots=True)
class PoolAttributes(Attributes):
    """Per spatial axis (all but the first and the last): window size, stride, padding, and how many windows."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    low: tuple[Dim, ...]
    high: tuple[Dim, ...]
    counts: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class DiagonalAttributes(Attributes):
    """The elements with `column index - row index = offset`, of the matrices that two axes make."""

    rows: int
    columns: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class TriangleAttributes(Attributes):
    offset: int = 0


@dataclass(frozen=True, slots=True)
class TriangularAttributes(Attributes):
    lower: bool


@dataclass(frozen=True, slots=True)
class ResizeAttributes(Attributes):
    """New sizes of the spatial axes (all but the first and the last); `method` is linear or nearest."""

    sizes: tuple[Dim, ...]
    method: str


@dataclass(frozen=True, slots=True)
class SizedAttributes(Attributes):
    """`size` is the number of results, which a `range` above has found out (or a plain number)."""

    size: Dim


@dataclass(frozen=True, slots=True)
class SegmentAttributes(Attributes):
    count: Dim


@dataclass(frozen=True, slots=True)
class EquationAttributes(Attributes):
    """An equation of `einsum` such as `ij,jk->ik`."""

    equation: str


@dataclass(frozen=True, slots=True)
class SortAttributes(Attributes):
    axis: int
    descending: bool = False


@dataclass(frozen=True, slots=True)
class ArgSortAttributes(Attributes):
    axis: int
    descending: bool
    dtype: DType


@dataclass(frozen=True, slots=True)
class TopAttributes(Attributes):
    """`count` elements along the last axis; positions have element type `dtype`."""

    count: Dim
    dtype: DType


@dataclass(frozen=True, slots=True)
class SearchAttributes(Attributes):
    right: bool
    dtype: DType


@dataclass(frozen=True, slots=True)
class StatisticAttributes(Attributes):
    """As `ReduceAttributes`; the sum of squares is divided by the number of elements less `correction`."""

    axes: tuple[int, ...]
    keep_dims: bool
    correction: int


@dataclass(frozen=True, slots=True)
class RollAttributes(Attributes):
    axis: int
    shift: int


@dataclass(frozen=True, slots=True)
class TileAttributes(Attributes):
    times: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class RepeatAttributes(Attributes):
    axis: int
    times: Dim


@dataclass(frozen=True, slots=True)
class AxisPairAttributes(Attributes):
    first: int
    second: int


@dataclass(frozen=True, slots=True)
class ScatterAttributes(Attributes):
    axis: int
    shape: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class ReduceAttributes(Attributes):
    axes: tuple[int, ...]
    keep_dims: bool = False


@dataclass(frozen=True, slots=True)
class ArgAttributes(Attributes):
    axis: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class ResourceAttributes(Attributes):
    resource: str


@dataclass(frozen=True, slots=True)
class RangeSelector:
    """`size` elements from `start` in steps of `step` along one axis."""

    start: Dim
    size: Dim
    step: int = 1


@dataclass(frozen=True, slots=True)
class OperandSelector:
    """Index operand number `operand` (an integer scalar drops the axis, a 1-d tensor picks rows)."""

    operand: int


@dataclass(frozen=True, slots=True)
class AssignAttributes(Attributes):
    """`mode` is one of `:= += -= *= /=`; `index` has one selector per axis of the variable, or is empty for all of it.

    The value broadcasts to the selected region. A point with a size known at compile time is a RangeSelector of size 1
    (the value then has a 1 there).
    """

    resource: str
    mode: str
    index: tuple[RangeSelector | OperandSelector, ...] = ()


@dataclass(frozen=True, slots=True)
class DrawAttributes(Attributes):
    resource: str
    distribution: str
    type: TensorType


@dataclass(frozen=True, slots=True)
class RedrawAttributes(Attributes):
    """`distribution` is uniform (in [0, 1)) or normal."""

    distribution: str
    type: TensorType


@dataclass(frozen=True, slots=True)
class HostAttributes(Attributes):
    """The full names of the variables a host step saves or restores, in order; one token each."""

    resources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CustomAttributes(Attributes):
    """`results` is the number of results; as many operands are the results of the body."""

    results: int


@dataclass(frozen=True, slots=True)
class AssertAttributes(Attributes):
    message: str
    condition_text: str
