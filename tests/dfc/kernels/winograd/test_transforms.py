"""The matrices of Winograd's algorithm: sums over windows with fewer products, and what rounding does to them."""

from __future__ import annotations

import numpy as np
import pytest

from dfc.kernels.winograd.transforms import amplification, roundings, transforms

FORMS = [(2, 3), (4, 3), (3, 4)]


def arrays(tile: int, taps: int):
    one = transforms(tile, taps)
    return one, np.array(one.image), np.array(one.filter), np.array(one.result)


@pytest.mark.parametrize(("tile", "taps"), FORMS)
def test_products_of_transforms_are_sums_over_windows(tile: int, taps: int) -> None:
    one, image, filter_, result = arrays(tile, taps)
    random = np.random.default_rng(tile)
    d, g = random.standard_normal((one.span, one.span)), random.standard_normal((taps, taps))
    windows = np.lib.stride_tricks.sliding_window_view(d, (taps, taps))
    sums = result @ ((filter_ @ g @ filter_.T) * (image @ d @ image.T)) @ result.T
    np.testing.assert_allclose(sums, np.einsum("ijkl,kl->ij", windows, g), atol=1e-13 * amplification(one))


@pytest.mark.parametrize(("tile", "taps"), FORMS)
def test_nothing_amplifies_more_than_is_said(tile: int, taps: int) -> None:
    """With all elements 1 that is the ratio itself; no single pair of an element and a tap is more of the bound."""
    one, image, filter_, result = (
        np.abs(each) if isinstance(each, np.ndarray) else each for each in arrays(tile, taps)
    )
    sums = result @ ((filter_ @ np.ones(taps)) * (image @ np.ones(one.span)))
    assert np.isclose(amplification(one), (sums.max() / taps) ** 2)
    assert {2: 7 < amplification(one) < 8, 4: 60 < amplification(one) < 65}.get(tile, True)


def test_roundings_are_those_of_one_chain_and_three_transforms() -> None:
    # per axis: B of 4 terms, G and A of 3 and 5, one more each for the coefficient
    assert roundings(transforms(4), 64) == 64 + 2 * (5 + 4 + 6)
