"""Products of matrices: the large square one, and a family of sizes and layouts that nobody tunes for."""

from __future__ import annotations

from bench.cases.case import Case, Data, Sizes, Target, Work, normal

_SHAPES = {
    "odd_small": (67, 129, 71),
    "odd": (501, 703, 389),
    "odd_large": (1023, 2049, 1531),
    "square_64": (64, 64, 64),
    "square_256": (256, 256, 256),
    "square_2048": (2048, 2048, 2048),
    "tall": (4096, 64, 512),
    "flat": (64, 4096, 512),
    "deep": (128, 128, 4096),
    "shallow": (2048, 2048, 64),
    "step": (64, 2048, 1024),
}
"""m, n, k of A [m, k] times B [k, n]. `step` is what an LSTM does in a step, `deep` what a gradient of weights is."""

_SMALL = {"m": 13, "n": 17, "k": 11}
FAMILY = "products"


def _data(sizes: Sizes) -> Data:
    """Of what is transposed, the array lies in memory with its axes the other way round."""
    m, n, k, count = (sizes[name] for name in ("m", "n", "k", "count"))
    a, b = ((k, m) if sizes["turned_a"] else (m, k)), ((n, k) if sizes["turned_b"] else (k, n))
    batch = (count,) if count else ()
    return Data({"a": normal("a", *batch, *a), "b": normal("b", *batch, *b)})


def _work(sizes: Sizes) -> Work:
    return Work(flops=2.0 * sizes["m"] * sizes["n"] * sizes["k"] * max(1, sizes["count"]))


def _settings(sizes: Sizes) -> dict[str, int]:
    return {"M": sizes["m"], "N": sizes["n"], "K": sizes["k"], "COUNT": max(1, sizes["count"])}


def _case(
    name: str, shape: tuple[int, int, int], layout: str = "nn", count: int = 0, target: Target | None = None
) -> Case:
    """`layout` says of A and B whether they are stored by rows (n) or by columns (t)."""
    m, n, k = shape
    turned_a, turned_b = (letter == "t" for letter in layout)
    sizes = {"m": m, "n": n, "k": k, "count": count, "turned_a": int(turned_a), "turned_b": int(turned_b)}
    small = {**_SMALL, **({"count": 3} if count else {})}
    return Case(
        name, "product", "product.dfg", f"{'batched' if count else 'product'}_{layout}", sizes, small, _data, _work,
        "fma", target or Target(ratio=1), 1e-4, _settings, "" if target else FAMILY,
    )  # fmt: skip


PRODUCTS = [
    _case("matmul", (1024, 1024, 1024), target=Target(ratio=1, share=0.93)),
    *(_case(f"matmul_{name}", shape) for name, shape in _SHAPES.items()),
    _case("matmul_nt", (1024, 1024, 1024), "nt"),
    _case("matmul_tn", (1024, 1024, 1024), "tn"),
    _case("matmul_odd_nt", _SHAPES["odd"], "nt"),
    _case("matmul_odd_tn", _SHAPES["odd"], "tn"),
    _case("matmul_tall_tn", (512, 64, 4096), "tn"),
    _case("matmul_batched", (128, 128, 64), "nt", 64),
    _case("matmul_batched_odd", (97, 113, 75), "nn", 32),
]
