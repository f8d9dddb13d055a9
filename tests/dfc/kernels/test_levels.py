"""Where in a nest of loops instructions are known: as far out as what they need allows."""

from dfc.ir.dims import Symbol, dim
from dfc.ir.dtypes import F32, I64
from dfc.kernels.access import Lookup, stage_access
from dfc.kernels.body import Affine, BodyBuilder, Computed, Load, Reduced
from dfc.kernels.form import Operand, Store
from dfc.kernels.levels import items_by_level, varying

N, M = dim(Symbol("n")), dim(Symbol("m"))
ROWS, COLUMNS = 0, 1


def index(*axes: int) -> tuple[Affine, ...]:
    return tuple(Affine(((axis, 1),)) for axis in axes)


def placed(written: int = 0):
    """A row's number, one element, their sum, a table read at a computed row, and a result of an earlier stage."""
    operands = [Operand(F32, (N,), "read"), Operand(F32, (N, M), "read"), Operand(F32, (N,), "read")]
    body = BodyBuilder()
    row = body.append(Load(0, index(ROWS)), (), F32)
    element = body.append(Load(1, index(ROWS, COLUMNS)), (), F32)
    total = body.apply("add", row, element)
    double = body.apply("add", row, row)
    place = body.cast(row, I64)
    looked = body.append(Load(2, (Computed(place, 5),)), (), F32)
    before = body.append(Reduced(0, 0), (), F32)
    number = body.number(2.0, F32)
    access = stage_access(operands, 2, body.instructions, [Store(1, index(ROWS, COLUMNS), total)])
    items = items_by_level(
        body.instructions, access, {ROWS: 1, COLUMNS: 2}, depth=2, results=1, loads=lambda load: written
    )
    names = {row: "row", element: "element", total: "total", double: "double", place: "place", looked: "looked"}
    names |= {before: "before", number: "number"}
    told = [["check" if isinstance(item, Lookup) else names[item] for item in level] for level in items]
    return told, body.instructions, access


def test_an_instruction_stands_as_far_out_as_what_it_needs() -> None:
    items, _, _ = placed()
    assert items == [["number"], ["row", "double", "place", "check", "looked", "before"], ["element", "total"]]


def test_a_load_waits_for_what_is_written() -> None:
    items, _, _ = placed(written=2)
    assert items[2] == ["row", "element", "total", "double", "place", "check", "looked"]


def test_what_depends_on_an_axis_varies_along_it() -> None:
    _, body, access = placed()
    along_columns = varying(body, access, (COLUMNS,), reduced=False, accumulated=False)
    assert along_columns == [False, True, True, False, False, False, False, False]
    along_rows = varying(body, access, (ROWS,), reduced=True, accumulated=False)
    assert along_rows == [True, True, True, True, True, True, True, False]
