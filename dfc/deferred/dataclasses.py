"""Data classes that are declared without compiling code: those of the run side, which is installed without the compiler
and has hundreds of its own."""

from dfc_runtime.dataclasses import dataclass as dataclass
from dfc_runtime.dataclasses import field_names as field_names
