"""Numbers that native loops of convolutions find at run time: the plan of a kernel, and what a launch knows.

The plan is a constant table of words, a launch writes a record of others. Guarantees that all loops name words by the
fields of `dfc.kernels.direct.blocking` and `dfc.kernels.winograd.tiling`.
"""

from collections.abc import Sequence

from dfc.kernels.direct.blocking import Band, Forward, Panels, Part, Summing
from dfc.kernels.winograd.tiling import Winograd
from dfc_target_cpu.llvm.text import FunctionText, Parameter, Value
from dfc_target_cpu.llvm.values import i64

_POINTERS = (
    "context", "source", "other", "packed", "band", "chunk", "sums", "epilogue", "record", "narrow", "wide",
)  # fmt: skip
STATE = (*_POINTERS, "batch", "sums_row", "sums_group", "is_tile", "held")
"""Of a launch: addresses (`narrow`, `wide`: functions of lines for panels of either width), then numbers. `held` is the
band that the memory of bands holds, or -1; `is_tile`: the sums are made in a tile, not in all of the result."""
PLAN_PARAMETERS = (Parameter("ptr", "plan", "noalias readonly"), Parameter("ptr", "state"))

Plan = Forward | Summing | Winograd
_NESTED = {"band": Band, "panels": Panels}
PART_WORDS = len(Part._fields)


def names(kind: type[Plan]) -> tuple[str, ...]:
    """The words of a plan, those of what is nested in it in its place; parts lie behind them, which end with how many
    parts there are."""
    fields = [name for name in kind._fields if name != "parts"]
    nested = [_NESTED[name]._fields if name in _NESTED else (name,) for name in fields]
    return (*(name for each in nested for name in each), "parts")


def words(plan: Plan) -> list[int]:
    """The table of a plan."""
    parts = plan.parts if isinstance(plan, Forward) else ()
    own: list[int] = []
    for name in type(plan)._fields:
        value: int | Sequence[int] = getattr(plan, name)
        if name != "parts":
            own += [value] if isinstance(value, int) else value
    return [*own, len(parts), *(word for part in parts for word in part)]


class PlanCode:
    """A function that finds its numbers in a plan and a state: words are loaded where they are first named."""

    def __init__(self, f: FunctionText, kind: type[Plan]) -> None:
        self.f = f
        self._plan_names = names(kind)
        self.plan, self.state = f.argument("plan"), f.argument("state")
        self._known: dict[str, Value] = {}

    def load(self, *names_: str) -> None:
        """Loads words; for the beginning of a function, so that they are known everywhere in it."""
        for name in names_:
            self._known[name] = self._load(name)

    def __getitem__(self, name: str) -> Value:
        return self._known[name]

    def _load(self, name: str) -> Value:
        f = self.f
        if name in STATE:
            return f.load("ptr" if name in _POINTERS else "i64", self.address(name))
        return f.load("i64", f.gep("i64", self.plan, i64(self._plan_names.index(name))))

    def address(self, name: str) -> Value:
        """Where a word of the state lies."""
        return self.f.gep("i64", self.state, i64(STATE.index(name)))

    def part(self, number: Value) -> dict[str, Value]:
        """The words of a part."""
        f = self.f
        start = f.gep("i64", self.plan, i64(len(self._plan_names)))
        start = f.gep("i64", start, f.mul(number, i64(PART_WORDS)))
        return {name: f.load("i64", f.gep("i64", start, i64(at))) for at, name in enumerate(Part._fields)}

    def panel(self, number: Value) -> tuple[Value, Value, Value]:
        """Its first vector, how many it has, and the function of its lines."""
        f = self.f
        first = f.add(f.mul(number, self["vectors"]), f.minimum(number, self["wider"]))
        is_wide = f.icmp("slt", number, self["wider"])
        width = f.add(self["vectors"], f.cast("zext", is_wide, "i64"))
        return first, width, f.select(is_wide, self["wide"], self["narrow"])


def write_state(f: FunctionText, state: Value, values: dict[str, Value]) -> None:
    """Writes all words of a state."""
    for at, name in enumerate(STATE):
        f.store(values[name], f.gep("i64", state, i64(at)))


def dot(f: FunctionText, *pairs: tuple[Value, Value]) -> Value:
    """Sum of products: an offset of indices and strides."""
    total = i64(0)
    for index, stride in pairs:
        total = f.add(total, f.mul(index, stride))
    return total


Pair = Sequence[Value]
