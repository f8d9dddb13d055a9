"""How direct convolutions are split: panels of columns, bands of rows, chunks of sums, for given registers and caches.

    groups -> images, bands of rows of positions -> panels of columns -> chunks of the sum -> rows -> register tiles

Columns are cut into panels of vectors, as wide as registers allow for enough rows. The image rows of a band are copied
once with the zeros around them, unless windows never leave the image. What a chunk multiplies with stays in the
nearest caches while all rows of the band pass by it. Sums over positions cut those into chunks instead, and go over
the rows of the result for each.

Assumes geometry as `windows` describes it. Guarantees numbers that depend on the kernel and the machine alone, never on
how many threads run, and that every sum is one chain over ascending depth.
"""

from __future__ import annotations

from typing import NamedTuple

from dfc.deferred.dataclasses import dataclass
from dfc.kernels.direct.geometry import Filter, Phase, Spatial, Summed, Windows, phases

PACKED_CHANNELS = 16
"""Channels of one element of a window that are packed at a time."""
LEAST_POSITIONS, LEAST_POSITIONS_OF_ONE = 4, 10
"""Places along a row below which tiles would be too low to keep the multipliers busy; the latter where windows have one
element each, so that a product which packs them copies each element no oftener than a band does."""
LEAST_ITEMS = 16
"""Bands times panels that a single image is cut into, if its rows allow: for threads to share."""
LEAST_BAND = 4
MOST_TILE_ROWS = 8
BLOCK = 16
"""Channels that are next to each other in bands for sums over positions. Tiles go from position to position: with all
channels of a position together, their lines of memory would be as many channels apart and share few sets of a cache."""
WIDEST = 4
STREAM_BYTES = 24
"""A cycle that the second cache gives the first one."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What of a machine decides: lanes of a vector and bytes of an element, vector registers, whether a multiply-add
    needs none for the product, bytes of the two nearest caches."""

    lanes: int
    element_bytes: int
    registers: int
    fused: bool
    l1_bytes: int
    l2_bytes: int

    @property
    def vector_bytes(self) -> int:
        return self.lanes * self.element_bytes

    def tile_cycles(self, rows: int, vectors: int, *, streams: bool) -> float:
        """Cycles of one step along the sum: multiply-adds, loads, their latency; `streams`: what is multiplied with
        comes from the second cache."""
        fetched = vectors * self.vector_bytes / STREAM_BYTES if streams else 0.0
        return max(rows * vectors / 2, (rows + vectors) / 2, 4.0, fetched)

    def tile_rows(self, vectors: int) -> int:
        """Rows of a register tile: beside its sums there are a row of vectors and one element in registers."""
        free = self.registers - vectors - (1 if self.fused else 2)
        return max(1, min(MOST_TILE_ROWS, free // vectors))

    @property
    def filter_bytes(self) -> int:
        """Of the filter that all rows of a band pass by before more of it comes: it stays in the second cache, from
        where a row of vectors arrives while a tile is multiplied with the one before."""
        return self.l2_bytes // 2

    @property
    def positions_bytes(self) -> int:
        """Of what sums over positions multiply at a time, a block of channels and a panel: about the nearest cache.
        Less would mean to load and store the sums more often."""
        return self.l1_bytes * 3 // 2

    @property
    def band_bytes(self) -> int:
        """Of the bands of sums over windows, which all panels of columns pass by."""
        return self.l2_bytes // 4

    @property
    def images_bytes(self) -> int:
        """Of the bands of sums over positions: these go through them block by block of channels, so that they may be
        larger than the cache; what counts is that sums are loaded and stored for many positions at a time."""
        return self.l2_bytes * 2


class Panels(NamedTuple):
    """`panel_count` panels of `vectors` vectors, the first `wider` of them of one more."""

    columns: int
    panel_count: int
    vectors: int
    wider: int

    @property
    def widths(self) -> tuple[int, ...]:
        """Every number of vectors that occurs, narrow ones first."""
        widths = [self.vectors] if self.wider < self.panel_count else []
        return (*widths, self.vectors + 1) if self.wider else tuple(widths)

    @property
    def all_vectors(self) -> int:
        return self.panel_count * self.vectors + self.wider


def panels(columns: int, rows: int, resources: Resources, *, streams: bool) -> Panels:
    """The panels that take the fewest cycles for lines of so many rows; wider ones where it does not matter."""
    vectors = -(-columns // resources.lanes)
    splits = [_split(columns, vectors, widest) for widest in range(WIDEST, 0, -1)]
    return min(splits, key=lambda split: line_cycles(split, rows, resources, streams=streams))


def _split(columns: int, vectors: int, widest: int) -> Panels:
    count = -(-vectors // widest)
    return Panels(columns, count, vectors // count, vectors % count)


def line_cycles(split: Panels, rows: int, resources: Resources, *, streams: bool) -> float:
    """Of one step along the sum for a whole line in all panels."""
    total = 0.0
    for number, vectors in ((split.panel_count - split.wider, split.vectors), (split.wider, split.vectors + 1)):
        if not number:
            continue
        tiles = -(-rows // resources.tile_rows(vectors))
        base, extra = divmod(rows, tiles)
        for many, height in ((tiles - extra, base), (extra, base + 1)):
            if many:
                total += number * many * resources.tile_cycles(height, vectors, streams=streams)
    return total


class Band(NamedTuple):
    """What of an image is in reach at a time. `rows` rows of positions make a band, an image has `bands` of them; those
    need `rows_in` rows of `width_in` elements from `low_y`, `low_x` before the first position on. Without `copied` they
    are read where they lie, from `origin` on; `line` and `cell` are the strides in either case. A copy has `blocks` of
    `block` channels, one after the other, of `images` images."""

    height: int
    width: int
    channels: int
    source_image: int
    source_line: int
    source_cell: int
    step_y: int
    step_x: int
    low_y: int
    low_x: int
    rows: int
    bands: int
    rows_in: int
    width_in: int
    copied: int
    origin: int
    line: int
    cell: int
    images: int
    block: int
    blocks: int

    @property
    def elements(self) -> int:
        """Elements of one band where it is copied."""
        return self.images * self.rows_in * self.width_in * self.channels if self.copied else 0


class Reach(NamedTuple):
    """Along one axis: the positions there are, and what windows reach of memory, relative to the first position."""

    positions: int
    step: int
    lowest: int
    highest: int


def _reach(each: tuple[Phase, ...]) -> Reach:
    touching = [one for one in each if one.taps]
    lowest = min((one.offset for one in touching), default=0)
    highest = max((one.offset + (one.taps - 1) * one.dilation for one in touching), default=0)
    return Reach(max(one.count for one in each), each[0].step, lowest, highest)


def _is_inside(one: Spatial, reach: Reach) -> bool:
    return reach.lowest >= 0 and (reach.positions - 1) * reach.step + reach.highest < one.extent


def _band(
    w: Windows, y: Reach, x: Reach, resources: Resources, items: int, most_bytes: int, images: int = 1,
    blocks: int = 1,
) -> Band:  # fmt: skip
    """`items`: into how many an image is cut besides; of several `images` at a time each is one band; channels in
    several `blocks` are copied."""
    is_row = x.highest == x.lowest or w.horizontal.stride.constant == w.channels
    block = w.channels // blocks
    copied = blocks > 1 or not (_is_inside(w.vertical, y) and _is_inside(w.horizontal, x) and is_row)
    width_in = (x.positions - 1) * x.step + x.highest - x.lowest + 1
    row_bytes = width_in * w.channels * resources.element_bytes
    most = (most_bytes // row_bytes - (y.highest - y.lowest + 1)) // y.step + 1
    least = -(-LEAST_ITEMS // items)
    rows = min(y.positions, max(1, min(most, max(LEAST_BAND, y.positions // least))))
    bands = -(-y.positions // rows) if images == 1 else 1
    rows = -(-y.positions // bands)
    rows_in = (rows - 1) * y.step + y.highest - y.lowest + 1
    source_line, source_cell = w.vertical.stride.constant or 0, w.horizontal.stride.constant or 0
    line, cell = (width_in * block, block) if copied else (source_line, source_cell)
    origin = 0 if copied else y.lowest * line + x.lowest * cell
    extents = w.vertical.extent, w.horizontal.extent, w.channels
    strides = w.image_stride.constant or 0, source_line, source_cell
    steps = y.step, x.step, -y.lowest, -x.lowest
    return Band(
        *extents,
        *strides,
        *steps,
        rows,
        bands,
        rows_in,
        width_in,
        int(copied),
        origin,
        line,
        cell,
        images,
        block,
        blocks,
    )


class Part(NamedTuple):
    """One phase of sums over windows. Its positions are `first_y` + i * every, ..; its windows begin `shift` elements
    behind the start of the band and are `lines` stretches of `inner` elements, which are summed `lines_step` at a time
    or, of one line, `inner_step` elements; `packed` is where its part of the packed filter begins. The rest is where
    the elements of its windows lie in the filter."""

    first_y: int
    first_x: int
    count_y: int
    count_x: int
    shift: int
    lines: int
    inner: int
    lines_step: int
    inner_step: int
    packed: int
    depth: int
    filter_offset: int
    filter_row: int
    filter_element: int
    taps: int
    taps_x: int


class Forward(NamedTuple):
    """Sums over windows. Element l of the lines of a window lies at l // `per_line` * `line_step` + l % `per_line` *
    `tap_step`; `every_y`, `every_x` are the steps between positions of a phase. The packed filter of a group has
    `packed_group` elements. `panels_first`: all bands pass by a panel before the next one comes, since copying a band
    anew for each panel moves less than reading the whole filter for each band."""

    band: Band
    panels: Panels
    parts: tuple[Part, ...]
    groups: int
    source_group: int
    filter_group: int
    packed_group: int
    count_y: int
    count_x: int
    every_y: int
    every_x: int
    per_line: int
    line_step: int
    tap_step: int
    filter_channel: int
    filter_column: int
    panels_first: int

    @property
    def packed_elements(self) -> int:
        return self.groups * self.packed_group


def forward(w: Windows, resources: Resources) -> Forward | None:
    """How sums over windows are cut; None where rows are too short to be worth it."""
    vertical, horizontal = phases(w.vertical), phases(w.horizontal)
    is_one = w.vertical.size == w.horizontal.size == 1
    least = LEAST_POSITIONS_OF_ONE if is_one else LEAST_POSITIONS
    if not isinstance(w.other, Filter) or len(vertical) * len(horizontal) > 16 or horizontal[0].count < least:
        return None
    y, x = _reach(vertical), _reach(horizontal)
    split = panels(w.columns, x.positions, resources, streams=True)
    band = _band(w, y, x, resources, split.panel_count * w.groups, resources.band_bytes)
    is_merged = horizontal[0].dilation == 1 and (band.cell == w.channels or x.highest == x.lowest)
    per_line = 1 if is_merged else max(one.taps for one in horizontal)
    parts: list[Part] = []
    packed = 0
    for down in vertical:
        for across in horizontal:
            parts.append(_part(w, band, split, (down, across), (y, x), packed, is_merged, resources))
            packed += parts[-1].depth * split.all_vectors * resources.lanes
    tap_step = w.horizontal.dilation * band.cell
    band_elements = band.rows_in * band.width_in * w.channels
    panels_first = (1 + 2 * (split.panel_count - 1)) * band_elements < packed
    return Forward(
        band, split, tuple(parts), w.groups, w.group_stride, w.other.group, packed,
        w.vertical.count, w.horizontal.count, vertical[0].every, horizontal[0].every,
        per_line, w.vertical.dilation * band.line, tap_step, w.other.channels, w.other.columns, int(panels_first),
    )  # fmt: skip


def _part(
    w: Windows, band: Band, split: Panels, phase: tuple[Phase, Phase], reach: tuple[Reach, Reach], packed: int,
    is_merged: bool, resources: Resources,
) -> Part:  # fmt: skip
    down, across = phase
    assert isinstance(w.other, Filter)
    taps = down.taps * across.taps
    lines, inner = (down.taps if across.taps else 0, across.taps * w.channels) if is_merged else (taps, w.channels)
    most = max(1, resources.filter_bytes // (max(split.widths) * resources.lanes * resources.element_bytes))
    inner = max(inner, 1)
    pieces = -(-inner // most)
    shift = (down.offset - reach[0].lowest) * band.line + (across.offset - reach[1].lowest) * band.cell
    return Part(
        down.first, across.first, down.count, across.count, shift if taps else 0, lines, inner,
        max(1, most // inner) if is_merged else 1, -(-inner // pieces), packed, taps * w.channels,
        down.tap * w.other.rows + across.tap * w.other.elements,
        down.taps_every * w.other.rows, across.taps_every * w.other.elements, taps, across.taps,
    )  # fmt: skip


class Summing(NamedTuple):
    """Sums over positions, whose rows are the elements of windows: `lines` stretches of `inner` of them, shared out in
    `pieces` of `piece` rows. Stretch l belongs to block l // `taps` of channels, `block_step` elements behind the one
    before, and to tap t = l % `taps`, at t // `per_line` * `line_step` + t % `per_line` * `tap_step`. Chunks are
    `chunk_y` rows of positions or, of one row, `chunk_x` positions; `copies` says whether the other factor is copied
    chunk by chunk."""

    band: Band
    panels: Panels
    groups: int
    source_group: int
    other_group: int
    other_row: int
    count_y: int
    count_x: int
    taps: int
    per_line: int
    line_step: int
    tap_step: int
    block_step: int
    lines: int
    inner: int
    pieces: int
    piece: int
    chunk_y: int
    chunk_x: int
    copies: int

    @property
    def chunk_positions(self) -> int:
        return self.band.images * self.chunk_y * self.chunk_x

    @property
    def rows(self) -> int:
        """Rows of the result."""
        return self.lines * self.inner


def summing(w: Windows, resources: Resources) -> Summing | None:
    """How sums over positions are cut; None where rows of positions are too short to be worth it."""
    if not isinstance(w.other, Summed) or w.horizontal.count < LEAST_POSITIONS:
        return None
    y, x = _reach(phases(w.vertical)), _reach(phases(w.horizontal))
    blocks = w.channels // BLOCK if w.channels % BLOCK == 0 and w.channels > 2 * BLOCK else 1
    rows = BLOCK if blocks > 1 else w.horizontal.size * w.channels
    split = panels(w.columns, rows, resources, streams=False)
    width = max(split.widths) * resources.lanes
    most = max(1, resources.positions_bytes // ((width + BLOCK) * resources.element_bytes))
    image_bytes = ((y.positions - 1) * y.step + y.highest - y.lowest + 1) * x.positions * x.step * w.channels
    images = min(most // (y.positions * x.positions), resources.images_bytes // (image_bytes * resources.element_bytes))
    band = _band(w, y, x, resources, LEAST_ITEMS, resources.images_bytes, max(1, images), blocks)
    is_merged = blocks == 1 and w.horizontal.dilation == 1 and (band.cell == w.channels or w.horizontal.size == 1)
    taps = w.horizontal.size
    per_line, inner = (1, taps * w.channels) if is_merged else (taps, band.block)
    taps = w.vertical.size * per_line
    lines = taps * blocks
    chunk_y = min(band.rows, max(1, most // x.positions))
    chunk_y = -(-band.rows // -(-band.rows // chunk_y))
    chunk_x = -(-x.positions // -(-x.positions // most)) if chunk_y == 1 else x.positions
    pieces = min(
        -(-LEAST_ITEMS // (split.panel_count * lines * w.groups)), -(-inner // resources.tile_rows(max(split.widths)))
    )
    together = split.panel_count == 1 and w.columns == width and w.other.row == width
    return Summing(
        band, split, w.groups, w.group_stride, w.other.group, w.other.row, y.positions, x.positions,
        taps, per_line, w.vertical.dilation * band.line, w.horizontal.dilation * band.cell,
        band.rows_in * band.line, lines, inner, pieces, -(-inner // pieces),
        band.rows if band.images > 1 else chunk_y, x.positions if band.images > 1 else chunk_x, int(not together),
    )  # fmt: skip
