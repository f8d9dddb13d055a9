"""Which convolutions Winograd's algorithm makes, and how their sums are cut: blocks of tiles, panels of columns.

    groups -> blocks of tiles of all images: transformed image [product][tile][channel]
           -> panels of columns: [product][tile][column] = one matrix product for each product of a tile
           -> transformed back, tile by tile, into the result

A block of tiles is transformed once, and all panels pass by it; the products of a panel stay in the second cache until
they are transformed back. Nothing that grows with the image is stored besides: a block, and the transformed filter.

Assumes geometry as `dfc.kernels.direct.geometry` describes it. Guarantees numbers that depend on the kernel and the
machine alone, never on how many threads run, and that each product is one chain over ascending channels.
"""

from __future__ import annotations

from typing import NamedTuple

from dfc.kernels.direct.blocking import Panels, Resources, line_cycles, panels
from dfc.kernels.direct.geometry import Filter, Spatial, Windows
from dfc.kernels.winograd.transforms import POINTS, TAPS

MOST_TILES, LEAST_TILES = 64, 32
"""Of a block: fewer of them where their channels would not fit the second cache."""
USUAL_IMAGES = 8
"""For how many images a filter is transformed, where only the call knows."""
PRODUCTS, TRANSFORM, FILTER = 1.15, 5.25, 12.0
"""Cycles, those of multiply-adds as `Resources.tile_cycles` has them: how much longer products of tiles take; what a
transform takes for a vector of each element of a tile, which it loads, adds up and stores twice; the same for a
filter, which is written to memory and read from there. Fitted to 16 measured layers of 8 to 512 channels on one
instruction set and 15 on another, by both tiles; most of their times they give to a tenth, three to a fifth."""
DIRECT_CHAIN = 1.1
"""How much longer direct convolutions take than their multiply-adds, which copy bands and begin rows anew."""
CACHE_LINE = 64


class Winograd(NamedTuple):
    """Sums over windows in tiles of `tile` by `tile` positions, `span` by `span` elements each. In elements: in the
    transformed image it is `cell` from tile to tile and `far` from product to product, among products `product_far`;
    in the filter `filter_pad` lie behind a panel of each product. A block has `block_tiles` tiles at most.
    Behind the transformed image lie the products of a panel, a tile of the image with zeros around it, what a
    transform stores between its two halves, and the sums of a row of tiles. The rest says where image, filter and
    positions lie, as in `Windows`."""

    panels: Panels
    tile: int
    span: int
    groups: int
    source_group: int
    filter_group: int
    packed_group: int
    filter_row: int
    filter_element: int
    filter_channel: int
    filter_column: int
    channels: int
    height: int
    width: int
    source_image: int
    source_line: int
    source_cell: int
    low_y: int
    low_x: int
    count_y: int
    count_x: int
    tiles_y: int
    tiles_x: int
    block_tiles: int
    cell: int
    far: int
    filter_pad: int
    product_far: int
    products_at: int
    patch_at: int
    between_at: int
    sums_at: int
    sums_line: int

    @property
    def part_elements(self) -> int:
        """Elements that a thread needs, without those of sums that are not made in the result."""
        return self.sums_at

    @property
    def sums_elements(self) -> int:
        return self.tile * self.sums_line

    @property
    def packed_elements(self) -> int:
        """Elements of the transformed filter."""
        return self.groups * self.packed_group


def winograd(w: Windows, resources: Resources) -> Winograd | None:
    """How sums over windows are cut into tiles; None where windows are not of 3 x 3 neighbours, one after the other, or
    where making sums directly takes fewer cycles."""
    if not isinstance(w.other, Filter) or not (_fits(w.vertical) and _fits(w.horizontal)):
        return None
    tile = min(POINTS, key=lambda tile: winograd_cycles(w, resources, tile))
    if winograd_cycles(w, resources, tile) >= direct_cycles(w, resources):
        return None
    return tiled(w, resources, tile)


def _fits(one: Spatial) -> bool:
    return one.size == TAPS and one.step == one.dilation == one.interior == 1


def direct_cycles(w: Windows, resources: Resources) -> float:
    """Predicted for an image and a group on one core, with the filter packed for `USUAL_IMAGES`."""
    split = panels(w.columns, w.horizontal.count, resources, streams=True)
    line = line_cycles(split, w.horizontal.count, resources, streams=True)
    taps = w.vertical.size * w.horizontal.size
    packed = taps * w.channels * split.all_vectors * 2 / _images(w)
    return DIRECT_CHAIN * taps * w.channels * w.vertical.count * line + packed


def winograd_cycles(w: Windows, resources: Resources, tile: int) -> float:
    """The same with tiles of that size."""
    split, span = _panels(w, resources), tile + TAPS - 1
    tiles = -(-w.vertical.count // tile) * -(-w.horizontal.count // tile)
    block = _block_tiles(w, resources, span)
    line = line_cycles(split, block, resources, streams=True) / block
    vectors_in = -(-w.channels // resources.lanes)
    moved = TRANSFORM * (vectors_in + split.all_vectors)
    filter_ = FILTER * w.channels * split.all_vectors / _images(w)
    return span**2 * (tiles * (PRODUCTS * w.channels * line + moved) + filter_)


def _images(w: Windows) -> int:
    return w.batch.constant or USUAL_IMAGES


def _panels(w: Windows, resources: Resources) -> Panels:
    return panels(w.columns, MOST_TILES, resources, streams=True)


def _block_tiles(w: Windows, resources: Resources, span: int) -> int:
    most = resources.l2_bytes // 2 // (span**2 * w.channels * resources.element_bytes)
    return min(MOST_TILES, max(LEAST_TILES, most // 8 * 8))


def tiled(w: Windows, resources: Resources, tile: int) -> Winograd:
    """The cut into tiles of that size."""
    assert isinstance(w.other, Filter)
    split, span = _panels(w, resources), tile + TAPS - 1
    down, across = w.vertical, w.horizontal
    tiles_y, tiles_x = -(-down.count // tile), -(-across.count // tile)
    block = _block_tiles(w, resources, span)
    line = CACHE_LINE // resources.element_bytes
    width = max(split.widths) * resources.lanes
    cell = _skewed(-(-w.channels // line) * line, resources)
    far, product_far = block * cell + line, block * width + line
    packed = span**2 * (w.channels * split.all_vectors * resources.lanes + split.panel_count * line)
    # a transform of the filter needs room for the channels that are packed at a time
    products_at = span**2 * far
    patch_at = products_at + max(span**2 * product_far, TAPS**2 * 16 * width)
    between_at = patch_at + -(-(span**2) * w.channels // line) * line
    sums_at = between_at + span**2 * resources.lanes
    return Winograd(
        split, tile, span, w.groups, w.group_stride, w.other.group, packed,
        w.other.rows, w.other.elements, w.other.channels, w.other.columns,
        w.channels, down.extent, across.extent,
        w.image_stride.constant or 0, down.stride.constant or 0, across.stride.constant or 0,
        -down.offset, -across.offset, down.count, across.count, tiles_y, tiles_x,
        block, cell, far, line, product_far, products_at, patch_at, between_at, sums_at, tiles_x * tile * width,
    )  # fmt: skip


def _skewed(elements: int, resources: Resources) -> int:
    """A stride that does not put the rows of a tile into few sets of a cache."""
    return elements + CACHE_LINE // resources.element_bytes * (elements * resources.element_bytes % 1024 == 0)
