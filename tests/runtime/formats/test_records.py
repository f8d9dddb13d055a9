"""Records by their annotations: what is written comes back, and what does not fit is a line that says where."""

from __future__ import annotations

from typing import Annotated

import pytest

from dfc_runtime.calls.formulas import Formula
from dfc_runtime.dataclasses import dataclass
from dfc_runtime.formats.fields import items
from dfc_runtime.formats.records import (
    Form,
    Key,
    OneOf,
    Range,
    formulas_in,
    read_record,
    read_row,
    write_record,
    write_row,
)

B = Formula(("$B",))


LETTERS = Form(lambda value, where: "".join(map(str, items(value, where))), list)


@dataclass(frozen=True, slots=True)
class Inner:
    size: Formula
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Outer:
    count: Annotated[int, Range(1, 9)]
    kind: Annotated[str, OneOf(("in", "out"))]
    is_open: Annotated[bool, Key("open")]
    inner: tuple[Inner, ...]
    pair: tuple[str, Formula]
    signed: tuple[Annotated[int, Range(-1)], ...]
    text: Annotated[str, LETTERS]
    last: Inner | None = None


FULL = Outer(3, "in", True, (Inner(B), Inner(Formula((4,)), 0.5)), ("n", B), (-1, 0), "ab", Inner(B, 2.0))
DATA = {
    "count": 3,
    "kind": "in",
    "open": True,
    "inner": [{"size": ["$B"]}, {"size": 4, "share": 0.5}],
    "pair": ["n", ["$B"]],
    "signed": [-1, 0],
    "text": ["a", "b"],
    "last": {"size": ["$B"], "share": 2.0},
}


def test_records_are_written_and_come_back() -> None:
    assert write_record(FULL) == DATA and list(write_record(FULL)) == list(DATA)
    assert read_record(Outer, DATA, "file") == FULL
    short = {key: value for key, value in DATA.items() if key != "last"}
    assert read_record(Outer, short, "file").last is None and write_record(read_record(Outer, short, "file")) == short


def test_rows_hold_fields_in_order() -> None:
    assert write_row(Inner(B)) == [["$B"]] and write_row(Inner(B, 3.0)) == [["$B"], 3.0]
    assert read_row(Inner, [["$B"], 3], "row") == Inner(B, 3.0)
    for values in ([], [1, 2.0, 3]):
        with pytest.raises(ValueError, match="row has"):
            read_row(Inner, values, "row")


def test_formulas_of_records_in_records_count() -> None:
    assert list(formulas_in(FULL)) == [B, Formula((4,)), B, B]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"count": 10}, "file.count is not a whole number from 1 to 9"),
        ({"count": True}, "file.count is not a whole number"),
        ({"kind": "on"}, "file.kind is on, not one of in, out"),
        ({"open": 1}, "file.open is neither true nor false"),
        ({"inner": [{"size": 1}, {}]}, r"file.inner\[1\] lacks size"),
        ({"inner": [{"size": 1, "share": float("nan")}]}, r"file.inner\[0\].share is no finite number"),
        ({"inner": [{"size": 1, "share": True}]}, r"file.inner\[0\].share is no finite number"),
        ({"pair": ["n"]}, "file.pair has 1 members, not 2"),
        ({"signed": [0, -2]}, r"file.signed\[1\] is not a whole number from -1"),
        ({"last": {"size": ["+"]}}, "file.last.size is not a formula"),
        ({"more": 1}, "file has an unknown key more"),
    ],
    ids=str,
)
def test_what_does_not_fit_names_its_place(change: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as refused:
        read_record(Outer, {**DATA, **change}, "file")
    assert "\n" not in str(refused.value)
