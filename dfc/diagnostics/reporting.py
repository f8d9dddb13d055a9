"""Messages for other programs: JSON, SARIF 2.1.0 and workflow commands of GitHub.

Assumes diagnostics as `dfc.diagnostics.diagnostic` makes them. Guarantees ASCII text, that every message is in every
form with its code, title and place, and that whatever stands in a program cannot end a workflow command early.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from dfc.diagnostics.diagnostic import Diagnostic, Label, to_json
from dfc.diagnostics.fixes import Fix
from dfc.diagnostics.source import Span
from dfc.version import __version__

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def as_json(diagnostics: Sequence[Diagnostic]) -> str:
    """One object: how many there are of each kind, and all messages."""
    errors = sum(each.is_error for each in diagnostics)
    counts = {"errors": errors, "warnings": len(diagnostics) - errors}
    return json.dumps({**counts, "diagnostics": [to_json(each) for each in diagnostics]}, indent=2)


def as_sarif(diagnostics: Sequence[Diagnostic]) -> str:
    """A log of one run, as code-scanning services take it."""
    rules = [{"id": code} for code in sorted({each.code for each in diagnostics})]
    driver: dict[str, object] = {"name": "dfc", "version": __version__, "rules": rules}
    run: dict[str, object] = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(each) for each in diagnostics],
    }
    return json.dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def as_github(diagnostics: Sequence[Diagnostic]) -> str:
    """One workflow command a line: the message appears beside the line of a change."""
    return "\n".join(_github(each) for each in diagnostics)


FORMATS: dict[str, Callable[[Sequence[Diagnostic]], str]] = {
    "json": as_json,
    "sarif": as_sarif,
    "github": as_github,
}


def _remarks(diagnostic: Diagnostic) -> str:
    """Title, what is said of the place, notes and helps."""
    label = next((each.text for each in diagnostic.labels if each.primary and each.text), "")
    lines = [diagnostic.title, *([label] if label else [])]
    lines += [f"note: {text}" for text in diagnostic.notes]
    lines += [f"help: {text}" for text in diagnostic.helps]
    return "\n".join(lines)


def _sarif_result(diagnostic: Diagnostic) -> dict[str, object]:
    result: dict[str, object] = {
        "ruleId": diagnostic.code,
        "level": diagnostic.severity.value,
        "message": {"text": _remarks(diagnostic)},
    }
    located = [each for each in diagnostic.labels if not each.span.is_nowhere]
    result["locations"] = [_sarif_location(each) for each in located if each.primary]
    result["relatedLocations"] = [_sarif_location(each) for each in located if not each.primary]
    result["fixes"] = [_sarif_fix(fix) for fix in diagnostic.fixes]
    return {key: value for key, value in result.items() if value != []}


def _sarif_fix(fix: Fix) -> dict[str, object]:
    """The edits of a fix all lie in one file."""
    replacements = [
        {"deletedRegion": _sarif_region(edit.span), "insertedContent": {"text": edit.text}} for edit in fix.edits
    ]
    change = {"artifactLocation": {"uri": _uri(fix.edits[0].span.name)}, "replacements": replacements}
    return {"description": {"text": fix.help}, "artifactChanges": [change]}


def _sarif_region(span: Span) -> dict[str, object]:
    return {
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": span.end_line,
        "endColumn": span.end_column,
    }


def _sarif_location(label: Label) -> dict[str, object]:
    span = label.span
    region = _sarif_region(span)
    location: dict[str, object] = {"physicalLocation": {"artifactLocation": {"uri": _uri(span.name)}, "region": region}}
    if label.text:
        location["message"] = {"text": label.text}
    return location


def _uri(name: str) -> str:
    """A path as a relative reference: only what may stand in one stays as it is."""
    kept = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-~")
    return "".join(c if c in kept else "".join(f"%{byte:02X}" for byte in _bytes(c)) for c in name)


def _bytes(char: str) -> bytes:
    """As in names of files: bytes that spell no character are halves of one here."""
    return char.encode(errors="surrogateescape" if "\udc80" <= char <= "\udcff" else "surrogatepass")


def _github(diagnostic: Diagnostic) -> str:
    span = diagnostic.span
    known: list[tuple[str, str]] = [("title", diagnostic.code)]
    if not span.is_nowhere:
        known = [*_github_location(span), *known]
    properties = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in known)
    return f"::{diagnostic.severity.value} {properties}::{_escaped(_remarks(diagnostic))}"


def _github_location(span: Span) -> list[tuple[str, str]]:
    location = [("file", span.name), ("line", str(span.line)), ("endLine", str(span.end_line))]
    if span.line == span.end_line:  # columns of different lines are no range there
        location += [("col", str(span.column)), ("endColumn", str(span.end_column))]
    return location


def _escaped(text: str, more: str = "") -> str:
    """With the characters that end a command, and control characters, as percent codes."""
    return "".join(f"%{ord(c):02X}" if c in "%\r\n" or c in more else c if c >= " " else "?" for c in text)
