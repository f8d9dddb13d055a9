"""From a source text to a typed graph: the public entry of the front end.

Order of work: parse; resolve: declare the items of every file, constants, types, state; elaborate: each function and
block by itself, entries and tests. Guarantees that every mistake of the author is a diagnostic, that one run reports
several independent ones, and that a graph is only given for a program without errors.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite
from pathlib import Path

from dfc.deferred.collection import uncollected
from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import CompileError, Diagnostic, Diagnostics, error
from dfc.diagnostics.source import NOWHERE, SourceFile, Span
from dfc.elaborate import entries
from dfc.elaborate.checking import check_block, check_routine, check_type
from dfc.elaborate.context import Argument, Context, Expected, Program
from dfc.elaborate.expressions import calls, expressions, prelude, routines
from dfc.elaborate.expressions.operations import assuming
from dfc.elaborate.mistakes import Mistake, Reporter, mistake
from dfc.elaborate.names.modules import LoadedModule, Loader
from dfc.elaborate.names.scope import Binding, Pending, Scope
from dfc.elaborate.shapes.cost_limit import refuse_cost
from dfc.elaborate.state.initial import in_order, initial_block
from dfc.elaborate.state.mutexes import unbalanced
from dfc.elaborate.state.readers import shared_readers
from dfc.elaborate.state.unfilled import empty_rings, unfilled
from dfc.elaborate.state.variables import Variable, variables_in
from dfc.elaborate.statements import blocks, branches, statements
from dfc.elaborate.types.entities import UNKNOWN, BlockClass, Entity, EntryValue, Routine
from dfc.ir.facts import NO_FACTS
from dfc.ir.graph import Entry, Graph, Resource
from dfc.syntax.reader.parser import parse, parse_recovering
from dfc.syntax.reader.reading import DEPLOYMENT
from dfc.syntax.tree import tree

RECURSION_LIMIT = 40_000
Settings = Mapping[str, int | float | bool | str]


class FrontEnd:
    """The table of the mutually dependent parts (`dfc.elaborate.context.Engine`)."""

    def evaluate(self, context: Context, expression: tree.Expression, expected: Expected = None) -> Entity:
        return expressions.evaluate(context, expression, expected)

    def right_hand_side(self, context: Context, value: tree.RightHandSide, expected: Expected = None) -> Entity:
        return statements.right_hand_side(context, value, expected)

    def run_suite(self, context: Context, suite: tree.Suite) -> None:
        statements.run_suite(context, suite)

    def choose(self, context: Context, expression: tree.Conditional, expected: Expected) -> Entity:
        return branches.choose(context, expression, expected)

    def call(
        self, context: Context, function: Entity, arguments: Sequence[Argument], span: Span, expected: Expected = None
    ) -> Entity:
        return calls.call(context, function, arguments, span, expected)

    def call_prelude(
        self, context: Context, name: str, arguments: Sequence[Argument], span: Span, expected: Expected
    ) -> Entity:
        return prelude.call_prelude(context, name, arguments, span, expected)

    def call_routine(
        self, context: Context, routine: Routine, arguments: Sequence[Argument], span: Span, expected: Expected
    ) -> Entity:
        return routines.call_routine(context, routine, arguments, span, expected)

    def call_entry(self, context: Context, entry: EntryValue, arguments: Sequence[Argument], span: Span) -> Entity:
        return entries.call_entry(context, entry, arguments, span)

    def construct(self, context: Context, block: BlockClass, arguments: Sequence[Argument], span: Span) -> Entity:
        return blocks.construct(context, block, arguments, span)


def build(source: SourceFile, settings: Settings | None = None, *, search: Sequence[Path] = ()) -> Graph:
    """The graph of a program; raises `CompileError` with all messages of the run if it has mistakes."""
    graph, diagnostics = elaborate(source, settings or {}, search)
    if graph is None:
        raise CompileError(diagnostics)
    return graph


def check(
    source: SourceFile, settings: Settings | None = None, *, search: Sequence[Path] = ()
) -> tuple[Diagnostic, ...]:
    """All messages about a program, warnings included."""
    return examine(source, settings, search=search).diagnostics


@dataclass(frozen=True, slots=True)
class Examined:
    """A program that was only checked: what could be read of its file, if anything, its graph if nothing is wrong, and
    all messages."""

    module: tree.Module | None
    graph: Graph | None
    diagnostics: tuple[Diagnostic, ...]

    @property
    def is_broken(self) -> bool:
        return any(each.is_error for each in self.diagnostics)


def examine(source: SourceFile, settings: Settings | None = None, *, search: Sequence[Path] = ()) -> Examined:
    """All messages about a program, with its tree for those who have more to say of it: a text is parsed once."""
    if source.name.endswith(DEPLOYMENT):
        return Examined(None, None, (_no_program(source),))
    mistakes = Diagnostics()
    with deep_recursion(), uncollected():
        module = parse_recovering(source, mistakes)
    if module is None or mistakes.has_errors:
        return Examined(module, None, tuple(mistakes))
    try:
        return Examined(module, *elaborate_program(resolve_program(module, settings or {}, search)))
    except CompileError as problem:
        return Examined(module, None, problem.diagnostics)


def elaborate(
    source: SourceFile, settings: Settings, search: Sequence[Path] = ()
) -> tuple[Graph | None, tuple[Diagnostic, ...]]:
    """The graph, or None if there are errors, and all messages; syntax errors are raised as `CompileError`. These are
    the stages parse, resolve and elaborate in one call."""
    return elaborate_program(resolve_program(parse_program(source), settings, search))


@dataclass(frozen=True, slots=True)
class Resolved:
    """A program whose files are read, with what every item of theirs stands for. Elaboration takes it over."""

    program: Program
    loader: Loader
    main: LoadedModule

    @property
    def modules(self) -> Mapping[str, LoadedModule]:
        """All files, by the names they are imported under; the main one is called ""."""
        return {"": self.main, **{module.name: module for module in self.loader.loaded.values()}}


def parse_program(source: SourceFile) -> tree.Module:
    """The tree of the file of a program; raises `CompileError` with its syntax errors."""
    if source.name.endswith(DEPLOYMENT):
        raise CompileError([_no_program(source)])
    with deep_recursion(), uncollected():
        return parse(source)


def resolve_program(module: tree.Module, settings: Settings, search: Sequence[Path] = ()) -> Resolved:
    """Reads the files that are imported, declares every item, and finds out constants, types and state. Mistakes are
    reported when the program is elaborated, together with those that are found there."""
    source = module.span.file
    path = Path(source.name)
    with _expanding():
        graph = Graph(path.stem, source=source.text)
        program = Program(FrontEnd(), Reporter(), graph, settings, tuple(search), Scope())
        loader = _loader(program, path.parent)
        main = loader.load_main(module)
        program.main = main.scope
        _resolve_items(program, loader, main)
    return Resolved(program, loader, main)


def elaborate_program(resolved: Resolved) -> tuple[Graph | None, tuple[Diagnostic, ...]]:
    """Functions by themselves, state, entries and tests: the graph, or None if there are errors, and all messages."""
    program, loader, main = resolved.program, resolved.loader, resolved.main
    with _expanding():
        for module in _own_modules(loader, main):
            _check_definitions(program, module)
        _add_resources(program)
        _add_entries(program, main)
        program.graph.modules = loader.texts()
    diagnostics = tuple(program.reporter.sorted())
    return (None if program.reporter.error_count else program.graph), diagnostics


@contextmanager
def _expanding() -> Generator[None]:
    with deep_recursion(), uncollected(), assuming(NO_FACTS):
        yield


def _no_program(source: SourceFile) -> Diagnostic:
    title = "this is a deployment file, and a program is expected"
    helps = [f"name the program, and the file behind it: `--deploy {Path(source.name).name}`"]
    return error("E0809", title, source.span(0, 0), helps=helps)


@contextmanager
def deep_recursion() -> Generator[None]:
    """Nested expressions and calls may be deeper than Python allows by default; their depth is bounded elsewhere."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _loader(program: Program, folder: Path) -> Loader:
    loader: Loader

    def composite(name: str) -> Pending:
        def resolve() -> Entity:
            binding = loader.load_core().scope.own(name)
            assert binding is not None, name
            return binding.value

        return Pending(resolve)

    loader = Loader(program, prelude.prelude_scope(composite), folder)
    return loader


def _resolve_items(program: Program, loader: Loader, main: LoadedModule) -> None:
    modules = _own_modules(loader, main)
    _check_settings(program, [*loader.loaded.values(), main])
    for module in modules:
        _resolve_all(program, module)
    program.resolve_state()
    for module in modules:
        _refuse_over_limit(program, module)


def _own_modules(loader: Loader, main: LoadedModule) -> list[LoadedModule]:
    """The files that are not of the library, the main one last."""
    return [module for module in loader.loaded.values() if not module.is_library] + [main]


def _resolve_all(program: Program, module: LoadedModule) -> None:
    """Constants, types and state, so that mistakes in them are found even if nothing uses them."""
    for name, problem in unfilled(module.tree).items():
        program.reporter.report(problem.diagnostic)
        binding = module.scope.own(name)
        if binding is not None:
            binding.entity = UNKNOWN
    for item in module.tree.items:
        if isinstance(item, tree.TypeItem):
            check_type(program, module.scope, item)
        elif isinstance(item, tree.ConstItem | tree.QueueItem):
            _resolve(program, module.scope.own(item.name.text))


def _resolve(program: Program, binding: Binding | None) -> None:
    try:
        if binding is not None:
            _ = binding.value
    except Mistake as problem:
        program.reporter.report(problem.diagnostic)


def _refuse_over_limit(program: Program, module: LoadedModule) -> None:
    """Looks at every function before any is expanded: those at the bottom of a tower would take long enough."""
    for binding in module.scope.names.values():
        if isinstance(binding.entity, Routine):
            refuse_cost(program, binding.entity, binding.span)


def _check_definitions(program: Program, module: LoadedModule) -> None:
    for item in module.tree.items:
        if isinstance(item, tree.BlockItem):
            check_block(program, module.scope, item)
        elif isinstance(item, tree.FunctionItem | tree.ProcedureItem):
            binding = module.scope.own(item.name.text)
            if binding is not None and isinstance(binding.entity, Routine) and binding.entity.item is item:
                check_routine(program, binding.entity)


def _check_settings(program: Program, modules: Sequence[LoadedModule]) -> None:
    """A setting that no file asks for, or that no program could use, is a mistake of whoever gave it."""
    if not program.settings:
        return
    known = {"SEED"}
    for module in modules:
        for node in tree.walk(module.tree):
            if isinstance(node, tree.Call) and isinstance(node.function, tree.Name) and node.function.text == "setting":
                known |= {a.value for a in node.arguments[:1] if isinstance(a, tree.StringLiteral)}
    for name in program.settings:
        if name not in known:
            helps = (f"the program asks for {', '.join(sorted(known))}",)
            title = f"no part of the program asks for the setting `{name}`"
            program.reporter.report(mistake("E0211", title, NOWHERE, helps=helps).diagnostic)
    for name, value in program.settings.items():
        if isinstance(value, float) and not isfinite(value):
            program.reporter.report(mistake("E0315", f"the setting `{name}` must be finite", NOWHERE).diagnostic)
        elif name == "SEED" and type(value) is not int:
            title = f"the setting `SEED` must be a whole number, not {value!r}"
            program.reporter.report(mistake("E0315", title, NOWHERE).diagnostic)


def _add_resources(program: Program) -> None:
    """The state of the program, in the order of its declaration."""
    ordered: dict[str, Variable] = {}
    for binding in program.state_bindings:
        if binding.is_resolved:
            ordered.update((variable.name, variable) for variable in variables_in(binding.value))
    program.variables = {**ordered, **{n: v for n, v in program.variables.items() if n not in ordered}}
    for variable in program.variables.values():
        program.graph.resources[variable.name] = Resource(
            variable.name,
            variable.kind,
            variable.type,
            variable.trained,
            initial_block(program, variable),
            variable.span,
            variable.container,
            variable.saved,
            variable.doc,
            variable.queue,
        )
    try:
        in_order(program, list(program.variables.values()))
    except Mistake as problem:
        program.reporter.report(problem.diagnostic)


def _add_entries(program: Program, main: LoadedModule) -> None:
    graph = program.graph
    has_init = False
    for item in main.tree.items:
        if isinstance(item, tree.EntryItem):
            has_init = has_init or item.name.text == "init"
            _keep(graph.entries, item.name.text, entries.build_entry(program, main.scope, item))
        elif isinstance(item, tree.RunnerItem):
            from dfc.elaborate.runners import build_runner  # most programs have no runner

            _keep(graph.entries, item.name.text, build_runner(program, main.scope, item))
    if not program.reporter.error_count:  # else a body that has mistakes is not among them
        for diagnostic in (*empty_rings(graph), *unbalanced(graph), *shared_readers(graph)):
            program.reporter.report(diagnostic)
    if program.variables and not has_init:
        _keep(graph.entries, "init", entries.build_init(program))
    for item in main.tree.items:
        if isinstance(item, tree.TestItem):
            title = item.title.value
            if title in graph.tests:
                message = f"there are two tests called `{title}`"
                program.reporter.report(mistake("E0205", message, item.title.span).diagnostic)
                continue
            _keep(graph.tests, title, entries.build_test(program, main.scope, item))


def _keep(entries: dict[str, Entry], name: str, entry: Entry | None) -> None:
    if entry is not None:
        entries[name] = entry
