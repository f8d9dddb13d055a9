"""What ops say when operands do not fit: code, place, words, remedy."""

import pytest

from dfc.ir.attributes import Attributes, NoAttributes
from dfc.ir.dims import Symbol, dim
from dfc.ir.dtypes import BOOL, F16, F32, F64, I32, I64, DTypeVariable
from dfc.ir.types import TensorType, tensor
from dfc.ops import registry
from dfc.ops.attributes import ArgAttributes, AxisAttributes, ReduceAttributes, ShapeAttributes
from dfc.ops.record import OPERATOR, OpError

B = Symbol("B")


def _refusal(name: str, *types: TensorType, attributes: Attributes | None = None) -> OpError:
    with pytest.raises(OpError) as refused:
        registry.record(name).infer(types, attributes or NoAttributes())
    return refused.value


def test_shapes_that_do_not_multiply_but_do_the_other_way_round() -> None:
    error = _refusal("matmul", tensor(F32, 784, 128), tensor(F32, B, 784)).filled("@", ["w1", "images"])
    assert (error.code, error.title, error.blame) == ("E0301", "these shapes do not multiply", OPERATOR)
    assert error.label == "128 against B"
    assert error.operand_labels == {0: "f32[784, 128]", 1: "f32[B, 784]"}
    assert error.notes == ("in `a @ b`, the last axis of `a` must equal the first matrix axis of `b`",)
    assert error.helps == ("`images @ w1` does multiply, and gives f32[B, 128]",)


def test_two_element_types_in_one_operation() -> None:
    error = _refusal("equal", tensor(I32, B), tensor(I64, B)).filled("==", ["digits", "labels"])
    assert (error.code, error.title, error.label) == ("E0302", "`==` needs two operands of one type", "i32 against i64")
    assert error.operand_labels == {0: "i32[B]", 1: "i64[B]"}
    assert error.notes == ("nothing is converted silently in .dfg, not even to a wider type",)
    assert error.helps == ("write `digits as i64 == labels`",)


@pytest.mark.parametrize(
    ("a", "b", "help_"),
    [
        (F64, F32, "maximum(x, y as f64)"),
        (F16, I64, "maximum(x, y as f16)"),
        (I32, DTypeVariable("T", "int"), "maximum(x as T, y)"),
    ],
)
def test_the_remedy_converts_to_the_wider_type(a: object, b: object, help_: str) -> None:
    error = _refusal("maximum", TensorType(a), TensorType(b)).filled("maximum", ["x", "y"])
    assert error.helps == (f"write `{help_}`",)


def test_dividing_integers() -> None:
    error = _refusal("div", tensor(I32), tensor(I32)).filled("/", ["n", "k"])
    assert (error.code, error.title, error.blame) == ("E0303", "`/` is for floating-point numbers", OPERATOR)
    assert error.helps == ("write `n // k` for the whole part", "write `n as f32 / k as f32` for the exact quotient")
    literal = _refusal("div", tensor(I32), tensor(I32)).filled("/", ["n", "2"])
    assert literal.helps[1] == "write `n as f32 / 2.0` for the exact quotient"


def test_a_reshape_that_changes_the_number_of_elements() -> None:
    error = _refusal("reshape", tensor(F32, B, 7, 7, 64), attributes=ShapeAttributes((dim(B), dim(3072))))
    assert (error.code, error.blame, error.label) == ("E0306", "shape", "asks for B * 3072 elements")
    assert error.operand_labels == {0: "f32[B, 7, 7, 64] has B * 3136"}
    assert error.helps == ("the last axis should be 7 * 7 * 64 = 3136",)


def test_a_function_of_floats_on_whole_numbers() -> None:
    error = _refusal("exp", tensor(I32, 3)).filled("exp", ["n"])
    assert (error.code, error.title, error.blame) == ("E0302", "`exp` needs floating-point numbers", 0)
    assert error.helps == ("write `n as f32`",)


def test_a_missing_axis() -> None:
    error = _refusal("sum", tensor(F32, 2, 3), attributes=ReduceAttributes((2,)))
    assert (error.code, error.blame) == ("E0312", "axis")
    assert error.helps == ("axes count from 0 to 1, or from -1 back to -2",)
    assert _refusal("softmax", tensor(F32), attributes=AxisAttributes(0)).title == "a single number has no axes"


def test_an_assertion_about_many() -> None:
    error = _refusal("assert", tensor(BOOL, 3))
    assert error.code == "E0308"


def test_a_gradient_of_many() -> None:
    error = _refusal("grad", tensor(F32, B), tensor(F32, 3)).filled("grad", ["loss", "w1"])
    assert (error.code, error.blame, error.helps[0]) == ("E0503", 0, "average them: `grad(mean(loss), w1)`")


def test_argmax_of_nothing_and_of_no_integer_type() -> None:
    assert _refusal("argmax", tensor(F32, 0), attributes=ArgAttributes(0, I32)).code == "E0314"
    assert _refusal("argmax", tensor(F32, 3), attributes=ArgAttributes(0, F32)).blame == "into"


def test_filling_keeps_what_is_not_text() -> None:
    error = OpError("E0302", "`{op}` {0}", blame=1, label="{1}", helps=("{0} {op} {1}",), operand_labels={1: "{1}"})
    filled = error.filled("+", ["x", "y"])
    assert (filled.code, filled.title, filled.blame, filled.label) == ("E0302", "`+` x", 1, "y")
    assert (filled.helps, filled.operand_labels) == (("x + y",), {1: "y"})
