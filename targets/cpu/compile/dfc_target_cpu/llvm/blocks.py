"""Basic blocks, phis and structured control flow of a function written as text.

Assumes that each block is ended once (the helpers here end the blocks they open). Guarantees unique names; phis may be
added to a block at any time and get their incoming edges later.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from dfc_target_cpu.llvm.values import Value, i64


class Phi:
    """A phi whose incoming edges are filled in while the function grows."""

    def __init__(self, value: Value) -> None:
        self.value = value
        self.incoming: list[tuple[Value, str]] = []

    def add(self, value: Value, block: str) -> None:
        self.incoming.append((value, block))

    def __str__(self) -> str:
        edges = ", ".join(f"[{value.text}, %{block}]" for value, block in self.incoming)
        return f"  {self.value.text} = phi {self.value.type} {edges}"


class Block:
    """The lines of one basic block; phis are kept apart so that they can be added late."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.phis: list[Phi] = []
        self.lines: list[str] = []
        self.ended = False

    def text(self) -> str:
        return "\n".join((f"{self.label}:", *map(str, self.phis), *self.lines))


class Loop:
    """A counted loop in the making: `index` inside; `carry` values from iteration to iteration; `result` after it."""

    def __init__(self, blocks: "Blocks", header: Block, entry: str) -> None:
        self._blocks = blocks
        self._header = header
        self._entry = entry
        self._carried: dict[str, tuple[Phi, Value | None]] = {}
        self.index = i64(0)
        self.exit_label = ""

    def carry(self, initial: Value) -> Value:
        """A value that starts as `initial` and is what `next` was last given in each later iteration."""
        phi = self._blocks.phi_in(self._header, initial.type)
        phi.add(initial, self._entry)
        self._carried[phi.value.text] = (phi, None)
        return phi.value

    def next(self, carried: Value, following: Value) -> None:
        phi, _ = self._carried[carried.text]
        self._carried[carried.text] = (phi, following)

    def result(self, carried: Value) -> Value:
        """The value after the loop (for a header-tested loop that is the phi itself)."""
        phi, _ = self._carried[carried.text]
        return phi.value

    def close(self, latch: str) -> None:
        for phi, following in self._carried.values():
            phi.add(phi.value if following is None else following, latch)


class Blocks:
    """Names, blocks and control flow; the instruction mixins build on it."""

    def __init__(self, declare: Callable[[str, str, Sequence[str]], None]) -> None:
        self.declare = declare
        self.blocks: list[Block] = []
        self._registers = 0
        self._labels = 0

    # --- raw text

    def line(self, text: str) -> None:
        self.blocks[-1].lines.append(f"  {text}")

    def assign(self, type_text: str, text: str) -> Value:
        self._registers += 1
        name = f"%v{self._registers}"
        self.blocks[-1].lines.append(f"  {name} = {text}")
        return Value(type_text, name)

    def entry_assign(self, type_text: str, text: str) -> Value:
        """An instruction at the top of the entry block (allocas)."""
        self._registers += 1
        name = f"%v{self._registers}"
        self.blocks[0].lines.insert(0, f"  {name} = {text}")
        return Value(type_text, name)

    def body(self) -> str:
        return "\n".join(block.text() for block in self.blocks)

    # --- blocks

    @property
    def current(self) -> str:
        """Label of the block that receives instructions: the incoming edge of phis in its successors."""
        return self.blocks[-1].label

    def label(self, hint: str) -> str:
        """A fresh label, to be branched to now and begun later."""
        self._labels += 1
        return f"{hint}.{self._labels}"

    def begin(self, label: str) -> Block:
        block = Block(label)
        self.blocks.append(block)
        return block

    def phi(self, type_text: str) -> Phi:
        return self.phi_in(self.blocks[-1], type_text)

    def phi_in(self, block: Block, type_text: str) -> Phi:
        self._registers += 1
        phi = Phi(Value(type_text, f"%v{self._registers}"))
        block.phis.append(phi)
        return phi

    def branch(self, label: str) -> None:
        self.line(f"br label %{label}")

    def branch_if(self, condition: Value, yes: str, no: str) -> None:
        self.line(f"br i1 {condition.text}, label %{yes}, label %{no}")

    def switch(self, value: Value, default: str, cases: Sequence[tuple[int, str]]) -> None:
        arms = " ".join(f"{value.type} {number}, label %{label}" for number, label in cases)
        self.line(f"switch {value}, label %{default} [{arms}]")

    def ret(self, value: Value | None = None) -> None:
        self.line("ret void" if value is None else f"ret {value}")

    def unreachable(self) -> None:
        self.line("unreachable")

    # --- structured control flow

    @contextmanager
    def counted_loop(self, start: Value, stop: Value, step: Value | int = 1, hint: str = "loop") -> Generator[Loop]:
        """`for index in range(start, stop, step)` for a positive step; runs zero times when start >= stop."""
        step_value = step if isinstance(step, Value) else Value(start.type, str(step))
        header_label, body_label = self.label(hint), self.label(f"{hint}.body")
        exit_label = self.label(f"{hint}.exit")
        entry = self.current
        self.branch(header_label)
        loop = Loop(self, self.begin(header_label), entry)
        loop.exit_label = exit_label
        loop.index = loop.carry(start)
        going_on = self.assign("i1", f"icmp slt {loop.index}, {stop.text}")
        self.branch_if(going_on, body_label, exit_label)
        self.begin(body_label)
        yield loop
        loop.next(loop.index, self.assign(start.type, f"add {loop.index}, {step_value.text}"))
        loop.close(self.current)
        self.branch(header_label)
        self.begin(exit_label)

    @contextmanager
    def when(self, condition: Value, hint: str = "when") -> Generator[str]:
        """Run the body only if the condition holds. Yields the label that follows the body."""
        body, after = self.label(hint), self.label(f"{hint}.after")
        self.branch_if(condition, body, after)
        self.begin(body)
        yield after
        self.branch(after)
        self.begin(after)

    def choose(self, condition: Value, yes: Callable[[], Value], no: Callable[[], Value], hint: str = "if") -> Value:
        """The value of one of two branches, of which only one runs."""
        yes_label, no_label, after = self.label(f"{hint}.yes"), self.label(f"{hint}.no"), self.label(f"{hint}.after")
        self.branch_if(condition, yes_label, no_label)
        edges: list[tuple[Value, str]] = []
        for label, build in ((yes_label, yes), (no_label, no)):
            self.begin(label)
            value = build()
            edges.append((value, self.current))
            self.branch(after)
        self.begin(after)
        phi = self.phi(edges[0][0].type)
        for value, block in edges:
            phi.add(value, block)
        return phi.value
