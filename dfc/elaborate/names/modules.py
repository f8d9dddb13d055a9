"""Files: parsing each once, declaring its items, and imports between them.

`std` is found beside this package; other modules in the folder of the program, then in the folders of the search path.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cache
from pathlib import Path

from dfc.deferred.dataclasses import dataclass
from dfc.diagnostics.diagnostic import CompileError
from dfc.diagnostics.source import SourceFile, Span
from dfc.diagnostics.suggestions import closest, did_you_mean
from dfc.elaborate.context import Program
from dfc.elaborate.mistakes import Mistake, mistake
from dfc.elaborate.names.declarations import Declared, StateItem, declare, once
from dfc.elaborate.names.former import former_name, present_name
from dfc.elaborate.names.names import exported, missing_export
from dfc.elaborate.names.scope import Binding, BindingRole, Pending, Scope
from dfc.elaborate.state.declaration import Declaration
from dfc.elaborate.state.state import declare_state
from dfc.elaborate.types.entities import Entity, ModuleValue
from dfc.syntax.reader.parser import parse
from dfc.syntax.reader.reading import read_source
from dfc.syntax.tree import tree

PACKAGE = Path(__file__).parents[2]
NEAR = ("*.dfg", "*/*.dfg")  # where a module may lie whose name was misspelt


@dataclass(slots=True)
class LoadedModule:
    """A file with its items and the scope they are declared in."""

    name: str
    tree: tree.Module
    scope: Scope
    is_library: bool = False
    imports: list[str] = field(default_factory=list[str])


class Loader:
    """Loads modules for one program."""

    def __init__(self, program: Program, prelude: Scope, folder: Path) -> None:
        self.program = program
        self.prelude = prelude
        self.folders = (folder, *program.search)
        self.loaded: dict[str, LoadedModule] = {}
        self._loading: list[tuple[str, Span]] = []

    def load_main(self, module: tree.Module) -> LoadedModule:
        """The file of the program itself, which was parsed already."""
        return self._declare("", module, folder=self.folders[0])

    def load(self, name: str, span: Span, folder: Path | None = None) -> LoadedModule:
        """The module of that name; `folder` is where a sibling is looked for."""
        path, shown, library = self._find(name, span, folder)
        key = str(path)
        if any(known == key for known, _ in self._loading):
            raise self._cycle(key, name, span)
        binding = self.loaded.get(key)
        if binding is not None:
            return binding
        self._loading.append((key, span))
        try:
            source = read_source(path, shown)
            module = library_tree(source) if library else parse(source)
            self.loaded[key] = self._declare(name.lstrip("."), module, folder=path.parent, library=library)
        except CompileError as problem:
            for diagnostic in problem.diagnostics:
                self.program.reporter.report(diagnostic)
            raise mistake("E0203", f"the module `{name}` has mistakes of its own", span) from None
        finally:
            self._loading.pop()
        return self.loaded[key]

    def load_core(self) -> LoadedModule:
        """The functions of the prelude that are written in the language."""
        path = PACKAGE / "std" / "core.dfg"
        binding = self.loaded.get(str(path))
        if binding is None:
            module = library_tree(read_source(path, "std/core.dfg"))
            binding = self._declare("std.core", module, folder=path.parent, library=True)
            self.loaded[str(path)] = binding
        return binding

    def texts(self) -> dict[str, str]:
        """The imported files that are not of the library, by their path in the folder they were found in."""
        texts: dict[str, str] = {}
        for key, module in self.loaded.items():
            for folder in self.folders:
                if not module.is_library and Path(key).is_relative_to(folder):
                    texts.setdefault(Path(key).relative_to(folder).as_posix(), module.tree.span.file.text)
                    break
        return texts

    def _find(self, name: str, span: Span, folder: Path | None) -> tuple[Path, str, bool]:
        parts = [part for part in name.split(".") if part]
        relative = Path(*parts).with_suffix(".dfg")
        if folder is not None:
            candidate = folder / relative.name
            if candidate.is_file():
                return candidate, _shown(candidate), False
            raise self._missing(name, span, [folder])
        for searched in self.folders:
            candidate = searched / relative
            if candidate.is_file():
                return candidate, _shown(candidate), False
        if parts[0] == "std" and (PACKAGE / relative).is_file():
            return PACKAGE / relative, relative.as_posix(), True
        raise self._missing(name, span, [*self.folders, PACKAGE])

    def _missing(self, name: str, span: Span, folders: Sequence[Path]) -> Mistake:
        candidates = [(folder, path) for folder in folders[:2] for form in NEAR for path in sorted(folder.glob(form))]
        known = [".".join(path.relative_to(folder).with_suffix("").parts) for folder, path in candidates]
        known += [f"std.{path.stem}" for path in sorted((PACKAGE / "std").glob("*.dfg"))]
        near = closest(name.lstrip("."), known)
        return mistake("E0203", f"there is no module `{name}`", span, did_you_mean(near))

    def _cycle(self, key: str, name: str, span: Span) -> Mistake:
        start = next(i for i, (known, _) in enumerate(self._loading) if known == key)
        names = [Path(known).stem for known, _ in self._loading[start:]]
        return mistake(
            "E0206",
            f"the module `{name}` imports itself",
            span,
            secondary=[(import_span, "through this import") for _, import_span in self._loading[start + 1 :]],
            notes=(" -> ".join([*names, names[0]]),),
        )

    # --------------------------------------------------------------- items --

    def _declare(self, name: str, module: tree.Module, folder: Path, library: bool = False) -> LoadedModule:
        loaded = LoadedModule(name, module, Scope(self.prelude), library)
        for item in module.items:
            try:
                if isinstance(item, tree.ImportItem):
                    self._import(loaded, item, folder)
                elif isinstance(item, tree.FromItem):
                    self._import_from(loaded, item, folder)
            except Mistake as problem:
                self.program.reporter.report(problem.diagnostic)
                for identifier in _imported(item):
                    loaded.scope.forget(identifier.text, identifier.span)
        self._declare_items(loaded)
        return loaded

    def _declare_items(self, loaded: LoadedModule) -> None:
        program = self.program
        prefix = f"{loaded.name}." if loaded.name else ""
        declaration = Declaration(program, loaded.scope, prefix)
        for item in items_of(loaded.tree):
            try:
                declare(program, loaded.scope, item, lambda s: declare_state(declaration, s))
            except Mistake as problem:
                program.reporter.report(problem.diagnostic)
                continue
            binding = loaded.scope.own(item.name.text)
            if isinstance(item, StateItem) and binding is not None:
                program.state_bindings.append(binding)

    def _import(self, loaded: LoadedModule, item: tree.ImportItem, folder: Path) -> None:
        module = self.load(item.module.text, item.module.span, folder if item.module.sibling else None)
        value = ModuleValue(item.module.text, module.scope)
        if item.alias is not None or item.module.sibling or len(item.module.parts) == 1:
            name = item.alias or item.module.parts[-1]
            loaded.scope.bind(name.text, value, name.span, BindingRole.IMPORT)
            return
        scope = loaded.scope
        for position, part in enumerate(item.module.parts[:-1]):
            known = scope.own(part.text)
            if known is None or not isinstance(known.entity, ModuleValue):
                path = ".".join(p.text for p in item.module.parts[: position + 1])
                known = scope.bind(part.text, ModuleValue(path, Scope()), part.span, BindingRole.IMPORT)
            assert isinstance(known.entity, ModuleValue)
            scope = known.entity.scope
        scope.bind(item.module.parts[-1].text, value, item.module.span, BindingRole.TYPE)

    def _import_from(self, loaded: LoadedModule, item: tree.FromItem, folder: Path) -> None:
        module = self.load(item.module.text, item.module.span, folder if item.module.sibling else None)
        for each in item.names:
            name = each.alias or each.name
            binding = module.scope.own(each.name.text)
            if binding is None or each.name.text not in exported(module.scope):
                problem = missing_export(item.module.text, module.scope, each.name)
                self.program.reporter.report(problem.diagnostic)
                loaded.scope.forget(name.text, name.span)
                continue
            present = present_name(binding.span.file.name, each.name.text)
            if present is not None:
                self.program.reporter.report(former_name(each.name.text, each.name.span, present))
            loaded.scope.bind(name.text, self._borrowed(binding, name), name.span, BindingRole.IMPORT)

    def _borrowed(self, binding: Binding, name: tree.Identifier) -> Entity | Pending:
        if binding.is_resolved:
            return binding.value
        return Pending(once(self.program, name, lambda: binding.value))


@cache
def library_tree(source: SourceFile) -> tree.Module:
    """The tree of a file of the library, parsed once in a process: trees never change, and many programs ask."""
    return parse(source)


def items_of(module: tree.Module) -> Iterator[Declared]:
    """The items that declare a name in the file."""
    for item in module.items:
        if not isinstance(item, tree.ImportItem | tree.FromItem | tree.TestItem):
            yield item


def _imported(item: tree.Item) -> Iterator[tree.Identifier]:
    if isinstance(item, tree.ImportItem):
        yield item.alias or item.module.parts[0]
    elif isinstance(item, tree.FromItem):
        yield from (each.alias or each.name for each in item.names)


def _shown(path: Path) -> str:
    """A path as the user would type it."""
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return str(path)
