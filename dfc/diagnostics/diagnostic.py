"""Messages for the user: what they consist of, how they are collected, and the error that carries them.

Assumes that titles and helps are ready to print: one sentence, no full stop, program text in backquotes.
Guarantees that a phase that recorded an error stops at `raise_if_errors`, and that a message renders the same
everywhere (`dfc.diagnostics.rendering` draws it).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import Enum

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.fixes import Edit, Fix, Help, text_of
from dfc.diagnostics.rendering import Drawing, Mark, draw
from dfc.diagnostics.source import NOWHERE, Span
from dfc_runtime.errors import DfcError

NOT_SUPPORTED_YET = "E1001"
EXIT_UNSUPPORTED = 3
EXIT_MISTAKE = 2


class Severity(Enum):
    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Label:
    """A marked piece of the author's text and a few words about it."""

    span: Span
    text: str = ""
    primary: bool = False


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message: a title that stands alone, marked places, and remedies as text to type.

    `fixes` are the helps that can be applied mechanically: their texts are among `helps`.
    """

    code: str
    title: str
    labels: tuple[Label, ...] = ()
    notes: tuple[str, ...] = ()
    helps: tuple[str, ...] = ()
    severity: Severity = Severity.ERROR
    fixes: tuple[Fix, ...] = ()

    @property
    def span(self) -> Span:
        """The place that is wrong; nowhere if the message is about no place."""
        return next((label.span for label in self.labels if label.primary), NOWHERE)

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR

    def with_helps(self, helps: Iterable[Help]) -> Diagnostic:
        """The same message with other remedies."""
        texts, fixes = _split(helps)
        return replace(self, helps=texts, fixes=fixes)

    @property
    def remedies(self) -> tuple[Help, ...]:
        """The helps, in their order, those that can be applied as such."""
        known = {fix.help: fix for fix in self.fixes}
        return tuple(known.get(text, text) for text in self.helps)

    def __str__(self) -> str:
        return render(self)


def error(
    code: str,
    title: str,
    span: Span,
    label: str = "",
    *,
    secondary: Iterable[tuple[Span, str]] = (),
    notes: Iterable[str] = (),
    helps: Iterable[Help] = (),
) -> Diagnostic:
    """A message about a mistake: `span` is what is wrong, `secondary` places say why."""
    texts, fixes = _split(helps)
    return Diagnostic(code, title, _labels(span, label, secondary), tuple(notes), texts, fixes=fixes)


def warning(
    code: str,
    title: str,
    span: Span,
    label: str = "",
    *,
    secondary: Iterable[tuple[Span, str]] = (),
    notes: Iterable[str] = (),
    helps: Iterable[Help] = (),
) -> Diagnostic:
    """Like `error`, for something that is allowed but probably not meant."""
    texts, fixes = _split(helps)
    return Diagnostic(code, title, _labels(span, label, secondary), tuple(notes), texts, Severity.WARNING, fixes)


def _split(helps: Iterable[Help]) -> tuple[tuple[str, ...], tuple[Fix, ...]]:
    entries = tuple(helps)
    return tuple(text_of(each) for each in entries), tuple(each for each in entries if isinstance(each, Fix))


def _labels(span: Span, text: str, secondary: Iterable[tuple[Span, str]]) -> tuple[Label, ...]:
    return (Label(span, text, primary=True), *(Label(secondary_span, words) for secondary_span, words in secondary))


def render(diagnostic: Diagnostic, colour: bool = False) -> str:
    """The message as lines of text, without a final line end."""
    return draw(
        Drawing(
            kind=diagnostic.severity.value,
            code=diagnostic.code,
            title=diagnostic.title,
            marks=tuple(Mark(label.span, label.text, label.primary) for label in diagnostic.labels),
            remarks=(
                *(("note", text) for text in diagnostic.notes),
                *(("help", text) for text in diagnostic.helps),
            ),
        ),
        colour,
    )


def to_json(diagnostic: Diagnostic) -> dict[str, object]:
    """The message as plain data, for editors and other programs."""
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity.value,
        "title": diagnostic.title,
        "labels": [
            {**_span_to_json(label.span), "text": label.text, "primary": label.primary}
            for label in diagnostic.labels
            if not label.span.is_nowhere
        ],
        "notes": list(diagnostic.notes),
        "helps": list(diagnostic.helps),
        "fixes": [{"help": fix.help, "edits": [_edit_to_json(edit) for edit in fix.edits]} for fix in diagnostic.fixes],
    }


def _edit_to_json(edit: Edit) -> dict[str, object]:
    return {**_span_to_json(edit.span), "text": edit.text}


def _span_to_json(span: Span) -> dict[str, object]:
    return {
        "file": span.name,
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
    }


class CompileError(DfcError):
    """A program has mistakes; `diagnostics` holds all messages, warnings included."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        errors = [diagnostic for diagnostic in self.diagnostics if diagnostic.is_error]
        first = errors[0] if errors else Diagnostic("E0000", "the program has mistakes")
        spans = [diagnostic.span for diagnostic in errors]
        super().__init__(first.title, code=first.code, spans=spans)
        unsupported = bool(errors) and all(each.code == NOT_SUPPORTED_YET for each in errors)
        self.exit_code = EXIT_UNSUPPORTED if unsupported else EXIT_MISTAKE

    def __str__(self) -> str:
        return "\n\n".join(render(diagnostic) for diagnostic in self.diagnostics)


class Diagnostics:
    """Collects messages while a phase goes on."""

    def __init__(self) -> None:
        self._collected: list[Diagnostic] = []

    def add(self, diagnostic: Diagnostic) -> None:
        self._collected.append(diagnostic)

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        self._collected.extend(diagnostics)

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self._collected)

    def __len__(self) -> int:
        return len(self._collected)

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        return tuple(diagnostic for diagnostic in self._collected if diagnostic.is_error)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        return tuple(diagnostic for diagnostic in self._collected if not diagnostic.is_error)

    @property
    def has_errors(self) -> bool:
        return any(diagnostic.is_error for diagnostic in self._collected)

    def raise_if_errors(self) -> None:
        """Ends the phase if anything in it went wrong."""
        if self.has_errors:
            raise CompileError(self._collected)
