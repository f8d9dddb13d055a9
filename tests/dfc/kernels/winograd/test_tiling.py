"""Which convolutions are made by Winograd's algorithm, and how they are cut."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dfc.ir.dims import Dim, dim
from dfc.kernels.direct.blocking import Resources
from dfc.kernels.direct.geometry import Filter, Spatial, Summed, Windows
from dfc.kernels.winograd.tiling import CACHE_LINE, LEAST_TILES, MOST_TILES, tiled, winograd

NARROW = Resources(lanes=8, element_bytes=4, registers=16, fused=True, l1_bytes=32 << 10, l2_bytes=512 << 10)
WIDE = Resources(lanes=16, element_bytes=4, registers=32, fused=True, l1_bytes=32 << 10, l2_bytes=1 << 20)


def convolution(side: int, channels: int, columns: int, batch: Dim | int = 16) -> Windows:
    """Windows of 3 x 3 elements with one row of zeros around the image."""
    down = Spatial(side, dim(side * channels), side, 3, 1, 1, -1, 1)
    across = replace(down, stride=dim(channels))
    filter_ = Filter(0, 3 * channels * columns, channels * columns, columns, 1, 0)
    images = batch if isinstance(batch, Dim) else dim(batch)
    return Windows(images, dim(side * side * channels), down, across, channels, columns, 1, 0, filter_)


@pytest.mark.parametrize("resources", [NARROW, WIDE])
@pytest.mark.parametrize(
    ("layer", "tile"),
    [
        ((112, 64, 128), 4), ((56, 256, 256), 4), ((28, 512, 512), 4), ((14, 512, 512), 4), ((7, 512, 512), 4),
        ((13, 192, 384), 4), ((28, 16, 32), 4), ((6, 64, 64), 2),
        ((14, 512, 512, 1), 2), ((224, 3, 64), 0), ((28, 4, 12), 0),
    ],
)  # fmt: skip
def test_the_way_is_that_which_is_fastest_where_it_was_measured(
    layer: tuple[int, ...], tile: int, resources: Resources
) -> None:
    plan = winograd(convolution(*layer), resources)
    assert (plan.tile if plan else 0) == tile


def test_windows_of_other_forms_are_left_to_others() -> None:
    w = convolution(28, 64, 64)
    for change in ({"size": 5}, {"step": 2}, {"dilation": 2}, {"interior": 2}):
        assert winograd(replace(w, vertical=replace(w.vertical, **change)), WIDE) is None
        assert winograd(replace(w, horizontal=replace(w.horizontal, **change)), WIDE) is None
    assert winograd(replace(w, other=Summed(dim(0), 64, 0)), WIDE) is None


@pytest.mark.parametrize("resources", [NARROW, WIDE])
@pytest.mark.parametrize("layer", [(7, 5, 83), (13, 64, 64), (56, 128, 17), (14, 512, 512)])
@pytest.mark.parametrize("tile", [2, 4])
def test_what_a_thread_holds_lies_one_behind_the_other(layer: tuple[int, ...], tile: int, resources: Resources) -> None:
    plan = tiled(convolution(*layer), resources, tile)
    assert LEAST_TILES <= plan.block_tiles <= MOST_TILES
    assert (plan.tiles_y - 1) * tile < plan.count_y <= plan.tiles_y * tile
    width = max(plan.panels.widths) * resources.lanes
    assert plan.cell >= plan.channels and plan.far >= plan.block_tiles * plan.cell
    assert plan.products_at >= plan.span**2 * plan.far
    assert plan.patch_at - plan.products_at >= plan.span**2 * plan.block_tiles * width
    assert plan.between_at - plan.patch_at >= plan.span**2 * plan.channels
    assert plan.sums_at - plan.between_at >= plan.span**2 * resources.lanes
    starts = (plan.far, plan.products_at, plan.patch_at, plan.between_at, plan.sums_at, plan.product_far, plan.cell)
    assert all(start * resources.element_bytes % CACHE_LINE == 0 for start in starts)
