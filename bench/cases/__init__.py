"""The cases: what is computed, on which data, how much work that is, and what is to be reached.

In: nothing. Out: `CASES`, by name, in the order of the table. Read `case.py` first. Needs NumPy alone, because every
process of every system imports it.
"""

from __future__ import annotations

from bench.cases.case import Case
from bench.cases.elementary import ELEMENTARY
from bench.cases.language import LANGUAGE
from bench.cases.networks import CONVOLUTIONAL
from bench.cases.products import FAMILY, PRODUCTS
from bench.cases.scientific import SCIENTIFIC
from bench.cases.sequences import SEQUENCES

_GROUPS = (ELEMENTARY, PRODUCTS, SEQUENCES, CONVOLUTIONAL, LANGUAGE, SCIENTIFIC)
CASES: dict[str, Case] = {case.name: case for group in _GROUPS for case in group}
FAMILY_RATIO = {FAMILY: 1.1}
"""What the geometric mean of the ratios of a family of cases is to reach."""
