"""State, random numbers and sources: what they mean, and that nothing is changed in place."""

import numpy as np
import pytest

from dfc.ir.dims import Symbol, dim
from dfc.ir.dtypes import F32, I32, I64, U8
from dfc.ir.types import TensorType, tensor
from dfc.ops import registry
from dfc.ops.attributes import (
    AssertAttributes,
    AssignAttributes,
    DimAttributes,
    DrawAttributes,
    OperandSelector,
    RandomAttributes,
    RangeSelector,
    SliceAttributes,
    TypeAttributes,
)
from dfc.ops.creation import philox
from dfc.ops.record import OpError
from dfc_runtime.errors import RunError

N = Symbol("N")


def _assign(variable: np.ndarray, value: object, *operands: object, mode: str = ":=", index: tuple = ()) -> np.ndarray:
    before = variable.copy()
    arrays = [np.asarray(value, variable.dtype), *(np.asarray(i) for i in operands), variable]
    (after,) = registry.record("assign").evaluate(arrays, AssignAttributes("v", mode, index), {N: 4})
    np.testing.assert_array_equal(variable, before)
    return after


def _span(start: object, size: object, step: int = 1) -> RangeSelector:
    return RangeSelector(dim(start), dim(size), step)


@pytest.mark.parametrize(
    ("mode", "wanted"), [(":=", [3, 3]), ("+=", [5, 7]), ("-=", [-1, 1]), ("*=", [6, 12]), ("/=", [2 / 3, 4 / 3])]
)
def test_modes_of_assignment(mode: str, wanted: list[float]) -> None:
    np.testing.assert_allclose(_assign(np.array([2.0, 4.0]), 3, mode=mode), wanted)


def test_a_part_is_written_and_the_rest_stays() -> None:
    x = np.arange(20.0).reshape(4, 5)
    wanted = x.copy()
    wanted[1:3, ::2] -= 10
    got = _assign(x, 10, mode="-=", index=(_span(1, 2), _span(0, 3, 2)))
    np.testing.assert_array_equal(got, wanted)


def test_sizes_of_a_part_may_be_symbols() -> None:
    got = _assign(np.zeros(5), 1, index=(_span(dim(N) - 3, dim(N) - 1),))
    assert got.tolist() == [0, 1, 1, 1, 0]


def test_backward_parts_take_the_values_in_order() -> None:
    assert _assign(np.zeros(3), [1, 2, 3], index=(_span(2, 3, -1),)).tolist() == [3, 2, 1]


def test_rows_named_twice_get_the_last_value_or_every_update() -> None:
    index = (OperandSelector(0), _span(0, 2))
    rows = [[1, 1], [2, 2], [3, 3]]
    assert _assign(np.zeros((2, 2)), rows, [0, 1, 0], index=index).tolist() == [[3, 3], [2, 2]]
    assert _assign(np.zeros((2, 2)), rows, [0, 1, 0], mode="+=", index=index).tolist() == [[4, 4], [2, 2]]


def test_a_point_by_two_numbers() -> None:
    index = (OperandSelector(0), OperandSelector(1))
    assert _assign(np.zeros((2, 2), np.int32), 7, -1, 0, mode="+=", index=index).tolist() == [[0, 0], [7, 0]]


def test_narrow_variables_are_rounded_once() -> None:
    got = _assign(np.full(1, 2048, np.float16), np.float16(1), [0, 0], mode="+=", index=(OperandSelector(0),))
    assert got.tolist() == [2050]


@pytest.mark.parametrize("index", [(_span(2, 2),), (_span(-1, 1),), (_span(0, 2, 3),)])
def test_a_part_outside_stops_the_program(index: tuple) -> None:
    with pytest.raises(RunError, match="leaves an axis of size 3"):
        _assign(np.zeros(3), 1, index=index)


@pytest.mark.parametrize(
    ("types", "how", "code"),
    [
        ((tensor(F32, 3), tensor(F32, 2)), AssignAttributes("v", ":="), "E0305"),
        ((tensor(F32, 2, 3), tensor(F32, 3)), AssignAttributes("v", ":="), "E0305"),
        ((tensor(I32), tensor(F32)), AssignAttributes("v", "+="), "E0302"),
        ((tensor(I32), tensor(I32)), AssignAttributes("v", "/="), "E0302"),
        ((tensor(F32), tensor(F32, 3)), AssignAttributes("v", ":=", (_span(0, 1), _span(0, 1))), "E0313"),
        ((tensor(F32), tensor(F32), tensor(F32, 3)), AssignAttributes("v", ":=", (OperandSelector(0),)), "E0302"),
        ((tensor(F32, N), tensor(F32, 3)), AssignAttributes("v", ":=", (_span(0, 2),)), "E0305"),
    ],
)
def test_assignments_that_do_not_fit(types: tuple[TensorType, ...], how: AssignAttributes, code: str) -> None:
    with pytest.raises(OpError) as refused:
        registry.record("assign").infer(types, how)
    assert refused.value.code == code


def test_draws_go_on_where_the_last_one_ended() -> None:
    record = registry.record("draw")
    how = DrawAttributes("dice", "uniform", tensor(F32, 8))
    start = philox.initial_state(3, "dice")
    first, after_one = record.evaluate([start], how, {})
    second, after_two = record.evaluate([after_one], how, {})
    assert start[2] == 0 and after_one[2] == 1 and after_two[2] == 2
    assert not np.array_equal(first, second)
    again, _ = record.evaluate([after_one], how, {})
    np.testing.assert_array_equal(second, again)


def test_random_depends_on_seed_stream_and_position_only() -> None:
    record = registry.record("random")

    def numbers(seed: int, stream: str, *shape: int) -> np.ndarray:
        return record.evaluate([], RandomAttributes("uniform", seed, stream, tensor(F32, *shape)), {})[0]

    np.testing.assert_array_equal(numbers(1, "w", 4, 6).ravel(), numbers(1, "w", 24))
    np.testing.assert_array_equal(numbers(1, "w", 24)[:5], numbers(1, "w", 5))
    assert not np.array_equal(numbers(1, "w", 24), numbers(2, "w", 24))
    assert not np.array_equal(numbers(1, "w", 24), numbers(1, "b", 24))


def test_symbolic_sizes_are_given_by_the_call() -> None:
    sizes = {N: 5}
    assert registry.record("dim").evaluate([], DimAttributes(dim(N) * 2 - 3), sizes)[0] == 7
    iota = registry.record("iota").evaluate([], TypeAttributes(tensor(I64, N)), sizes)[0]
    assert iota.tolist() == [0, 1, 2, 3, 4]
    where = SliceAttributes((dim(N) - 1,), (dim(N),), (-1,))
    assert registry.record("slice").evaluate([iota], where, sizes)[0].tolist() == [4, 3, 2, 1, 0]
    (type_,) = registry.record("slice").infer([tensor(I64, N)], where)
    assert type_ == tensor(I64, N)


def test_iota_wraps_in_small_types() -> None:
    assert registry.record("iota").evaluate([], TypeAttributes(tensor(U8, 300)), {})[0][-1] == 299 - 256


def test_a_false_assertion_stops_the_program_with_its_words() -> None:
    record = registry.record("assert")
    with pytest.raises(RunError, match="x must be positive"):
        record.evaluate([np.array(False)], AssertAttributes("x must be positive", "x > 0"), {})
    with pytest.raises(RunError, match="assertion failed: x > 0"):
        record.evaluate([np.array(False)], AssertAttributes("", "x > 0"), {})
