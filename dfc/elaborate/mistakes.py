"""How a mistake of the author travels through the front end.

`Mistake` ends the elaboration of one statement; whoever runs statements reports it and goes on with the next one.
`Abandoned` does the same without a message: a consequence of a mistake that was reported already, or a part of a
generic body that can only be checked when its constants are known. The reporter keeps each message once.
"""

from __future__ import annotations

from collections.abc import Iterable

from dfc.diagnostics.diagnostic import NOT_SUPPORTED_YET, Diagnostic, Diagnostics, error, warning
from dfc.diagnostics.fixes import Help
from dfc.diagnostics.source import Span

LIMIT = "E1002"


class Mistake(Exception):
    """Carries the message about a mistake to the end of the statement that contains it."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.title)
        self.diagnostic = diagnostic


class Abandoned(Exception):
    """Ends a statement silently."""


def mistake(
    code: str,
    title: str,
    span: Span,
    label: str = "",
    *,
    secondary: Iterable[tuple[Span, str]] = (),
    notes: Iterable[str] = (),
    helps: Iterable[Help] = (),
) -> Mistake:
    return Mistake(error(code, title, span, label, secondary=secondary, notes=notes, helps=helps))


def unsupported(what: str, span: Span, *, helps: Iterable[Help] = ()) -> Mistake:
    """A construct of the language that this version does not compile."""
    return mistake(NOT_SUPPORTED_YET, f"{what} not supported yet", span, helps=helps)


class Reporter:
    """Collects the messages of one run; a place gets at most one message of a kind, and a limit is reported once."""

    def __init__(self) -> None:
        self.diagnostics = Diagnostics()
        self._known: set[tuple[str, str, int]] = set()

    def report(self, diagnostic: Diagnostic) -> None:
        span = diagnostic.span
        is_limit = diagnostic.code == LIMIT
        key = (diagnostic.code, "", 0) if is_limit else (diagnostic.code, span.name, span.start)
        if key not in self._known or span.is_nowhere:
            self._known.add(key)
            self.diagnostics.add(diagnostic)

    def warn(self, code: str, title: str, span: Span, helps: Iterable[Help] = ()) -> None:
        self.report(warning(code, title, span, helps=helps))

    @property
    def error_count(self) -> int:
        return len(self.diagnostics.errors)

    def sorted(self) -> list[Diagnostic]:
        """By file in the order of the first message, then by place."""
        files: dict[str, int] = {}
        for each in self.diagnostics:
            files.setdefault(each.span.name, len(files))
        return sorted(self.diagnostics, key=lambda each: (files[each.span.name], each.span.start))
