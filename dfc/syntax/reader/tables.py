"""Generates `dfg.json` and `deploy.json` from their grammars: `python -m dfc.syntax.reader.tables`.

Assumes lark, which is needed here only: a parser that is shipped as plain data starts in milliseconds and reads
no pickle. Guarantees that the same grammar gives the same bytes: states, rules and rows are numbered in an order
that depends on the grammar alone.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Protocol, cast

from lark import Lark
from lark.grammar import NonTerminal, Rule, Symbol, Terminal
from lark.parsers.lalr_analysis import Shift

HERE = Path(__file__).parent
LANGUAGES = ("dfg", "deploy")
START = "start"
# Rules whose operator is kept among the children, for its place in the text.
KEEP_OPERATOR = frozenset({"piped", "or_op", "and_op"})


class LarkTable(Protocol):
    """What is read of lark's table: `states` holds, for each symbol, (Shift, state) or (Reduce, rule)."""

    states: dict[object, dict[str, tuple[object, Any]]]
    start_states: dict[str, object]
    end_states: dict[str, object]


def tables_path(language: str) -> Path:
    return HERE / f"{language}.json"


def grammar_path(language: str) -> Path:
    """The grammar, in the repository or beside the installed package."""
    roots = (HERE.parents[2], HERE.parents[1])
    paths = [root / "grammar" / f"{language}.lark" for root in roots]
    return next(path for path in paths if path.exists())


def generate(grammar: str) -> dict[str, object]:
    """The parser of a grammar as plain data.

    `terminals`: name and pattern, in the order in which they are tried; `keywords`: word to terminal.
    `rules`: origin, node name (None: pass the only child on), and what becomes of each symbol.
    `actions`: for each state, terminal number and action in turn; an action n >= 0 shifts to state n,
    and reduces rule ~n otherwise. `gotos`: for each state, rule origin and state in turn.
    """
    parser = Lark(grammar, parser="lalr", lexer="basic", maybe_placeholders=True, start=START)
    table = cast(LarkTable, cast(Any, parser).parser.parser._parse_table)
    states = _number_states(table)
    rules = sorted(dict.fromkeys(parser.rules), key=_rule_key)
    rule_numbers = {rule: number for number, rule in enumerate(rules)}
    names = sorted({symbol for row in table.states.values() for symbol in row})
    origins = [name for name in names if any(str(rule.origin.name) == name for rule in rules)]
    kinds = [name for name in names if name not in origins]
    kind_numbers = {name: number for number, name in enumerate(kinds)}
    origin_numbers = {name: number for number, name in enumerate(origins)}
    actions: list[list[int]] = []
    gotos: list[list[int]] = []
    for state in states:
        row = table.states[state]
        pairs = {name: _action(row[name], states, rule_numbers) for name in sorted(row)}
        actions.append([x for name, n in pairs.items() if name in kind_numbers for x in (kind_numbers[name], n)])
        gotos.append([x for name, n in pairs.items() if name in origin_numbers for x in (origin_numbers[name], n)])
    return {
        "grammar_sha256": hashlib.sha256(grammar.encode()).hexdigest(),
        "terminals": _terminals(parser),
        "keywords": _keywords(parser),
        "kinds": kinds,
        "origins": origins,
        "rules": [_rule(rule) for rule in rules],
        "start": states[table.start_states[START]],
        "end": states[table.end_states[START]],
        "actions": actions,
        "gotos": gotos,
    }


def _number_states(table: LarkTable) -> dict[object, int]:
    """States in the order in which a breadth-first walk from the start meets them."""
    order: dict[object, int] = {}
    waiting = [table.start_states[START], table.end_states[START]]
    for state in waiting:
        if state in order:
            continue
        order[state] = len(order)
        row = table.states.get(state, {})
        waiting.extend(row[name][1] for name in sorted(row) if row[name][0] is Shift)
    return order


def _action(entry: tuple[object, Any], states: dict[object, int], rules: dict[Rule, int]) -> int:
    kind, argument = entry
    return states[argument] if kind is Shift else ~rules[argument]


def _rule_key(rule: Rule) -> tuple[str, list[str], str]:
    return rule.origin.name, [symbol.name for symbol in rule.expansion], rule.alias or ""


def _rule(rule: Rule) -> dict[str, object]:
    """`keep`: for each kept child its position, or -1 - position if its list is spliced in, or None for an
    optional part that is absent."""
    keep: list[int | None] = []
    absent = rule.options.empty_indices
    symbols = iter(enumerate(rule.expansion))
    for is_absent in absent or (False,) * len(rule.expansion):
        if is_absent:
            keep.append(None)
            continue
        position, symbol = next(symbols)
        if not _is_dropped(symbol) or rule.alias in KEEP_OPERATOR:
            keep.append(~position if _is_spliced(symbol) else position)
    name = rule.alias or rule.origin.name
    return {
        "origin": rule.origin.name,
        "name": None if name.startswith("_") else name,
        "symbols": [symbol.name for symbol in rule.expansion],
        "keep": keep,
        "passes": bool(rule.options.expand1 and not rule.alias),
    }


def _is_dropped(symbol: Symbol) -> bool:
    return isinstance(symbol, Terminal) and symbol.filter_out


def _is_spliced(symbol: Symbol) -> bool:
    return isinstance(symbol, NonTerminal) and symbol.name.startswith("_")


def _keywords(parser: Lark) -> dict[str, str]:
    words = {
        terminal.pattern.value: terminal.name
        for terminal in parser.terminals
        if terminal.pattern.type == "str" and terminal.pattern.value.isidentifier()
    }
    return dict(sorted(words.items()))


def _terminals(parser: Lark) -> list[tuple[str, str]]:
    """All but the keywords, which are names that are looked up, in the order of lark's basic lexer."""
    keywords = set(_keywords(parser).values())
    terminals = [terminal for terminal in parser.terminals if terminal.name not in keywords]
    terminals.sort(key=lambda t: (-t.priority, -t.pattern.max_width, -len(t.pattern.value), t.name))
    return [(terminal.name, terminal.pattern.to_regexp()) for terminal in terminals]


def serialise(tables: dict[str, object]) -> str:
    """One line for each state and rule, so that a change of the grammar is a readable change here."""
    lines: list[str] = []
    for key, value in tables.items():
        if isinstance(value, list):
            rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in cast(list[object], value))
            lines.append(f'"{key}":[\n{rows}]')
        else:
            lines.append(f'"{key}":{json.dumps(value, separators=(",", ":"))}')
    return "{" + ",\n".join(lines) + "}\n"


def main() -> None:
    for language in LANGUAGES:
        tables_path(language).write_text(serialise(generate(grammar_path(language).read_text())))


if __name__ == "__main__":
    main()
