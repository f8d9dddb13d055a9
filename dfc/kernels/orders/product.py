"""The sums of a product: in which order a contraction adds, and what of it machines may choose.

    sum   = the parts of the depth, added in order
    part  = one chain of multiply-adds over ascending depth that begins with zero: `a * b + sum`, rounded once where the
            machine has the instruction

There is one part, and then every machine with the instruction has the same bits. A machine may depart from it for speed
alone, and each such departure is a function of the kernel and the target, never of how many threads or devices run:

- A device whose blocks of threads few results would leave idle has several parts (`part_depth` says which): a
  processor that did the same would write and read all results once more for each of them.
- A processor sums few rows by contiguous columns along vectors, whose lanes are then added halves on halves: it would
  have to turn the factors otherwise, which costs more than the product.
- A processor leaves out products of zeros that lie between the elements of an image: only signs of sums that are zero,
  and what infinities and NaN in the filter would do there, depend on it.
- A processor makes convolutions of 3 x 3 windows by Winograd's algorithm where that is faster: each product of a tile
  is one chain over the channels, and sums are made of these. `dfc.kernels.winograd.transforms` says how far they may be
  from exact ones. What is infinite or NaN spreads over the sums of its tiles. A variant can do without.
- A processor leaves out products with weights that a mask makes 0 (`dfc.kernels.bands`), and with that what infinities
  and NaN in the other factor would do there. Which ones are left out is a function of sizes and of the values of their
  row; signs of sums that are zero depend on it, too.
- Tensor cores and libraries of vendors add in an order that they do not state, and rounded as they do.

Assumes nothing of the shape. A product of one row or column that is done as a loop kernel has the order of
`reduction`.
"""

from __future__ import annotations

from dfc.ir.dims import Dim, ceil_divide, dim


def part_depth(depth: Dim, parts: Dim, step: int) -> Dim:
    """How deep each of so many parts is: whole steps, so that the last parts may be shorter, or empty."""
    return ceil_divide(ceil_divide(depth, dim(step)), parts) * step
