"""What a program was compiled from, as far as its bundle carries it: for those who compile parts of it, or it again."""

from __future__ import annotations

from collections.abc import Mapping

from dfc_runtime.dataclasses import dataclass
from dfc_runtime.formats import bundle as bundles
from dfc_runtime.formats.bundle import OpenBundle


@dataclass(frozen=True, slots=True)
class Origin:
    """What a program was compiled from: texts by path, the program first, and which variants of it are loaded, with
    blanks between them."""

    sources: Mapping[str, str]
    settings: Mapping[str, int | float | bool | str]
    target: str
    isa: str
    threads: int
    device: int = 0


def sources_of(bundle: OpenBundle) -> dict[str, str]:
    """The texts the program was compiled from; none if the bundle has no text that could be one."""
    prefix = bundles.source_tensor("") + "/"
    names = [name for name in bundle.header.tensors if name.startswith(prefix)]
    file_names = [entry.location.name for entry in bundle.manifest.entries if entry.location.line]
    program = file_names[0] if file_names else f"{bundle.manifest.name}.dfg"
    paths = {program: bundles.SOURCE, **{name.removeprefix(prefix): name for name in names}}
    try:
        texts = {path: bundle.read(name).decode("utf-8") for path, name in paths.items()}
    except UnicodeDecodeError:
        return {}
    return texts if texts[program] else {}
