"""Makes `dfg.json` and `deploy.json` of their grammars: `python -m dfc.syntax.reader.tables`.

They hold what lark computes of a grammar in a third of a second, its terminals, rules and LALR table, in the form that
lark serialises and loads itself; `language` reads them in milliseconds. It is plain data, no pickle. Guarantees that
the same grammar gives the same bytes: states and rules are numbered in an order that depends on the grammar alone.

Two things are added to what a grammar says. A terminal of the lowest priority takes what begins no other one, so that
no text stops the lexer. And a word that opens a rule is kept among its children, so that a builder knows where the text
of the rule begins.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeAlias, cast

from lark import Lark
from lark.grammar import Rule, Terminal
from lark.lexer import TerminalDef

HERE = Path(__file__).parent
LANGUAGES = ("dfg", "deploy")
START = "start"
STRANGE = "STRANGE"
# An unclosed string spoils the rest of its line, everything else itself alone.
STRANGE_TERMINAL = rf"""
{STRANGE}.-1: /["'][^\n]*|[^\x00-\x7f]+|[\s\S]/
%ignore {STRANGE}
"""
# What does not go without saying; everything else is left at lark's defaults.
OPTIONS: dict[str, Any] = {"parser": "lalr", "lexer": "basic", "start": [START], "maybe_placeholders": True}

Json: TypeAlias = Any


def tables_path(language: str) -> Path:
    return HERE / f"{language}.json"


def grammar_path(language: str) -> Path:
    """The grammar, in the repository or beside the installed package."""
    roots = (HERE.parents[2], HERE.parents[1])
    paths = [root / "grammar" / f"{language}.lark" for root in roots]
    return next(path for path in paths if path.exists())


def generate(grammar: str) -> dict[str, Json]:
    """The tables of a grammar: `data` and `memo` of lark, with lists in place of its objects whose keys are numbers."""
    lark = Lark(grammar + STRANGE_TERMINAL, **OPTIONS)
    for rule in lark.rules:
        _keep_opening_word(rule)
    data, memo = cast(Any, lark).memo_serialize([TerminalDef, Rule])
    data["options"] = OPTIONS
    return _numbered(data, memo)


def _keep_opening_word(rule: Rule) -> None:
    """Has a node that begins with a fixed word keep it; rules that lark splices into others stay as they are."""
    if rule.expansion and rule.expansion[0].is_term and not rule.origin.name.startswith("_"):
        rule.expansion = [Terminal(rule.expansion[0].name), *rule.expansion[1:]]


def _numbered(data: Json, memo: dict[int, Json]) -> dict[str, Json]:
    """The same tables, with terminals and rules in the order of their texts, and states as they are met from the
    start."""
    order = sorted(memo, key=lambda number: json.dumps(memo[number], sort_keys=True))
    references = {number: index for index, number in enumerate(order)}
    data = _referring(data, references)
    parser = data["parser"]
    parser["parser"] = _states_in_order(parser["parser"])
    data["rules"].sort(key=_reference)
    parser["parser_conf"]["rules"].sort(key=_reference)
    parser["lexer_conf"]["terminals"].sort(key=_reference)
    parser["lexer_conf"]["ignore"].sort()
    return {"memo": [memo[number] for number in order], "data": data}


def _reference(entry: dict[str, int]) -> int:
    return entry["@"]


def _referring(value: Json, references: dict[int, int]) -> Json:
    """`value` with every reference to `memo` replaced by the new one."""
    if isinstance(value, dict):
        entries = cast(dict[Any, Json], value)
        if "@" in entries:
            return {"@": references[entries["@"]]}
        return {key: _referring(each, references) for key, each in entries.items()}
    if isinstance(value, (list, tuple)):
        return [_referring(each, references) for each in cast(list[Json], value)]
    return value


def _states_in_order(table: Json) -> Json:
    """A breadth-first walk from the start: each state has, for each symbol, [0, next state] or [1, rule]."""
    names: dict[int, str] = table["tokens"]
    rows = {state: {names[key]: action for key, action in row.items()} for state, row in table["states"].items()}
    order: dict[int, int] = {}
    waiting = [table["start_states"][START], table["end_states"][START]]
    for state in waiting:
        if state not in order:
            order[state] = len(order)
            row = rows.get(state, {})
            waiting.extend(row[name][1] for name in sorted(row) if row[name][0] == 0)
    symbols = sorted({name for row in rows.values() for name in row})
    numbers = {name: str(number) for number, name in enumerate(symbols)}
    states = [
        {
            numbers[name]: [0, order[action[1]]] if action[0] == 0 else action
            for name, action in sorted(rows.get(state, {}).items())
        }
        for state in order
    ]
    return {
        "tokens": {numbers[name]: name for name in symbols},
        "states": states,
        "start_states": {START: order[table["start_states"][START]]},
        "end_states": {START: order[table["end_states"][START]]},
    }


def serialise(tables: dict[str, Json]) -> str:
    """One line for each terminal, rule and state, so that a change of the grammar is a readable change here."""
    return _lines(tables, 4) + "\n"


def _lines(value: Json, depth: int) -> str:
    """JSON with a line for each entry of lists, and of objects down to a depth."""
    if isinstance(value, list) and value:
        rows = ",\n".join(json.dumps(each, separators=(",", ":")) for each in cast(list[Json], value))
        return f"[\n{rows}]"
    if isinstance(value, dict) and depth:
        entries = cast(dict[str, Json], value).items()
        rows = ",\n".join(f"{json.dumps(key)}:{_lines(each, depth - 1)}" for key, each in entries)
        return f"{{\n{rows}}}"
    return json.dumps(value, separators=(",", ":"))


def main() -> None:
    for language in LANGUAGES:
        tables_path(language).write_text(serialise(generate(grammar_path(language).read_text())))


if __name__ == "__main__":
    main()
