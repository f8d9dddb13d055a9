"""Rows of files in groups: at random, in the order that is asked for, each group read once where it is kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dfc_runtime.errors import LimitError, RecordError
from dfc_runtime.records.columnar import groups
from dfc_runtime.records.columnar.groups import GroupedFiles
from dfc_runtime.records.columnar.ipc import ArrowFiles
from dfc_runtime.records.columnar.parquet import ParquetFiles
from tests.support.columnar_files import LAYOUT, Writer, record, some_table, write_file, write_parquet, write_stream

FORMS = [(ParquetFiles, write_parquet), (ArrowFiles, write_file), (ArrowFiles, write_stream)]


def records(files: GroupedFiles, numbers: np.ndarray) -> list[bytes]:
    frames = files.read(numbers).frames
    return [frames.record(row) for row in range(len(frames))]


@pytest.mark.parametrize(("form", "write"), FORMS)
@pytest.mark.parametrize("kept", [0, 1 << 28])
def test_rows_are_read_at_random(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: type[GroupedFiles], write: Writer, kept: int
) -> None:
    monkeypatch.setattr(groups, "KEPT_BYTES", kept)
    begins = [0, 23, 23, 24]
    for number, (begin, end) in enumerate(zip(begins, [*begins[1:], 40], strict=True)):
        write(tmp_path / f"{number}", some_table(end - begin, begin), 5)
    orders = (np.arange(40), np.random.default_rng(1).permutation(40), np.array([39, 3, 3, 24, 23, 0]))
    with form([tmp_path / f"{number}" for number in range(4)], "fail", LAYOUT) as files:
        assert files.counts == (23, 0, 1, 16)
        for numbers in orders:
            assert records(files, numbers) == [record(number) for number in numbers]


@pytest.mark.parametrize(("form", "write"), FORMS)
def test_a_group_that_is_kept_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: type[GroupedFiles], write: Writer
) -> None:
    asked: list[int] = []
    read = form.table
    monkeypatch.setattr(
        form, "table", lambda files, file, group, columns: asked.append(group) or read(files, file, group, columns)
    )
    write(tmp_path / "a", some_table(20), 8)
    with form([tmp_path / "a"], "fail", LAYOUT) as files:
        for begin in range(0, 20, 4):
            records(files, np.arange(begin, begin + 4))
        assert asked == [0, 1, 2]
        monkeypatch.setattr(groups, "KEPT_BYTES", 0)
        for number in (19, 18, 0, 1, 19):
            records(files, np.array([number]))
        assert asked == [0, 1, 2, 0, 2]


@pytest.mark.parametrize(("form", "write"), FORMS)
def test_other_files_are_refused_with_what_is_wrong(tmp_path: Path, form: type[GroupedFiles], write: Writer) -> None:
    path = tmp_path / "a"
    write(path, some_table(3).rename_columns(["lable", "unused", "x", "name", "box"]), 3)
    with pytest.raises(RecordError, match=r"a holds no columns .*: it has no column label; did you mean lable\?; its"):
        form([path], "fail", LAYOUT)
    write(path, some_table(3).rename_columns(["label", "label", "x", "name", "box"]), 3)
    with pytest.raises(RecordError, match="it has 2 columns label; its columns: label, label, x"):
        form([path], "fail", LAYOUT)
    write(path, some_table(3).set_column(0, "label", [[0.5, 1.5, 2.5]]), 3)
    with pytest.raises(RecordError, match="label is double, and i64 is wanted: declare label = f64, and convert") as it:
        form([path], "fail", LAYOUT)
    assert it.value.code == "E0916"
    for data, reason in (
        (b"", "it is empty"),
        (b"a,b\n1,2\n", "it does not begin as"),
        (b"\x89PNG\r\n", "a PNG image"),
    ):
        path.write_bytes(data)
        with pytest.raises(RecordError, match=rf"a holds no columns that are wanted: .*{reason}"):
            form([path], "skip", LAYOUT)


@pytest.mark.parametrize(("form", "write"), FORMS)
def test_a_null_is_damage_that_names_row_group_and_column(
    tmp_path: Path, form: type[GroupedFiles], write: Writer
) -> None:
    table = some_table(10)
    write(tmp_path / "a", table.set_column(0, "label", [[n if n % 6 < 5 else None for n in range(10)]]), 4)
    with form([tmp_path / "a"], "fail", LAYOUT) as files:
        assert records(files, np.arange(5)) == [record(number) for number in range(5)]
        with pytest.raises(RecordError, match=r"a: row 5, in \w+ \w+ 1: the column label is null") as caught:
            files.read(np.arange(4, 8))
        assert (caught.value.code, caught.value.record) == ("E0914", 5)
        assert files.prefetch(np.arange(4, 8)).addresses.tolist()[1] == 0
    with form([tmp_path / "a"], "skip", LAYOUT) as files:
        batch = files.read(np.arange(4, 8))
        assert (batch.numbers.tolist(), len(batch.skipped)) == ([4, 6, 7], 1)


@pytest.mark.parametrize(("form", "write"), FORMS)
def test_a_file_that_changes_while_it_is_open_is_noticed(
    tmp_path: Path, form: type[GroupedFiles], write: Writer
) -> None:
    write(tmp_path / "a", some_table(10), 4)
    with form([tmp_path / "a"], "fail", LAYOUT) as files:
        write(tmp_path / "a", some_table(11), 4)
        with pytest.raises(RecordError, match="a has changed since it was opened"):
            files.read(np.arange(3))


@pytest.mark.parametrize(("form", "write"), FORMS)
def test_a_group_that_is_larger_than_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: type[GroupedFiles], write: Writer
) -> None:
    write(tmp_path / "a", some_table(1000), 1000)
    monkeypatch.setenv("DFC_MEMORY_LIMIT", "4K")
    with form([tmp_path / "a"], "fail", LAYOUT) as files, pytest.raises(LimitError, match=r"reading \w+ \w+ 0 of"):
        files.read(np.arange(3))
