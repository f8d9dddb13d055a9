"""Deployment files become data, and whatever the text, there is a deployment or a message."""

from __future__ import annotations

from random import Random

import pytest
from lark import Lark, UnexpectedInput

from dfc.diagnostics.diagnostic import render
from dfc.diagnostics.source import SourceFile
from dfc.distribute.deployment.syntax.parse import parse, read_statements
from dfc.distribute.deployment.syntax.statements import STATEMENTS, StatementBuilder
from dfc.syntax.reader.language import load_language
from dfc.syntax.reader.tables import grammar_path
from tests.support.corpus import DEPLOYMENTS
from tests.support.deploying import HEAD, deployed
from tests.support.grammars import nodes_of
from tests.support.sweeping import few

JOBS = HEAD + "job ps tasks 4\njob worker tasks 8\n"


def test_jobs_keep_their_order_and_what_their_tasks_have() -> None:
    made = deployed(f'{HEAD}job ps tasks 1_6 with cpu = 16, memory = "128 GB"\njob worker tasks 32 with gpu = 1\n')
    assert list(made.jobs) == ["ps", "worker"]
    ps, worker = made.jobs.values()
    assert (ps.tasks, ps.cpus, ps.gpus, ps.memory) == (16, 16, 0, 128 * 10**9)
    assert (worker.tasks, worker.cpus, worker.gpus, worker.memory) == (32, 1, 1, 0)
    assert (made.tasks, made.program) == (48, "skipgram.dfg")
    assert [option.span.text for option in ps.settings] == ["cpu = 16", 'memory = "128 GB"']


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ('"1 B"', 1),
        ('"2KB"', 2000),
        ('"2 KiB"', 2048),
        ('"1.5 GB"', 1_500_000_000),
        ('"1 GiB"', 2**30),
        ('"1 TiB"', 2**40),
        ("4096", 4096),
    ],
)
def test_memory_is_in_bytes(text: str, amount: int) -> None:
    assert deployed(f"{HEAD}job ps tasks 1 with memory = {text}\n").jobs["ps"].memory == amount


@pytest.mark.parametrize(
    "text", ['"0 GB"', '"GB"', '"1 gb"', '"-1 GB"', '"1e3 GB"', '"1 GB GB"', "0", "1.5", "true", '""']
)
def test_other_amounts_of_memory_are_refused(text: str) -> None:
    made, found = parse(SourceFile("x.deploy", f"{HEAD}job ps tasks 1 with memory = {text}\n"))
    assert made is None
    assert [each.code for each in found] == ["E0181"]


@pytest.mark.parametrize(
    ("text", "seconds", "steps"),
    [
        ("10 min", 600, 0),
        ("90 s", 90, 0),
        ("0.5 h", 1800, 0),
        ("1 hour", 3600, 0),
        ("30seconds", 30, 0),
        ("100 steps", 0, 100),
        ("1 step", 0, 1),
    ],
)
def test_intervals_are_seconds_or_steps(text: str, seconds: float, steps: int) -> None:
    made = deployed(f'{JOBS}checkpoint every "{text}" to "runs/a" with keep = 3\n').checkpoint
    assert made is not None
    assert (made.seconds, made.steps, made.folder, made.keep) == (seconds, steps, "runs/a", 3)


@pytest.mark.parametrize("text", ["", "min", "10", "1.5 steps", "-1 s", "0 s", "10 Min", "1 day", f"{'9' * 500} steps"])
def test_other_intervals_are_refused(text: str) -> None:
    made, found = parse(SourceFile("x.deploy", f'{JOBS}checkpoint every "{text}" to "runs"\n'))
    assert made is None
    assert [each.code for each in found] == ["E0181"]


def test_a_replication_has_its_settings() -> None:
    made = deployed(
        f'{JOBS}replicate train over worker with mode = "sync", split = "B", combine = "sum", blocks = 16\n'
    )
    one = made.replications[0]
    assert (one.entry, one.job, one.mode, one.split, one.combine, one.blocks) == (
        "train",
        "worker",
        "sync",
        "B",
        "sum",
        16,
    )
    assert one.setting_span("blocks").text == "blocks = 16"
    assert one.setting_span("backups") == one.span


def test_a_replication_has_as_many_blocks_as_tasks_and_means_unless_told_otherwise() -> None:
    one = deployed(f'{JOBS}replicate train over worker with mode = "sync", split = "B"\n').replications[0]
    assert (one.blocks, one.combine) == (8, "mean")


def test_jobs_may_be_declared_behind_their_uses() -> None:
    made = deployed(f'{HEAD}place "table" on ps task 1\nshard "output" axis 0 over ps by hash\njob ps tasks 2\n')
    assert made.placements[0].where.task == 1
    assert (made.shards[0].rule, made.shards[0].job_span.text) == ("hash", "ps")


def test_a_statement_may_go_on_in_further_lines() -> None:
    made = deployed(f'{HEAD}job ps  # comment\n  tasks 2\n  with cpu = 4,\n    memory = "1 GB"\n')
    assert (made.jobs["ps"].tasks, made.jobs["ps"].cpus) == (2, 4)


def test_spans_are_those_of_the_words() -> None:
    made = deployed(f'{JOBS}colocate "train/x" with "table"\ncompress worker to ps with format = "bf16"\n')
    line = made.colocations[0]
    assert (line.glob_span.text, line.name_span.text) == ('"train/x"', '"table"')
    assert line.span.text == 'colocate "train/x" with "table"'
    assert made.compressions[0].span.text.startswith("compress worker")
    assert made.program_span.text == '"skipgram.dfg"'


@pytest.mark.parametrize("path", DEPLOYMENTS, ids=lambda path: path.stem)
def test_the_samples_are_read(path) -> None:
    made, found = parse(SourceFile(path.name, path.read_text()))
    assert made is not None
    assert found == []


def test_all_mistakes_are_reported_in_their_order() -> None:
    lines = ["job ps task 4", "place table on ps", 'shard "x" axis y over ps', "job worker tasks 0", "colocate"]
    made, found = parse(SourceFile("x.deploy", HEAD + "\n".join(lines) + "\n"))
    assert made is None
    assert [each.span.line for each in found] == [2, 3, 4, 5, 6]


def test_no_more_than_twenty_mistakes_in_syntax_are_reported() -> None:
    found = parse(SourceFile("x.deploy", HEAD + "plac x\n" * 50))[1]
    assert len(found) == 20
    assert found[-1].notes[-1] == "further mistakes are not shown"


def test_jobs_that_could_not_be_read_are_not_missed() -> None:
    found = parse(SourceFile("x.deploy", f'{HEAD}job ps task 4\nplace "table" on ps\n'))[1]
    assert [each.code for each in found] == ["E0180"]


@pytest.mark.parametrize(("text", "code"), [("\0", "E0142"), ("\ud800", "E0141")])
def test_what_is_no_text_is_one_message(text: str, code: str) -> None:
    assert [each.code for each in parse(SourceFile("x.deploy", text))[1]] == [code]


def test_every_rule_has_a_builder_and_every_builder_a_rule() -> None:
    names = nodes_of(Lark(grammar_path("deploy").read_text(), parser="lalr"))
    assert names == {name.removeprefix("build_") for name in dir(StatementBuilder) if name.startswith("build_")}


def test_every_statement_of_the_grammar_is_known() -> None:
    rules = Lark(grammar_path("deploy").read_text(), parser="lalr").rules
    assert {rule.alias for rule in rules if rule.origin.name == "item"} == set(STATEMENTS)


@pytest.fixture(scope="module")
def reference() -> Lark:
    return Lark(grammar_path("deploy").read_text(), parser="lalr", lexer="basic", strict=True, maybe_placeholders=True)


@pytest.mark.parametrize("seed", few(range(8), 3))
def test_damaged_files_are_accepted_exactly_when_the_reference_accepts_them(reference: Lark, seed: int) -> None:
    random = Random(seed)
    text = DEPLOYMENTS[0].read_text()
    tokens = load_language("deploy").lex(text).tokens
    for _ in range(40):
        token = random.choice(tokens)
        word = random.choice([*(t.value for t in tokens), "", "'", ";"])
        changed = text[: token.start_pos] + word + text[token.end_pos :]
        source = SourceFile("damaged.deploy", changed)
        try:
            reference.parse(changed)
            accepted = True
        except UnexpectedInput:
            accepted = False
        problems = [each for each in read_statements(source)[1] if each.code not in {"E0001", "E0106"}]
        assert accepted == (not problems), changed
        for each in parse(source)[1]:
            assert render(each).isascii()


@pytest.mark.parametrize("seed", range(4))
def test_any_characters_are_a_message(seed: int) -> None:
    random = Random(seed)
    for _ in range(100):
        text = "".join(random.choices('jobplace"x" on\n/*.:=,#\\(é\x00 12 with', k=random.randrange(1, 60)))
        made, found = parse(SourceFile("x.deploy", text))
        assert made is None
        assert found
        for each in found:
            render(each)


WORDS = sorted(set(load_language("deploy").keywords) - set(load_language("dfg").keywords))


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("more", ["", "place nothing\n"])
def test_an_entry_may_be_called_like_a_word_of_deployment_files(word: str, more: str) -> None:
    """Programs reserve none of these words. A statement with a mistake has each of them read by itself."""
    line = f'replicate {word} over worker with mode = "independent"\n'
    written, problems = read_statements(SourceFile("x.deploy", f"{JOBS}{line}{more}"))
    assert [each.span.line for each in problems] == ([5] if more else [])
    (found,) = [each for each in written if getattr(each, "kind", "") == "replicate"]
    assert (found.word(0).text, found.word(0).span.text) == (word, word)


def test_what_is_no_name_of_an_entry_is_told_without_a_list_of_words() -> None:
    _, (problem,) = read_statements(SourceFile("x.deploy", f"{JOBS}replicate 3 over worker\n"))
    assert [each.text for each in problem.labels] == ["expected a name"]
