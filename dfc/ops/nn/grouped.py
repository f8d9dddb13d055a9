"""Convolutions in groups: every group of channels of the image has kernels of its own.

Assumes that `groups` divides the channels of both sides. A group of one channel (depthwise) is a sum of products over
the windows, which fuses; larger groups are a batch of matrix products, one for each group, each like that of a
convolution without groups: sums run over the elements of the window, then over channels, and the kernel is read where
it lies.
"""

from __future__ import annotations

from dfc.ir.dims import ONE, Dim, dim, product
from dfc.ir.dtypes import DType
from dfc.ir.graph import Value
from dfc.ops.attributes import PadAttributes
from dfc.ops.builder import Builder
from dfc.ops.gradients import mul, reverse
from dfc.ops.pieces import in_front

Shape = tuple[Dim, ...]


class Grouped:
    """`seen` are the windows of the image, [batch, positions.., groups, channels of a group, window..]; `kernel` the
    shape of the kernels, [window.., channels of a group, channels out]."""

    def __init__(self, b: Builder, seen: Value, kernel: Shape, groups: int) -> None:
        self.b = b
        self.seen = seen
        self.window: Shape = kernel[:-2]
        self.kernel = kernel
        self.groups = dim(groups)
        self.channels_in, self.channels_out = kernel[-2], kernel[-1] // groups
        rank = len(self.window)
        self.output_shape: Shape = seen.tensor.shape[: rank + 1]

    def forward(self, kernel: Value) -> Value:
        if self.channels_in == ONE:
            return self._by_channel(kernel)
        b = self.b
        product = b.apply("matmul", self._rows(), self._weights(kernel))
        return b.reshape(b.transpose(product, (1, 0, 2)), (*self.output_shape, self.groups * self.channels_out))

    def by_kernel(self, dy: Value) -> Value:
        """The gradient of the kernel."""
        if self.channels_in == ONE:
            return self._kernel_by_channel(dy)
        b = self.b
        rows = product(self.output_shape)
        cotangent_rows = b.transpose(b.reshape(dy, (rows, self.groups, self.channels_out)), (1, 0, 2))
        gradient = b.apply("matmul", b.transpose(self._rows(), (0, 2, 1)), cotangent_rows)
        return b.reshape(b.transpose(gradient, (1, 0, 2)), self.kernel)

    # ------------------------------------------------------ matrices, one a group --

    def _rows(self) -> Value:
        """[groups, batch * positions, window * channels of a group]."""
        group = len(self.output_shape)
        window = range(group + 2, group + 2 + len(self.window))
        turned = self.b.transpose(self.seen, (group, *range(group), *window, group + 1))
        return self.b.reshape(
            turned, (self.groups, product(self.output_shape), product(self.window) * self.channels_in)
        )

    def _weights(self, kernel: Value) -> Value:
        """[groups, window * channels of a group, channels out of a group]."""
        apart = self.b.reshape(kernel, (product(self.window) * self.channels_in, self.groups, self.channels_out))
        return self.b.transpose(apart, (1, 0, 2))

    # -------------------------------------------------------- a channel by itself --

    def _working(self, x: Value) -> Value:
        dtype = x.tensor.dtype
        assert isinstance(dtype, DType)
        return self.b.cast(x, dtype.accumulator)

    def _windows(self) -> Value:
        """[batch, positions.., channels, 1, window..]."""
        return self._working(self.seen)

    def _by_channel(self, kernel: Value) -> Value:
        b, last = self.b, len(self.window)
        apart = b.reshape(kernel, (*self.window, self.groups, self.channels_out))
        weights = self._working(b.transpose(apart, (last, last + 1, *range(last))))
        first = len(self.output_shape) + 2
        total = b.sum(mul(b, self._windows(), in_front(b, weights, first + last)), tuple(range(first, first + last)))
        return b.reshape(b.cast(total, kernel.tensor.dtype), (*self.output_shape, self.groups * self.channels_out))

    def _kernel_by_channel(self, dy: Value) -> Value:
        b, last = self.b, len(self.window)
        cotangent_rows = self._working(
            b.reshape(dy, (*self.output_shape, self.groups, self.channels_out, *((ONE,) * last)))
        )
        total = b.sum(mul(b, self._windows(), cotangent_rows), tuple(range(len(self.output_shape))))
        turned = b.transpose(total, (*range(2, last + 2), 0, 1))
        return b.reshape(b.cast(turned, dy.tensor.dtype), self.kernel)


def channels_in_groups(b: Builder, x: Value, groups: int) -> Value:
    """[.., groups, channels of a group]; of what has zeros between its elements the elements, so that no memory has to
    hold the zeros."""
    *rest, channels = x.tensor.shape
    node = x.node
    if node is not None and isinstance(node.attributes, PadAttributes) and not _pads_channels(node.attributes):
        around, none = node.attributes, dim(0)
        apart = PadAttributes((*around.low, none), (*around.high, none), (*around.interior, 0))
        return b.apply("pad", channels_in_groups(b, node.operands[0], groups), node.operands[1], attributes=apart)
    return b.reshape(x, (*rest, dim(groups), channels // groups))


def _pads_channels(around: PadAttributes) -> bool:
    return around.low[-1] != dim(0) or around.high[-1] != dim(0) or around.interior[-1] > 0


def turned_in_groups(b: Builder, kernel: Value, groups: int) -> Value:
    """The kernel turned round, with the channels in and out of every group exchanged: [window.., given, groups *
    taken]."""
    *window, taken, out = kernel.tensor.shape
    last = len(window)
    apart = b.reshape(kernel, (*window, taken, dim(groups), out // groups))
    around = b.transpose(reverse(b, apart, tuple(range(last))), (*range(last), last + 2, last + 1, last))
    return b.reshape(around, (*window, out // groups, taken * groups))
