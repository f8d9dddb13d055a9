"""The architectures that code is made for: which there are, and which of them options ask for.

Imports nothing that makes code, so that a target can be asked for at once.
"""

from __future__ import annotations

from dfc.ir.options import TargetOptions, unknown_variant
from dfc_runtime.errors import UnsupportedError

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120")
DEFAULT = ("sm_80", "sm_90")
OLDEST_WITH_TF32 = 80

TF32 = "+tf32"
"""Behind the name of an architecture: products of f32 may round their factors to 11 bits, for tensor cores."""

SIMULATOR = "simulator"


def architectures(options: TargetOptions) -> tuple[str, ...]:
    """Those asked for, oldest first; `DEFAULT` if none is. `compute_80`, the image of PTX that a program may have been
    loaded from, asks for sm_80."""
    if SIMULATOR in options.isas:
        if len(options.isas) > 1:
            raise UnsupportedError(f"the architecture {SIMULATOR} stands alone: leave out the others", code="E1002")
        return (SIMULATOR,)
    names = [name.replace("compute_", "sm_").removesuffix(TF32) for name in options.isas]
    for name, known in zip(options.isas, names, strict=True):
        if known not in ARCHITECTURES:
            raise unknown_variant(name, ARCHITECTURES)
    return tuple(sorted(set(names) or DEFAULT, key=number))


def is_rounding_factors(options: TargetOptions) -> bool:
    """Whether products may round: all architectures asked for say so, or none."""
    rounding = [name.endswith(TF32) for name in options.isas]
    if any(rounding) and not all(rounding):
        exact = options.isas[rounding.index(False)]
        raise UnsupportedError(f"one program rounds its products or does not: write {exact}{TF32}, too", code="E1002")
    old = [name for name in options.isas if name.endswith(TF32) and number(name.removesuffix(TF32)) < OLDEST_WITH_TF32]
    if old:
        text = f"{old[0].removesuffix(TF32)} has no tensor cores for tf32: they begin with sm_{OLDEST_WITH_TF32}"
        raise UnsupportedError(text, code="E1002")
    return any(rounding)


def number(architecture: str) -> int:
    return int(architecture.removeprefix("sm_").removeprefix("compute_"))
