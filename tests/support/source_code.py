"""The Python files of the project, and what of them is code: what strings and comments say is left out.

Names, imports and the lengths of functions can be looked for in that as in a text, in a fiftieth of the time that
trees of all files take; where it says that there may be something, a test reads the tree of that file alone.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = {".venv", "build", "dist", "__pycache__", ".git"}


@cache
def python_files() -> tuple[str, ...]:
    """All Python files of the project: those under version control, else all that lie in its folders."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    try:
        names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        paths = (path.relative_to(ROOT) for path in ROOT.rglob("*.py"))
        names = sorted(path.as_posix() for path in paths if not SKIPPED & {*path.parts})
    return tuple(name for name in names if (ROOT / name).is_file())


@cache
def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@cache
def code_of_file(name: str) -> str:
    return code_of(text_of(name))


_NO_CODE = re.compile(
    r"""
    [#][^\n]*
    | \"{3} [^"\\]* (?: (?: \\. | "(?!"") ) [^"\\]* )* \"{3}
    | '{3}  [^'\\]* (?: (?: \\. | '(?!'') ) [^'\\]* )* '{3}
    | "     [^"\\\n]* (?: \\. [^"\\\n]* )* "
    | '     [^'\\\n]* (?: \\. [^'\\\n]* )* '
    """,
    re.VERBOSE | re.DOTALL,
)
"""Comments and strings, also formatted ones: before Python 3.12 a quote ends them wherever it stands."""


def code_of(text: str) -> str:
    """A file without its comments and what is between quotes, each line where it was. Of formatted strings that stays
    which is computed, without its strings."""
    return _NO_CODE.sub(_kept, text)


_COMPUTED = re.compile(r"{[^{}\n]*(?:{[^{}\n]*}[^{}\n]*)*}")


def _kept(match: re.Match[str]) -> str:
    line_ends = "\n" * match[0].count("\n")
    if "{" in match[0] and "f" in match.string[max(match.start() - 2, 0) : match.start()].lower():
        return " ".join(map(code_of, _COMPUTED.findall(match[0]))) + line_ends
    return line_ends


_TO_END = r"((?:[^\n;\\]|\\\n)*)"
_IMPORT = re.compile(rf"\bfrom\s+([\w.]+)\s+import\b\s*(?:\(([^)]*)\)|{_TO_END})|\bimport\s+{_TO_END}")


def imports_in(code: str) -> Iterator[tuple[str, str | None]]:
    """Every import of a code, wherever it stands: the module, and the name if one is taken from it."""
    for match in _IMPORT.finditer(code):
        module, names = match[1], match[2] or match[3] or match[4]
        for each in names.split(","):
            if words := each.replace("\\", "").split():  # the second and third are an alias
                yield (module, words[0]) if module else (words[0], None)
