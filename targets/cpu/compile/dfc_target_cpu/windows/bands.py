"""Copies of bands of an image, with the zeros around it, in the order that direct convolutions read them.

Assumes room for `Band.elements`. Guarantees that nothing outside of the image is read.
"""

from dfc.kernels.direct.blocking import BLOCK, Forward, Summing
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import byte_size, i64, vector_type
from dfc_target_cpu.windows.tables import PLAN_PARAMETERS, PlanCode, dot

_BAND = (*PLAN_PARAMETERS, Parameter("ptr", "image"), Parameter("i64", "row"), Parameter("ptr", "target"))
_WORDS = (
    "height", "width", "block", "blocks", "source_line", "source_cell", "step_y", "low_y", "low_x", "rows_in",
    "width_in", "line",
)  # fmt: skip


def band(module: ModuleText, element: str, kind: type[Forward] | type[Summing]) -> str:
    """`void (plan, state, image, row, target)`: the image rows of the band whose first row of positions is `row`."""
    name = f"window_band_{kind.__name__.lower()}_{element}"
    return module.define(name, lambda: _Copy(module, name, element, kind).build())


class _Copy:
    def __init__(self, module: ModuleText, name: str, element: str, kind: type[Forward] | type[Summing]) -> None:
        self.f = module.function(name, "void", _BAND, attributes="nounwind noinline")
        self.element, self.size = element, i64(byte_size(element))
        self.words = PlanCode(self.f, kind)
        self.words.load(*_WORDS)

    def build(self) -> FunctionText:
        f, w, arg = self.f, self.words, self.f.argument
        first = f.sub(f.mul(arg("row"), w["step_y"]), w["low_y"])
        self.left = f.minimum(f.maximum(w["low_x"], i64(0)), w["width_in"])
        self.end = f.maximum(f.minimum(w["width_in"], f.add(w["width"], w["low_x"])), self.left)
        skipped = f.maximum(f.sub(i64(0), w["low_x"]), i64(0))
        block_step = f.mul(w["rows_in"], w["line"])
        with (
            f.counted_loop(i64(0), w["rows_in"], hint="row") as row,
            f.counted_loop(i64(0), w["blocks"], hint="block") as block,
        ):
            there = dot(f, (row.index, w["line"]), (block.index, block_step))
            at = f.add(first, row.index)
            here = dot(f, (at, w["source_line"]), (skipped, w["source_cell"]), (block.index, w["block"]))
            target = f.gep(self.element, arg("target"), there)
            self._row(at, f.gep(self.element, arg("image"), here), target)
        f.ret()
        return f

    def _row(self, at: Value, source: Value, target: Value) -> None:
        """One row of a block of channels: zeros, what lies in the image, zeros."""
        f, w = self.f, self.words
        inside, outside, done = f.label("inside"), f.label("outside"), f.label("done")
        f.branch_if(f.icmp("ult", at, w["height"]), inside, outside)
        f.begin(outside)
        self._zeros(target, w["width_in"])
        f.branch(done)
        f.begin(inside)
        self._zeros(target, self.left)
        self._cells(f.gep(self.element, target, f.mul(self.left, w["block"])), source, f.sub(self.end, self.left))
        behind = f.gep(self.element, target, f.mul(self.end, w["block"]))
        self._zeros(behind, f.sub(w["width_in"], self.end))
        f.branch(done)
        f.begin(done)

    def _zeros(self, target: Value, cells: Value) -> None:
        f = self.f
        f.fill_zero(target, f.mul(f.mul(cells, self.words["block"]), self.size), byte_size(self.element))

    def _cells(self, target: Value, source: Value, cells: Value) -> None:
        """All at once where they lie together, else one by one: most often blocks of channels of a known size."""
        f, w = self.f, self.words
        together, apart, known, any_, done = (f.label(x) for x in ("together", "apart", "known", "any", "copied"))
        f.branch_if(f.icmp("eq", w["source_cell"], w["block"]), together, apart)
        f.begin(together)
        f.copy_memory(target, source, f.mul(f.mul(cells, w["block"]), self.size), byte_size(self.element))
        f.branch(done)
        f.begin(apart)
        f.branch_if(f.icmp("eq", w["block"], i64(BLOCK)), known, any_)
        for label in (known, any_):
            f.begin(label)
            with f.counted_loop(i64(0), cells, hint="cell") as cell:
                to = f.gep(self.element, target, f.mul(cell.index, w["block"]))
                start = f.gep(self.element, source, f.mul(cell.index, w["source_cell"]))
                if label == known:
                    f.store(f.load(vector_type(BLOCK, self.element), start), to)
                else:
                    f.copy_memory(to, start, f.mul(w["block"], self.size), byte_size(self.element))
            f.branch(done)
        f.begin(done)
