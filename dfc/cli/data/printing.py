"""What files of records hold, for people and as JSON. Names and texts of files are shown in one line, never obeyed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dfc.cli.data.summary import FeatureSummary, FileSummary, Range, Summary
from dfc.cli.tables import size, table
from dfc_runtime.errors import DfcError
from dfc_runtime.records.example import Values
from dfc_runtime.terminal import in_one_line

MOST_LISTED = 20
LONGEST_TEXT = 60
MOST_VALUES = 10


def file_lines(file: FileSummary) -> list[str]:
    """A file that could be read, and what is damaged in it."""
    lengths = file.lengths.pair
    each = f", {_span(file.lengths)} bytes each" if lengths else ""
    count = f"{file.records:,} record{'s' * (file.records != 1)}" if file.size else "no records: the file is empty"
    lines = [f"{in_one_line(file.path)}: {count}, {size(file.size)}{each}"]
    lines += _listed(file.damages, "damaged")
    return lines + _listed(file.strangers, "no example")


def _listed(errors: Sequence[DfcError], what: str) -> list[str]:
    lines = [f"  {what}: {error.message}" for error in errors[:MOST_LISTED]]
    more = len(errors) - MOST_LISTED
    return [*lines, f"  {what}: {more:,} more"] if more > 0 else lines


def feature_lines(summary: Summary) -> list[str]:
    """A table of the features of all files."""
    if not summary.features:
        return []
    rows = [_row(in_one_line(name), feature) for name, feature in sorted(summary.features.items())]
    return [f"{summary.examples:,} examples", *table(("feature", "type", "values", "between", "in"), rows, ("in",))]


def _row(name: str, feature: FeatureSummary) -> tuple[str, str, str, str, str]:
    kinds = " or ".join(sorted(feature.kinds)) or "none"
    between = f"{_span(feature.text_bytes)} bytes" if feature.text_bytes.pair else ""
    if feature.numbers.pair:
        between = f"{between}; " * bool(between) + _span(feature.numbers)
    return name, kinds, _span(feature.values), between + ", NaN" * feature.has_nan, f"{feature.examples:,}"


def _span(numbers: Range) -> str:
    least, most = numbers.least, numbers.most
    if least is None or most is None:
        return ""
    return _number(least) if least == most else f"{_number(least)} to {_number(most)}"


def _number(number: int | float) -> str:
    return str(number) if isinstance(number, int) else f"{number:.6g}"


def summary_json(summary: Summary) -> dict[str, object]:
    """The same as data."""
    return {
        "files": [_file_json(file) for file in summary.files],
        "records": sum(file.records for file in summary.files),
        "examples": summary.examples,
        "features": {
            name: {
                "types": sorted(feature.kinds),
                "examples": feature.examples,
                "values": feature.values.pair,
                "bytes": feature.text_bytes.pair,
                "range": _json_numbers(feature.numbers.pair),
            }
            for name, feature in sorted(summary.features.items())
        },
    }


def _file_json(file: FileSummary) -> dict[str, object]:
    return {
        "path": file.path,
        "error": None if file.error is None else {"code": file.error.code, "message": file.error.message},
        "bytes": file.size,
        "records": file.records,
        "record_bytes": file.lengths.pair,
        "damaged": [_error_json(each) for each in file.damages],
        "no_examples": [_error_json(each) for each in file.strangers],
    }


def _error_json(error: DfcError) -> dict[str, object]:
    return {
        "record": getattr(error, "record", -1),
        "offset": getattr(error, "offset", -1),
        "code": error.code,
        "message": error.message,
    }


def _json_numbers(numbers: Sequence[int | float] | None) -> list[int | float | str] | None:
    """JSON has no infinities: these are text."""
    if numbers is None:
        return None
    return [each if isinstance(each, int) or np.isfinite(each) else str(each) for each in numbers]


# -------------------------------------------------------------- one record --


def record_lines(features: Mapping[str, Values]) -> list[str]:
    """The features of one example with their values, long ones in part."""
    width = max((len(in_one_line(name)) for name in features), default=0)
    return [f"  {in_one_line(name):<{width}}  {_shown(values)}" for name, values in sorted(features.items())]


def _shown(values: Values) -> str:
    if isinstance(values, list):
        shown = [_text(each) for each in values[:MOST_VALUES]]
        kind = "bytes" if values else "none"
    else:
        shown = [_number(each) for each in values[:MOST_VALUES].tolist()]
        kind = "float" if values.dtype == np.float32 else "int64"
    more = f", .. ({len(values):,} values)" if len(values) > MOST_VALUES else ""
    return f"{kind}  {', '.join(shown)}{more}"


def _text(value: bytes) -> str:
    """A text in quotes, or other bytes as hexadecimal digits."""
    try:
        text = value.decode()
        is_text = all(each.isprintable() or each in "\t\n" for each in text)
    except UnicodeDecodeError:
        text, is_text = "", False
    if not is_text:
        part = value[: LONGEST_TEXT // 2].hex()
        return f"0x{part}{'..' * (len(value) > LONGEST_TEXT // 2)} ({len(value):,} bytes)"
    part = in_one_line(text[:LONGEST_TEXT])
    return f'"{part}"' + f".. ({len(value):,} bytes)" * (len(text) > LONGEST_TEXT)


def record_json(features: Mapping[str, Values]) -> dict[str, object]:
    """One example as data: bytes as hexadecimal digits."""
    result: dict[str, object] = {}
    for name, values in sorted(features.items()):
        if isinstance(values, list):
            result[name] = {"type": "bytes" if values else "", "values": [each.hex() for each in values]}
        elif values.dtype == np.float32:
            result[name] = {"type": "float", "values": _json_numbers(values.tolist())}
        else:
            result[name] = {"type": "int64", "values": values.tolist()}
    return result
