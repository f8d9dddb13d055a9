"""The table is complete: every record has what the documentation, the passes and the tests ask of it."""

import keyword
import re
from pathlib import Path

import numpy as np
import pytest

from dfc.diagnostics.source import SourceFile
from dfc.ir.attributes import Attributes
from dfc.ir.dtypes import C64, DTypeVariable
from dfc.ir.types import TensorType
from dfc.ops import attributes as vocabulary
from dfc.ops import registry
from dfc.ops.record import Effect, OpError, OpRecord
from dfc.syntax.reader.parser import parse
from dfc.transforms.scalar.rules import RULES
from tests.support.one_test_an_op import one_test_an_op
from tests.support.one_test_for_all import one_test_for_all
from tests.support.ops import evaluate_sample, samples, types_of

RECORDS = registry.all_records()
REGIONS = {"if", "while", "for"}
HOST = {"checkpoint_save", "checkpoint_restore", "send", "recv", "contribute", "combined", "own_rows", "send_rows"}
HOST |= {"route_ids", "routed_ids", "route_rows", "routed_rows", "answer_rows", "answered_rows"}
HOST |= {"shard_place", "shard_rows", "shard_positions"}
HOST |= {"summary_scalar", "summary_histogram", "debug_print", "clock"}
HOST |= {"queue_put", "queue_take", "queue_take_up_to", "queue_size", "queue_close"}
HOST |= {"mutex_acquire", "mutex_release"}
HOST |= {"record_next", "parse_example", "decode_raw", "decode_image"}
ALWAYS_VALID = {"dim", "read"}
every_record = one_test_for_all(RECORDS)


def _words_of_vocabulary() -> set[str]:
    """The op names that the vocabulary's own documentation lists."""
    text = vocabulary.__doc__ or ""
    body = text[text.index("Sources ") :]
    return set(re.findall(r"[a-z_]+\d*[a-z]*\d*", body))


def test_every_op_is_in_the_vocabulary_and_the_table_holds_the_whole_set() -> None:
    names = {record.name for record in RECORDS}
    assert names <= _words_of_vocabulary()
    assert len(names) == 192


@every_record
def test_a_record_documents_itself(record: OpRecord) -> None:
    assert record.summary.endswith(".")
    assert record.family
    assert record.attributes is not Attributes
    assert record.gradient is not None or record.no_gradient
    assert not any(text.startswith("(") for text in record.constraints)
    assert all(p.kind in ("tensor", "tensors", "const", "type") for p in record.parameters)
    if record.in_prelude:
        assert re.fullmatch("[a-z][a-z0-9_]*", record.name) and not keyword.iskeyword(record.name)


@every_record
def test_a_signature_is_a_declaration_of_the_language(record: OpRecord) -> None:
    body = " {}" if "->" not in record.signature else " = nothing"
    assert len(parse(SourceFile("op.dfg", record.signature + body + "\n")).items) == 1
    name = re.split(r"\W+", record.signature)[1]
    assert name in (record.name, f"{record.name}_", record.name.removeprefix("checkpoint_"))


@every_record
def test_a_record_has_samples_of_each_kind(record: OpRecord) -> None:
    if record.name in REGIONS | HOST:
        assert record.effect in (Effect.REGION, Effect.HOST)
        return
    kinds = [sample.kind for sample in record.samples()]
    assert kinds.count("regular") >= 3
    assert kinds.count("edge") >= 1
    assert kinds.count("invalid") >= (0 if record.name in ALWAYS_VALID else 1)


@every_record
def test_valid_samples_have_the_types_that_infer_says(record: OpRecord) -> None:
    for sample in record.samples():
        if sample.kind == "invalid":
            continue
        wanted = record.infer(types_of(sample), sample.attributes)
        if record.family == "gradient":
            continue
        before = [x.copy() for x in sample.operands]
        results = evaluate_sample(record, sample)
        assert [r.shape for r in results] == [tuple(d.constant for d in t.shape) for t in wanted]
        assert [r.dtype for r in results] == [t.machine.numpy for t in wanted]
        for x, old in zip(sample.operands, before, strict=True):
            np.testing.assert_array_equal(x, old, "evaluate changed its operand")


@one_test_an_op(samples("invalid"))
def test_invalid_samples_are_refused_with_code_and_words(record: OpRecord, sample: object) -> None:
    operands = [
        TensorType(C64, ()) if x.dtype == np.complex64 else t
        for x, t in zip(sample.operands, types_of(sample), strict=True)
    ]
    with pytest.raises(OpError) as refused:
        record.infer(operands, sample.attributes)
    assert re.fullmatch("E(03|05|10)[0-9]{2}", refused.value.code)
    assert refused.value.title and not refused.value.title.endswith(".")


@every_record
def test_complex_numbers_are_refused_as_not_supported_yet(record: OpRecord) -> None:
    tensors = [p for p in record.parameters if p.kind == "tensor"]
    if record.attributes.__name__ != "NoAttributes" or not tensors or record.name in REGIONS | {"grad", "jacobian"}:
        return
    with pytest.raises(OpError) as refused:
        record.infer([TensorType(C64)] * len(tensors), record.attributes())
    assert refused.value.code in ("E1001", "E0302")
    assert refused.value.code == "E1001" or "bool" in record.signature


@pytest.mark.parametrize("name", ["exp", "add", "matmul", "softmax", "sum", "cross_entropy", "maximum", "less"])
def test_generic_element_types_pass_where_their_class_does(name: str) -> None:
    record = registry.record(name)
    sample = next(s for s in record.samples() if s.kind == "regular")
    first = sample.operands[0].dtype
    variable = DTypeVariable("T", "float")
    pairs = zip(sample.operands, types_of(sample), strict=True)
    types = [t.with_dtype(variable) if x.dtype == first else t for x, t in pairs]
    (result,) = record.infer(types, sample.attributes)
    assert name == "less" or result.dtype == variable


def test_a_generic_integer_type_is_no_float() -> None:
    with pytest.raises(OpError):
        registry.record("exp").infer([TensorType(DTypeVariable("T", "number"))], registry.record("exp").attributes())


def test_records_know_no_pass_and_no_target() -> None:
    folder = Path(registry.__file__).parent
    text = "\n".join(path.read_text() for path in folder.rglob("*.py"))
    assert not any(
        room in text
        for room in ("dfc.transforms", "dfc.lower", "dfc.distribute", "dfc.bundle", "dfc_target_", "dfc_driver_")
    )


def test_every_identity_is_one_a_pass_can_use() -> None:
    usable = {rule.identity for rule in RULES} | {"commutative"}
    assert {identity for record in RECORDS for identity in record.identities} <= usable
