"""Which module of the project imports which, read from the text: at the top, inside functions and for types alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.support.source_code import ROOT, code_of_file, imports_in

PACKAGES = {
    "dfc": "dfc",
    "dfc_runtime": "runtime/dfc_runtime",
    "dfc_target_cpu": "targets/cpu/compile/dfc_target_cpu",
    "dfc_driver_cpu": "targets/cpu/run/dfc_driver_cpu",
    "dfc_target_cuda": "targets/cuda/compile/dfc_target_cuda",
    "dfc_driver_cuda": "targets/cuda/run/dfc_driver_cuda",
}
Graph = Mapping[str, frozenset[str]]


def modules() -> dict[str, Path]:
    """Every module of the packages by its full name; a package is its `__init__`."""
    by_name: dict[str, Path] = {}
    for package, folder in PACKAGES.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = [package, *path.relative_to(ROOT / folder).with_suffix("").parts]
            by_name[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return by_name


def imports_of(name: str, code: str, known: Mapping[str, object]) -> frozenset[str]:
    """The modules among `known` that a code imports anywhere; modules named by texts at run time are not seen."""
    imported: set[str] = set()
    for module, part in imports_in(code):
        assert not module.startswith("."), f"{name}: imports are absolute here"
        inner = module if part is None else f"{module}.{part}"
        imported |= {inner if inner in known or part is None else module} & known.keys()
    return frozenset(imported - {name})


@cache
def import_graph() -> Graph:
    known = modules()
    codes = {name: code_of_file(path.relative_to(ROOT).as_posix()) for name, path in known.items()}
    return {name: imports_of(name, code, known) for name, code in codes.items()}


def circles(graph: Graph) -> Iterator[list[str]]:
    """The groups of modules each of which reaches all others of its group: strongly connected components of more than
    one module (R. Tarjan, Depth-first search and linear graph algorithms, 1972; here without recursion)."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_: list[str] = []
    for start in graph:
        if start in index:
            continue
        work = [(start, iter(sorted(graph[start])))]
        index[start] = lowest[start] = len(index)
        open_.append(start)
        while work:
            name, rest = work[-1]
            for following in rest:
                if following not in index:
                    index[following] = lowest[following] = len(index)
                    open_.append(following)
                    work.append((following, iter(sorted(graph[following]))))
                    break
                if following in open_:
                    lowest[name] = min(lowest[name], index[following])
            else:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[name])
                if lowest[name] == index[name]:
                    at = open_.index(name)
                    group = sorted(open_[at:])
                    del open_[at:]
                    if len(group) > 1:
                        yield group
