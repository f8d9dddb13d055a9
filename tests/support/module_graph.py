"""Which module of the project imports which, read from the text: at the top, inside functions and for types alone."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "dfc": "dfc",
    "dfc_runtime": "runtime/dfc_runtime",
    "dfc_target_cpu": "targets/cpu/compile/dfc_target_cpu",
    "dfc_driver_cpu": "targets/cpu/run/dfc_driver_cpu",
    "dfc_target_cuda": "targets/cuda/compile/dfc_target_cuda",
    "dfc_driver_cuda": "targets/cuda/run/dfc_driver_cuda",
}
SKIPPED = {".venv", "build", "dist", "__pycache__", ".git"}
Graph = Mapping[str, frozenset[str]]


def python_files() -> list[Path]:
    """All Python files of the project: those under version control, else all that lie in its folders."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        paths = (path for path in ROOT.rglob("*.py") if not SKIPPED & {*path.relative_to(ROOT).parts})
        return sorted(paths)
    return [path for name in listed if (path := ROOT / name).is_file()]


def modules() -> dict[str, Path]:
    """Every module of the packages by its full name; a package is its `__init__`."""
    by_name: dict[str, Path] = {}
    for package, folder in PACKAGES.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = [package, *path.relative_to(ROOT / folder).with_suffix("").parts]
            by_name[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return by_name


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements of a tree and what they are in, outer ones first: a fifth of the nodes that `ast.walk` visits."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for field in ("body", "orelse", "handlers", "finalbody", "cases"):
            inner = getattr(node, field, ())
            if isinstance(inner, list):  # the body of a lambda is an expression
                waiting.extend(inner)


def imports_of(name: str, text: str, known: Mapping[str, object]) -> frozenset[str]:
    """The modules among `known` that a text imports anywhere; modules named by texts at run time are not seen."""
    imported: set[str] = set()
    for node in statements(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {each.name for each in node.names} & known.keys()
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module is not None, f"{name}: imports are absolute here"
            for each in node.names:
                inner = f"{node.module}.{each.name}"
                imported |= {inner if inner in known else node.module} & known.keys()
    return frozenset(imported - {name})


@cache
def import_graph() -> Graph:
    known = modules()
    return {name: imports_of(name, path.read_text(), known) for name, path in known.items()}


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
