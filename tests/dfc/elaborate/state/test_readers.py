"""Readers of records: their declaration, and what programs do with them."""

from __future__ import annotations

import pytest

from dfc.elaborate.state.readers import FUNCTIONS
from dfc.ir import walk
from dfc.ir.graph import Node, ResourceKind
from dfc.ir.types import TensorType
from dfc.ops.effects.records import POSITION, ExampleAttributes, ImageAttributes, RecordAttributes
from dfc.ops.spelling import show
from dfc_runtime.records.formats import FORMATS
from tests.support.building import codes, graph_of, messages

FILES = 'var files = record_files("a/*.rec", passes = 3, shuffle = true, seed = 7, longest = 1_000)\n'


def entry(*lines: str, result: str = "", files: str = FILES) -> str:
    body = "".join(f"  {line}\n" for line in lines)
    return f"{files}entry step(){result} {{\n{body}}}\n"


def nodes(text: str) -> list[Node]:
    return [node for node in walk.nodes(graph_of(text).entries["step"].block) if node.op != "constant"]


def test_a_reader_is_a_saved_variable_with_its_position() -> None:
    graph = graph_of(entry("let record = files.next()"))
    files = graph.resources["files"]
    assert (files.kind, files.type, files.saved) == (ResourceKind.VARIABLE, POSITION, True)
    assert (
        not graph_of(entry("let r = files.next()", files=FILES.rstrip() + " with saved = false\n"))
        .resources["files"]
        .saved
    )


def test_the_next_record_moves_the_position() -> None:
    made = nodes(entry("let record = files.next()"))
    assert [node.op for node in made] == ["read", "record_next", "assign"]
    assert made[1].attributes == RecordAttributes("files", "a/*.rec", 3, "files", 7, "fail", 0, 1, 1000)
    assert [str(value.type) for value in made[1].results] == ["u8[1000]", "i64[3]", "i64[2]", "token(@records)"]


def test_fields_of_an_example_are_strings_and_tensors() -> None:
    lines = (
        "let record = files.next()",
        "let fields = parse_example(record, (image = string, label = i64, weights = f32[3]))",
        "let [N] words: u32[N] = decode_raw(fields.image, u32)",
        "return sum(words as i64) + fields.label, fields.weights",
    )
    text = entry(*lines, result=" -> (a: i64, b: f32[3])")
    parsed = next(node for node in nodes(text) if node.op == "parse_example")
    assert isinstance(parsed.attributes, ExampleAttributes)
    assert parsed.attributes.kinds == ("string", "numbers", "numbers")
    assert [str(value.type) for value in parsed.results[:-1]] == ["i64[3]", "i64", "f32[3]"]
    (decoded,) = (node for node in nodes(text) if node.op == "decode_raw")
    assert isinstance(decoded.result.type, TensorType)
    assert graph_of(show(graph_of(text)).removeprefix("dfg 1")).entries.keys() == {"init", "step"}


def test_an_image_has_the_size_that_is_asked_for_and_a_flag_where_it_may_be_damaged() -> None:
    record = "let record = files.next()"
    text = entry(record, "return decode_image(record, 4, width = 6)", result=" -> u8[4, 6, 3]")
    (image,) = (node for node in nodes(text) if node.op == "decode_image")
    assert image.attributes == ImageAttributes("files", 4, 6)
    lines = (record, 'let image = decode_image(record, 4, 6, on_error = "flag")', "return image.intact, image.pixels")
    (image,) = (node for node in nodes(entry(*lines, result=" -> (a: bool, b: u8[4, 6, 3])")) if "image" in node.op)
    assert [str(value.type) for value in image.results[:-1]] == ["u8[4, 6, 3]", "bool"]


def test_an_image_may_have_the_sizes_of_a_block() -> None:
    block = """
block Data[H, W] {
  var files = record_files("a.rec")
  proc get() -> u8[H, W, 3] {
    let record = files.next()
    return decode_image(record, H, W)
  }
}
var three = Data[3, 5]()
entry next() -> u8[3, 5, 3] { return three.get() }
"""
    (image,) = (node for node in walk.nodes(graph_of(block).entries["next"].block) if node.op == "decode_image")
    assert image.attributes == ImageAttributes("three.files", 3, 5)


def test_a_size_that_was_found_out_may_be_compared_with_a_known_one() -> None:
    lines = (
        "let record = files.next()",
        "let [N] bytes: u8[N] = decode_raw(record, u8)",
        "if N == 4 { total += bytes }",
    )
    text = "var total: u8[4] = 0\n" + entry(*lines)
    assert codes(text) == []
    assert codes(text.replace("N == 4", "N == 5")) == ["E0305"]


def test_each_format_has_one_function() -> None:
    assert {form.function: name for name, form in FORMATS.items()} == FUNCTIONS


MISTAKES = {
    "record_files()": "E0204",
    "record_files(3)": "E0315",
    'record_files("")': "E0315",
    'record_files("a", passes = 0)': "E0315",
    'record_files("a", passes = 1.5)': "E0315",
    'record_files("a", shuffle = "names")': "E0315",
    'record_files("a", shuffle = 1.0)': "E0315",
    'record_files("a", seed = true)': "E0315",
    'record_files("a", on_error = "ignore")': "E0315",
    'record_files("a", part = 2, parts = 2)': "E0315",
    'record_files("a", longest = 0)': "E0315",
    'record_files("a", capacity = 3)': "E0204",
    'line_files("a", longest = 0)': "E0315",
    'line_files("a", head = true)': "E0204",
    'csv_files("a")': "E0204",
    'csv_files("a", (i64, f32))': "E0316",
    'csv_files("a", (x = bool))': "E0302",
    'csv_files("a", (x = 3))': "E0316",
    'csv_files("a", (x = i64), head = 1)': "E0315",
    'csv_files("a", (x = i64), separator = "ab")': "E0315",
    'csv_files("a", (x = i64[0], y = f32[0, 3]))': "E0315",
    'csv_files("a", (x = i64[4_000_000_000]))': "E0315",
    'array_files("a", (x = u8[1_000_000_000], y = u8[1_000_000_000]))': "E0315",
    'array_files("a", (x = string))': "E0316",
    'tar_files("a", (x = f32[3]))': "E0302",
    'array_files("a", (x = i64), longest = 3)': "E0204",
    'parquet_files("a")': "E0204",
    'parquet_files("a", (x = bf16))': "E0302",
    'arrow_files("a", (x = 3))': "E0316",
    'arrow_files("a", (x = i64), head = true)': "E0204",
    'image_files("a", fields = (x = i64))': "E0204",
    'image_files("a", (x = string))': "E0204",
    'record_files("a", 2, (x = string))': "E0204",
}


@pytest.mark.parametrize("made", MISTAKES)
def test_a_declaration_that_means_nothing_is_a_mistake(made: str) -> None:
    assert codes(entry("let record = files.next()", files=f"var files = {made}\n")) == [MISTAKES[made]]


USES = {
    "let record = files.first()": "E0203",
    "let record = files.next(3)": "E0204",
    "let x = files.skipped() + files.next()": "E0403",
    "files := 3": "E0406",
    'let x = record_files("b")': "E0407",
    'let x = line_files("b")': "E0407",
    "let record = files.next() let x = record + 1": "E0316",
    "let record = files.next() let fields = parse_example(record, (a = f64))": "E0302",
    "let record = files.next() let fields = parse_example(record, (a = 3))": "E0316",
    "let record = files.next() let fields = parse_example(record, 3)": "E0316",
    "let record = files.next() let fields = parse_example(record, (i64, string))": "E0316",
    "let x = parse_example(3, (a = i64))": "E0316",
    "let record = files.next() let x = decode_raw(record, bool)": "E0315",
    "let record = files.next() let x = decode_raw(record, string)": "E0315",
    "let x = decode_raw(iota(i64[3]), u8)": "E0316",
    "let record = files.next() let x = decode_image(record, 3)": "E0204",
    "let record = files.next() let x = decode_image(record, 0, 3)": "E0315",
    "let record = files.next() let x = decode_image(record, 3, 16_385)": "E0315",
    "let record = files.next() let x = decode_image(record, 3, 3.0)": "E0315",
    "let record = files.next() let x = decode_image(record, 3, 3, on_error = skip)": "E0201",
    'let record = files.next() let x = decode_image(record, 3, 3, on_error = "skip")': "E0315",
    "let x = decode_image(iota(i64[3]), 3, 3)": "E0316",
}


@pytest.mark.parametrize("line", USES)
def test_a_use_that_means_nothing_is_a_mistake(line: str) -> None:
    assert codes(entry(*line.replace(" let ", "\n  let ").split("\n"))) == [USES[line]]


def test_a_function_cannot_read_and_a_readonly_entry_neither() -> None:
    body = "{\n  let record = files.next()\n  return files.position()\n}\n"
    assert codes(f"{FILES}fn f() -> i64 {body}entry g() -> i64 {{ return f() }}") == ["E0401"]
    assert codes(f"{FILES}readonly entry g() -> i64 {body}") == ["E0402"]


def test_an_entry_may_only_ask_where_a_reader_is() -> None:
    assert codes(f"{FILES}entry at() -> i64 {{ return files.position() }}") == []


def test_a_reader_of_rows_gives_their_fields() -> None:
    files = 'var files = csv_files("a.csv", (label = i64, name = string, image = u8[2, 3]), longest = 100)\n'
    made = nodes(entry("let row = files.next()", "return row.image", result=" -> u8[2, 3]", files=files))
    assert [node.op for node in made] == ["read", "record_next", "assign", "parse_example"]
    assert [str(value.type) for value in made[1].results[:2]] == [f"u8[{8 + 16 + 6 + 100}]", "i64[3]"]
    assert [str(value.type) for value in made[3].results[:-1]] == ["i64", "i64[3]", "u8[2, 3]"]
    fixed = entry("let row = files.next()", files='var files = csv_files("a.csv", (x = f64, y = u8[3]))\n')
    assert str(nodes(fixed)[1].results[0].type) == "u8[11]"


def test_a_reader_of_images_gives_bytes_and_a_label() -> None:
    files = 'var files = image_files("*/*.jpg", longest = 100)\n'
    made = nodes(entry("let next = files.next()", "return next.label", result=" -> i64", files=files))
    assert [str(value.type) for value in made[1].results[:1]] == [f"u8[{16 + 8 + 100}]"]
    assert [str(value.type) for value in made[3].results[:-1]] == ["i64[3]", "i64"]


def test_fields_may_have_the_sizes_of_a_block() -> None:
    block = """
block Data[N] {
  var rows = csv_files("a.csv", (x = i64[N], y = f32))
  proc get() -> i64[N] {
    let row = rows.next()
    return row.x
  }
}
var three = Data[3]()
entry next() -> i64[3] { return three.get() }
"""
    reads = [node for node in walk.nodes(graph_of(block).entries["next"].block) if node.op == "record_next"]
    assert [str(node.results[0].type) for node in reads] == ["u8[28]"]


TWO = """
var files = record_files("a")
queue q: i64 = fifo(capacity = 3)
runner one { let record = files.next()
  q.put(files.position()) }
OTHER { let record = files.next()
  q.put(files.position()) }
entry take() -> i64 { return q.take() }
"""


@pytest.mark.parametrize("other", ["runner two", "entry two()"])
def test_two_who_read_at_the_same_time_are_refused(other: str) -> None:
    text = messages(TWO.replace("OTHER", other))
    assert "error[E0706]: `files` is read by `one` and by `two`, at the same time" in text
    assert "part = 0, parts = 2" in text


def test_entries_may_share_a_reader_unless_they_are_concurrent() -> None:
    body = "() { let record = files.next() }\n"
    assert codes(f"{FILES}entry a{body}entry b{body}") == []
    concurrent = "() with concurrent = true { let record = files.next() }\n"
    assert codes(f"{FILES}entry a{concurrent}") == ["E0706"]


@pytest.mark.parametrize(
    ("call", "such"),
    [
        ("image_files(3)", "data/*/*.jpg"),
        ('record_files("x", on_error = 3)', "fail"),
        ('csv_files("x", (a = f32), separator = 3)', ";"),
    ],
)
def test_an_argument_that_is_no_text_is_answered_by_one_that_would_do(call: str, such: str) -> None:
    assert f'such as `"{such}"`' in messages(f"var files = {call}\n")
