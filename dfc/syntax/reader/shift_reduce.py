"""The LALR automaton of a language, on its way through a text.

Assumes the tables and callbacks of lark, which made them of a grammar. Guarantees what lark's own parser does with
them: each rule is put together as soon as its last child is, by its callback, and the first token that no text goes on
with is refused. It does so in half of the time: what a rule needs is looked up once for all texts, and a rule that only
passes its one child on, of which an operand of a formula has a dozen, costs no call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from lark.parse_tree_builder import ExpandSingleChild
from lark.parsers.lalr_analysis import Shift

from dfc.syntax.reader.tokens import Token

Build: TypeAlias = Callable[[list[object]], object]
Action: TypeAlias = tuple[int, str, Build | None]
"""Take the token, and go on in this state: (state, "", None). Or first make one value of as many as this, for a rule of
this name: (count, name, how to, or None where the one child stands for itself)."""


class Rejected(Exception):
    """The text cannot go on with `token`."""

    def __init__(self, token: Token) -> None:
        super().__init__(token.value)
        self.token = token


class Automaton(dict[int, dict[str, Action]]):
    """For each state what to do at a token of each kind; where to go on behind a rule, by its name. Shared by all
    texts; a state is translated from lark's tables when the first of them comes by."""

    def __init__(self, conf: Any) -> None:
        super().__init__()
        self.start: int = conf.start_state
        self.end: int = conf.end_state
        self._conf = conf

    def __missing__(self, state: int) -> dict[str, Action]:
        actions: dict[str, Action] = {}
        for kind, (what, then) in self._conf.states[state].items():
            actions[kind] = (then, "", None) if what is Shift else self._reduction(then)
        self[state] = actions
        return actions

    def _reduction(self, rule: Any) -> Action:
        build: Build = self._conf.callbacks[rule]
        count = len(rule.expansion)
        stands_for_itself = count == 1 and isinstance(build, ExpandSingleChild)
        return count, rule.origin.name, None if stands_for_itself else build


class Stack:
    """What has been read of a text: `values` are tokens and what has been made of them, in order."""

    def __init__(self, automaton: Automaton) -> None:
        self.values: list[object] = []
        self._automaton = automaton
        self._states = [automaton.start]

    def take(self, token: Token) -> None:
        """Puts together what `token` ends, then takes it, unless it is the end: then the value of the text is alone.
        Raises `Rejected` if no text goes on so; then the stack is of no use."""
        states, values, automaton, kind = self._states, self.values, self._automaton, token.type
        while True:
            try:
                count, rule, build = automaton[states[-1]][kind]
            except KeyError:
                raise Rejected(token) from None
            if not rule:
                states.append(count)
                values.append(token)
                return
            if build is None:
                states.pop()
            else:
                children: list[object] = []
                if count:
                    children = values[-count:]
                    del values[-count:], states[-count:]
                values.append(build(children))
            state = automaton[states[-1]][rule][0]
            states.append(state)
            if state == automaton.end:
                return

    def expected(self) -> frozenset[str]:
        """The kinds of token that the text could go on with, or end."""
        kinds: Iterable[str] = self._automaton[self._states[-1]]
        return frozenset(kind for kind in kinds if self._is_taken(kind))

    def _is_taken(self, kind: str) -> bool:
        """Whether a token of a kind fits behind all rules that it ends. Names of rules are no kinds of token."""
        if not (kind.isupper() or kind == "$END"):
            return False
        states, automaton = list(self._states), self._automaton
        while True:
            action = automaton[states[-1]].get(kind)
            if action is None:
                return False
            count, rule, _ = action
            if not rule:
                return True
            del states[len(states) - count :]
            states.append(automaton[states[-1]][rule][0])
            if states[-1] == automaton.end:
                return True
