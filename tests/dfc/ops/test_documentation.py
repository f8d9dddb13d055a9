"""The table as data: what `dfc ops` and messages show."""

from dfc.ops import registry
from dfc.ops.documentation import call_form, document, documents


def test_every_op_is_listed_once_family_by_family() -> None:
    rows = documents()
    assert sorted(row.name for row in rows) == [r.name for r in registry.all_records()]
    families = [row.family for row in rows]
    assert families == sorted(families)


def test_calls_are_shown_as_they_are_written() -> None:
    forms = {
        name: call_form(registry.record(name)) for name in ("softmax", "add", "neg", "not", "pad", "concat", "matmul")
    }
    assert forms == {
        "softmax": "softmax(x, const axis: int = -1)",
        "add": "a + b",
        "neg": "-x",
        "not": "not x",
        "pad": "pad(x, const widths: widths, fill = 0)",
        "concat": "concat(parts, const axis: int = 0)",
        "matmul": "a @ b",
    }


def test_a_document_says_why_there_is_no_gradient() -> None:
    row = document(registry.record("argmax"))
    assert not row.has_gradient
    assert row.gradient_note == "argmax returns whole numbers"
    assert row.constraints and row.parameters[1] == ("axis", "The axis; all in row-major order if absent.")
