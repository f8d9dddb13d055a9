"""Filters transformed for Winograd's algorithm: for each panel and product the rows of all channels.

Before: a filter of 3 x 3 elements with any strides.
After: [group][panel][product][channel][column of the panel], columns beyond the last are anything.

Assumes room for `Winograd.packed_elements`. Guarantees that parts write different elements, which cover all.
"""

from dfc.kernels.direct.blocking import PACKED_CHANNELS
from dfc.kernels.winograd.tiling import Winograd
from dfc.kernels.winograd.transforms import TAPS, transforms
from dfc_target_cpu.llvm.text import FunctionText, ModuleText, Parameter, Value
from dfc_target_cpu.llvm.values import i64
from dfc_target_cpu.windows.filters import PanelPacking
from dfc_target_cpu.windows.tables import PLAN_PARAMETERS, PlanCode, dot
from dfc_target_cpu.windows.tile_transforms import tile_transform

_TRANSFORM = (*PLAN_PARAMETERS, Parameter("i64", "part"), Parameter("i64", "parts"))
_WORDS = (
    "other", "packed", "band", "channels", "columns", "panel_count", "vectors", "wider", "groups", "filter_group",
    "packed_group", "filter_row", "filter_element", "filter_channel", "filter_column", "filter_pad",
    "products_at", "between_at", "narrow", "wide",
)  # fmt: skip


def transform_name(element: str, way: str, tile: int) -> str:
    return f"winograd_filter_{way}_{element}_{tile}"


def transform_filter(module: ModuleText, element: str, lanes: int, way: str, tile: int) -> str:
    """`void (plan, state, part, parts)`: this part's share of the transformed filter."""
    name = transform_name(element, way, tile)
    return module.define(name, lambda: _Transform(module, name, element, lanes, way, tile).build())


class _Transform:
    def __init__(self, module: ModuleText, name: str, element: str, lanes: int, way: str, tile: int) -> None:
        self.f = module.function(name, "void", _TRANSFORM, linkage="hidden", attributes="nounwind noinline")
        self.element, self.lanes = element, lanes
        self.words = PlanCode(self.f, Winograd)
        self.words.load(*_WORDS)
        self.packing = PanelPacking(self.f, self.words, element, lanes, way)
        self.span = transforms(tile).span
        self.transform = tile_transform(module, "filter", element, lanes, transforms(tile).filter)

    def build(self) -> FunctionText:
        """Work is cut into channels that are packed at a time of a panel of a group."""
        f, w, arg = self.f, self.words, self.f.argument
        blocks = f.udiv(f.add(w["channels"], i64(PACKED_CHANNELS - 1)), i64(PACKED_CHANNELS))
        work = f.mul(f.mul(w["groups"], w["panel_count"]), blocks)
        first = f.udiv(f.mul(work, arg("part")), arg("parts"))
        last = f.udiv(f.mul(work, f.add(arg("part"), i64(1))), arg("parts"))
        with f.counted_loop(first, last, hint="block") as loop:
            whole = f.udiv(loop.index, blocks)
            block = f.sub(loop.index, f.mul(whole, blocks))
            group = f.udiv(whole, w["panel_count"])
            panel = f.sub(whole, f.mul(group, w["panel_count"]))
            self._block(group, panel, f.mul(block, i64(PACKED_CHANNELS)))
        f.ret()
        return f

    def _block(self, group: Value, panel: Value, channel: Value) -> None:
        """Some channels of a panel: packed element by element of the window, then transformed channel by channel."""
        f, w, element = self.f, self.words, self.element
        first, vectors, _ = w.panel(panel)
        column, width = f.mul(first, i64(self.lanes)), f.mul(vectors, i64(self.lanes))
        at = dot(f, (group, w["filter_group"]), (column, w["filter_column"]), (channel, w["filter_channel"]))
        source = f.gep(element, w["other"], at)
        rows = f.minimum(i64(PACKED_CHANNELS), f.sub(w["channels"], channel))
        packed = f.gep(element, w["band"], w["products_at"])
        tap = f.mul(width, i64(PACKED_CHANNELS))
        left = f.sub(w["columns"], column)
        with (
            f.counted_loop(i64(0), i64(TAPS), hint="down") as down,
            f.counted_loop(i64(0), i64(TAPS), hint="across") as across,
        ):
            from_ = dot(f, (down.index, w["filter_row"]), (across.index, w["filter_element"]))
            number = f.add(f.mul(down.index, i64(TAPS)), across.index)
            to = f.gep(element, packed, f.mul(number, tap))
            self.packing.block(f.gep(element, source, from_), to, rows, width, left)
        panel_start = dot(f, (column, w["channels"]), (panel, w["filter_pad"]))
        at = dot(f, (group, w["packed_group"]), (panel_start, i64(self.span**2)), (channel, width))
        target = f.gep(element, w["packed"], at)
        far = f.add(f.mul(w["channels"], width), w["filter_pad"])
        between = f.gep(element, w["band"], w["between_at"])
        counts = [i64(TAPS), i64(self.span), i64(self.span), vectors, i64(self.lanes)]
        with f.counted_loop(i64(0), rows, hint="row") as row:
            at = f.mul(row.index, width)
            strides = f.mul(tap, i64(TAPS)), tap, f.mul(far, i64(self.span)), far
            operands = [f.gep(element, packed, at), *strides[:2], f.gep(element, target, at), *strides[2:], between]
            f.call(self.transform, "void", [*operands, *counts])
