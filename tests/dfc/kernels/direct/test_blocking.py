"""Plans of direct convolutions: what is cut is whole again, whatever the registers and caches."""

from __future__ import annotations

import pytest

from dfc.ir.dims import dim
from dfc.kernels.direct.blocking import Resources, forward, panels, summing
from dfc.kernels.direct.geometry import Filter, Spatial, Summed, Windows, phases

SMALL = Resources(lanes=4, element_bytes=4, registers=16, fused=False, l1_bytes=32 << 10, l2_bytes=256 << 10)
LARGE = Resources(lanes=16, element_bytes=4, registers=32, fused=True, l1_bytes=32 << 10, l2_bytes=1 << 20)


def image(height: int, width: int, channels: int, columns: int, size: int, step: int, zeros: int, interior: int = 1):
    """A convolution of windows of `size` by `size`; with an `interior`, the gradient by an image of that step."""
    counts = [(n - 1) * interior + 1 + 2 * zeros - size + 1 for n in (height, width)]
    counts = [-(-n // step) for n in counts]
    down = Spatial(height, dim(width * channels), counts[0], size, step, 1, -zeros, interior)
    across = Spatial(width, dim(channels), counts[1], size, step, 1, -zeros, interior)
    filter_ = Filter(0, size * channels * columns, channels * columns, columns, 1, 0)
    stride = dim(height * width * channels)
    return Windows(dim(2), stride, down, across, channels, columns, 1, 0, filter_)


@pytest.mark.parametrize("resources", [SMALL, LARGE])
@pytest.mark.parametrize("columns", [1, 3, 16, 17, 63, 64, 65, 200, 1000])
def test_panels_are_all_columns(columns: int, resources: Resources) -> None:
    for rows in (1, 7, 13, 56):
        split = panels(columns, rows, resources, streams=True)
        assert (split.all_vectors - 1) * resources.lanes < columns <= split.all_vectors * resources.lanes
        for vectors in split.widths:
            needed = resources.tile_rows(vectors) * vectors + vectors + (1 if resources.fused else 2)
            assert needed <= resources.registers, "sums do not fit into registers"


@pytest.mark.parametrize("resources", [SMALL, LARGE])
@pytest.mark.parametrize("size", [(7, 7, 512, 512, 3, 1, 1), (224, 224, 3, 64, 7, 2, 3), (56, 56, 64, 192, 3, 1, 1)])
def test_bands_are_the_image_and_fit_a_cache(size: tuple[int, ...], resources: Resources) -> None:
    plan = forward(image(*size), resources)
    assert plan is not None
    band = plan.band
    assert (band.bands - 1) * band.rows < plan.count_y <= band.bands * band.rows
    assert band.rows == 1 or band.elements * 4 <= resources.band_bytes
    assert sum(part.depth for part in plan.parts) == size[2] * size[4] * size[4]


@pytest.mark.parametrize(("size", "step"), [(3, 2), (1, 2), (5, 3), (2, 3), (4, 4)])
def test_phases_are_all_elements_of_windows_that_lie_on_memory(size: int, step: int) -> None:
    one = Spatial(6, dim(4), 11, size, 1, 1, 1 - size, step)
    pairs = {
        (phase.first + i * phase.every, phase.tap + j * phase.taps_every, i * phase.step + j + phase.offset)
        for phase in phases(one)
        for i in range(phase.count)
        for j in range(phase.taps)
    }
    reached = {
        (p, e, (p + e + one.offset) // step)
        for p in range(one.count)
        for e in range(size)
        if (p + e + one.offset) % step == 0
    }
    assert pairs == reached


@pytest.mark.parametrize("resources", [SMALL, LARGE])
def test_sums_over_positions_share_out_all_rows(resources: Resources) -> None:
    for size in ((7, 7, 512, 512, 3, 1, 1), (224, 224, 3, 64, 7, 2, 3), (14, 14, 5, 9, 3, 1, 1)):
        w = image(*size)
        other = Summed(dim(0), w.columns, 0)
        plan = summing(
            Windows(w.batch, w.image_stride, w.vertical, w.horizontal, w.channels, w.columns, 1, 0, other), resources
        )
        assert plan is not None
        assert plan.rows == size[2] * size[4] * size[4]
        assert (plan.pieces - 1) * plan.piece < plan.inner <= plan.pieces * plan.piece
        assert plan.chunk_positions * max(plan.panels.widths) * resources.vector_bytes <= resources.positions_bytes


def test_short_rows_are_left_to_products() -> None:
    assert forward(image(3, 3, 8, 16, 1, 1, 0), LARGE) is None


def test_lines_of_windows_of_one_element_are_longer() -> None:
    assert forward(image(14, 14, 64, 64, 1, 2, 0), LARGE) is None
    assert forward(image(28, 28, 64, 64, 1, 2, 0), LARGE) is not None
    assert forward(image(14, 14, 64, 64, 3, 2, 1), LARGE) is not None
