"""Which code can change the numbers of an experiment: a digest of the definitions that it uses.

From the function that runs the experiment, every top-level definition of torchsets that it can
reach is followed through the imports, name by name. Comments, docstrings, annotations, layout,
definitions that nobody uses, and files that only write, draw or watch do not count.
"""

import ast
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_NO_NUMBERS = (  # they record, draw or watch what was computed elsewhere
    "torchsets._extras",
    "torchsets._progress",
    "torchsets.lab.figures",
    "torchsets.lab.records",
    "torchsets.lab.reports",
    "torchsets.lab.training.host",
    "torchsets.lab.training.progress",
    "torchsets.lab.typed",
)
Node = tuple[str, str]  # a module, and one of its top-level names; "" is what runs on import


def code_digest(run: str) -> str:
    """Digest the code of an experiment, given where it runs, as ``module:function``.

    Example:
        >>> len(code_digest("torchsets.lab.experiments.sorting.numbers:run"))
        16
    """
    digest = hashlib.sha256()
    for module, name in definitions(run):
        code = _read(module).definitions[name].code
        digest.update(f"{module}:{name}\0{code}\0".encode())
    return digest.hexdigest()[:16]


def definitions(run: str) -> list[Node]:
    """List the definitions that an experiment can reach, sorted."""
    module, _, function = run.partition(":")
    waiting: list[Node] = [(module, function)]
    seen, found = set(), set()
    while waiting:
        node = waiting.pop()
        if node in seen or not _counts(node[0]):
            continue
        seen.add(node)
        module, name = node
        definition = _read(module).definitions.get(name)
        if definition is None:
            waiting.extend(_resolve(module, name))  # it imports the name
            continue
        found.add(node)
        waiting.append((module, ""))
        for used in definition.uses:
            waiting.extend(_resolve(module, used))
    return sorted(found)


@dataclass
class _Definition:
    code: str = ""
    uses: set[str] = field(default_factory=set)  # names, and dotted names of attributes


@dataclass
class _Module:
    definitions: dict[str, _Definition] = field(default_factory=lambda: {"": _Definition()})
    # What each imported name may stand for: a module, and a name in it, "" for the module itself.
    imports: dict[str, set[tuple[str, str]]] = field(default_factory=dict)


@cache
def _counts(module: str) -> bool:
    own = module.split(".")[0] == "torchsets"
    quiet = any(module == one or module.startswith(f"{one}.") for one in _NO_NUMBERS)
    # A subject's figures draw what the experiment has measured.
    return own and not quiet and not module.endswith(".figures")


def _resolve(module: str, used: str) -> Iterator[Node]:
    """The definitions that a name of a module, or a dotted name, may stand for."""
    first, *rest = used.split(".")
    about = _read(module)
    if first in about.definitions:
        yield module, first
    for source, name in about.imports.get(first, ()):
        yield from _descend(source, [name, *rest] if name else rest)


def _descend(module: str, names: Sequence[str]) -> Iterator[Node]:
    """Follow a dotted name into the modules of a package; a module alone is all that it has."""
    about = _read(module)
    if not names:
        if _counts(module):
            yield from ((module, name) for name in (*about.definitions, *about.imports))
        return
    inner = f"{module}.{names[0]}"
    known = names[0] in about.definitions or names[0] in about.imports
    if known or _path(inner) is None:
        yield module, names[0]
    if _path(inner) is not None:
        yield from _descend(inner, names[1:])


@cache
def _path(module: str) -> Path | None:
    if module.split(".")[0] != "torchsets":
        return None
    place = _ROOT.joinpath(*module.split(".")[1:])
    files = (place / "__init__.py", place.with_suffix(".py"))
    return next((file for file in files if file.is_file()), None)


@cache
def _read(module: str) -> _Module:
    path = _path(module)
    return _Module() if path is None else _parse(path.read_text(encoding="utf-8"))


@cache
def _parse(source: str) -> _Module:
    tree, about = ast.parse(source), _Module()
    for name, meant in _imports(tree):
        about.imports.setdefault(name, set()).add(meant)
    for statement in tree.body:
        names = _names(statement)
        plain = _Plain().visit(statement)
        for name in names:
            definition = about.definitions.setdefault(name, _Definition())
            definition.code += _text(plain)
            definition.uses |= _uses(plain)
    return about


def _imports(tree: ast.Module) -> Iterator[tuple[str, tuple[str, str]]]:
    """What each imported name stands for, those inside functions included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                yield alias.asname or top, (alias.name if alias.asname else top, "")
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                yield alias.asname or alias.name, (node.module, alias.name)


def _names(statement: ast.stmt) -> list[str]:
    """The top-level names that a statement defines; "" if it runs whatever is used."""
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Assign(targets=targets):
            parts = [part for target in targets for part in ast.walk(target)]
            names = [part.id for part in parts if isinstance(part, ast.Name) and _is_set(part)]
            changes = any(isinstance(part, ast.Attribute | ast.Subscript) for part in parts)
            return ["", *names] if changes else names
        case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
            return []  # followed where they are used; the docstring
    return [""]


def _is_set(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


class _Plain(ast.NodeTransformer):
    """Drop what cannot change a number: docstrings and annotations."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        return self._without_docstring(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._without_docstring(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(value=None)
        return self.generic_visit(node)

    def _without_docstring(self, node: ast.FunctionDef | ast.ClassDef) -> ast.AST:
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        return self.generic_visit(node)


def _text(node: object) -> str:
    """Write a tree without what is empty, in which versions of Python differ."""
    if isinstance(node, ast.AST):
        given = [(name, value) for name, value in ast.iter_fields(node) if value not in (None, [])]
        inner = ", ".join(f"{name}={_text(value)}" for name, value in given)
        return f"{type(node).__name__}({inner})"
    return f"[{', '.join(map(_text, node))}]" if isinstance(node, list) else repr(node)


def _uses(tree: ast.AST) -> set[str]:
    """All names that are read, with the attributes that follow: ``losses.chamfer``."""
    found, inner = set(), set()
    for node in ast.walk(tree):  # an attribute comes before its base
        if id(node) in inner or not isinstance(node, ast.Attribute | ast.Name):
            continue
        names: list[str] = []
        base: ast.expr = node
        while isinstance(base, ast.Attribute):
            names.append(base.attr)
            base = base.value
            inner.add(id(base))
        if isinstance(base, ast.Name):
            found.add(".".join([base.id, *reversed(names)]))
    return found
