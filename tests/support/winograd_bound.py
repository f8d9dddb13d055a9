"""How far sums of Winograd's algorithm may be from exact ones: the stated formula, tile by tile, in f64."""

from __future__ import annotations

from typing import Any

import numpy as np

from dfc.kernels.winograd.transforms import roundings, transforms

Array = np.ndarray[Any, Any]


def error_bound(x: Array, w: Array, pads: tuple[tuple[int, int], ...], groups: int, tile: int) -> Array:
    """For each sum of a convolution of 3 x 3 windows one after the other, in the type of `x`."""
    matrices = transforms(tile)
    image, filter_, result = (np.abs(np.array(one)) for one in (matrices.image, matrices.filter, matrices.result))
    padded = np.pad(np.abs(x.astype(np.float64)), ((0, 0), *pads, (0, 0)))
    height, width = (n - 2 for n in padded.shape[1:3])
    whole = [-(-n // tile) * tile for n in (height, width)]
    more = [n + 2 - have for n, have in zip(whole, padded.shape[1:3], strict=True)]
    padded = np.pad(padded, ((0, 0), (0, more[0]), (0, more[1]), (0, 0)))
    bound = np.zeros((x.shape[0], *whole, w.shape[-1]))
    channels, columns = w.shape[2], w.shape[3] // groups
    for group in range(groups):
        own = np.abs(w[..., group * columns : (group + 1) * columns].astype(np.float64))
        taps = np.einsum("ik,klco,jl->ijco", filter_, own, filter_)
        seen = padded[..., group * channels : (group + 1) * channels]
        for y in range(0, whole[0], tile):
            for z in range(0, whole[1], tile):
                piece = seen[:, y : y + matrices.span, z : z + matrices.span]
                products = np.einsum("ijco,bijc->bijo", taps, np.einsum("ik,bklc,jl->bijc", image, piece, image))
                sums = np.einsum("ik,bklo,jl->bijo", result, products, result)
                bound[:, y : y + tile, z : z + tile, group * columns : (group + 1) * columns] = sums
    unit = np.finfo(x.dtype).eps / 2
    return bound[:, :height, :width] * roundings(matrices, channels) * unit
