"""Which row blocks have a band of columns, where it ends, and what has to be checked for that."""

from __future__ import annotations

import pytest

from dfc.driver.pipeline import optimise
from dfc.kernels.bands.band import RowBand, row_band
from dfc.kernels.form import ROW_BLOCKS, LoopKernel, RowBlockKernel
from dfc.lower.program import lower_graph
from tests.support.building import graph_of

HEAD = "dfg 1\nfrom std.nn import dropout\nvar dice: rng = philox(seed = 3)\n"
SHAPES = "q: f32[H, N, D], k: f32[H, M, D], v: f32[H, M, D]"
ROWS, COLUMNS = "iota(i32[N])[:, new]", "iota(i32[M])[new, :]"


def attention(weights: str, more: str = "", *, gradient: bool = False, then: str = "") -> str:
    """An entry where `weights` is made of `affinity`."""
    result = "let a, b, c = grad(sum(y * y), [q, k, v])\n  return a, b, c" if gradient else "return y"
    results = "(a: f32[H, N, D], b: f32[H, M, D], c: f32[H, M, D])" if gradient else "f32[H, N, D]"
    return f"""{HEAD}
entry e[H, N, M, D]({SHAPES}{more}) -> {results} {{
  let affinity = einsum("hnd,hmd->hnm", q, k)
  let weights = {weights}
  {then}
  let y = einsum("hnm,hmd->hnd", weights, v)
  {result}
}}
"""


def masked(mask: str, otherwise: str = "-1e9") -> str:
    return f"softmax(select(({mask})[new, :, :], affinity, {otherwise}))"


def bands(text: str) -> list[RowBand | None]:
    program = lower_graph(optimise(graph_of(text)), forms=[ROW_BLOCKS])
    return [row_band(kernel) for kernel in program.kernels if isinstance(kernel, RowBlockKernel)]


@pytest.mark.parametrize(
    ("mask", "first"),
    [
        (f"{ROWS} >= {COLUMNS}", "1"),
        (f"{COLUMNS} < {ROWS}", "0"),
        (f"not({COLUMNS} > {ROWS} + 3)", "4"),
        (f"({ROWS} >= {COLUMNS}) and ({ROWS} - {COLUMNS} < 9)", "1"),
        (f"{ROWS} - 7 >= {COLUMNS} + 2", "-8"),
        (f"{ROWS} == {COLUMNS}", "1"),
        (f"{ROWS} <= {COLUMNS}", "none"),
        (f"iota(f32[N])[:, new] >= {COLUMNS} as f32", "none"),
    ],
)
def test_a_band_ends_where_a_mask_begins(mask: str, first: str) -> None:
    (band,) = bands(attention(masked(mask)))
    if first == "none":
        assert band is None
    else:
        assert band is not None and len(band.axes) == len(band.kernel.steps) == 3
        assert str(band.first.constant) == first


def test_only_indices_make_a_band() -> None:
    assert bands(attention(masked("seen"), ", seen: bool[N, M]")) == [None]
    assert bands(attention("softmax(affinity)")) == [None]


def test_scores_that_are_not_the_same_beyond_the_mask_count() -> None:
    weights = f"softmax(select(({ROWS} >= {COLUMNS})[new, :, :], affinity, far[new, new, :]))"
    assert bands(attention(weights, ", far: f32[M]")) == [None]


def test_weights_that_are_not_0_beyond_the_mask_count() -> None:
    text = attention(f"select(({ROWS} >= {COLUMNS})[new, :, :], affinity, 1)")
    assert all(band is None for band in bands(text))


def test_weights_that_are_0_need_no_check() -> None:
    (band,) = bands(attention(f"select(({ROWS} >= {COLUMNS})[new, :, :], affinity, 0)"))
    assert band is not None and not band.checks


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f64"])
def test_other_types_have_bands(dtype: str) -> None:
    text = attention(masked(f"{ROWS} >= {COLUMNS}", "-6e4"))
    assert all(bands(text.replace("f32", dtype)))


def test_each_row_of_a_softmax_is_checked() -> None:
    (band,) = bands(attention(masked(f"{ROWS} >= {COLUMNS}")))
    assert band is not None and list(band.checks) == [1]
    softmax = band.kernel.steps[1].kernel
    assert isinstance(softmax, LoopKernel) and softmax.stages[-1].axes == ()


def test_gradients_have_the_band_too() -> None:
    (band,) = bands(attention(masked(f"{ROWS} >= {COLUMNS}"), gradient=True))
    assert band is not None and list(band.checks) == [1]
    assert set(range(len(band.kernel.steps))) - set(band.axes) == set()


def test_dropout_leaves_the_band() -> None:
    weights = masked(f"{ROWS} >= {COLUMNS}")
    for gradient in (False, True):
        text = attention("dropped", gradient=gradient)
        text = text.replace("let weights = dropped", f"let kept = {weights}")
        text = text.replace("\n  \n", "\n  let weights = dropout(kept, 0.25, dice, training = true)\n", 1)
        (band,) = bands(text)
        assert band is not None and len(band.checks) == 1


def test_weights_that_are_results_are_not_left_out() -> None:
    text = attention(masked(f"{ROWS} >= {COLUMNS}"))
    text = text.replace("-> f32[H, N, D]", "-> (y: f32[H, N, D], w: f32[H, N, M])").replace(
        "return y", "return y, weights"
    )
    assert all(band is None for band in bands(text))
