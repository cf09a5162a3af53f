"""Which code can change the numbers of an experiment: a digest of the definitions that it uses.

From the function that runs the experiment, every top-level definition of torchsets that it can
reach is followed through the imports, name by name. Comments, docstrings, annotations, layout,
definitions that nobody uses, and files that only write, draw or watch do not count.
"""

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_NO_NUMBERS = (  # they record, draw or watch what was computed elsewhere
    "torchsets._extras",
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
    waiting, found = [(module, function)], set()
    while waiting:
        node = waiting.pop()
        if node in found or not _counts(node[0]):
            continue
        if node[1] not in _read(node[0]).definitions:
            waiting.extend(_follow(*node))
            continue
        found.add(node)
        waiting.append((node[0], ""))
        for used in _read(node[0]).definitions[node[1]].uses:
            waiting.extend(_resolve(node[0], used))
    return sorted(found)


@dataclass
class _Definition:
    code: str = ""
    uses: set[str] = field(default_factory=set)  # names, and dotted names of attributes


@dataclass
class _Module:
    definitions: dict[str, _Definition] = field(default_factory=lambda: {"": _Definition()})
    imports: dict[str, tuple[str, str | None]] = field(default_factory=dict)


def _counts(module: str) -> bool:
    quiet = any(module == one or module.startswith(f"{one}.") for one in _NO_NUMBERS)
    # A subject's figures draw what the experiment has measured.
    return not quiet and not module.endswith(".figures")


def _resolve(module: str, used: str) -> Iterator[Node]:
    """The definitions that a name, or an attribute of an imported module, stands for."""
    name, _, attribute = used.partition(".")
    about = _read(module)
    if name in about.definitions:
        yield module, name
    elif name in about.imports:
        source, imported = about.imports[name]
        if imported is None:  # a module: what of it is used?
            yield from ((source, attribute),) if attribute else _all_of(source)
        else:
            yield source, imported


def _follow(module: str, name: str) -> Iterator[Node]:
    """A name that a module imports, or a module inside a package."""
    inner = f"{module}.{name}"
    if name in _read(module).imports:
        yield from _resolve(module, name)
    elif _path(inner) is not None:
        yield from _all_of(inner)


def _all_of(module: str) -> Iterator[Node]:
    if _counts(module):
        yield from ((module, name) for name in _read(module).definitions)


@cache
def _path(module: str) -> Path | None:
    if module.split(".")[0] != "torchsets":
        return None
    place = _ROOT.joinpath(*module.split(".")[1:])
    files = (place / "__init__.py", place.with_suffix(".py"))
    return next((file for file in files if file.is_file()), None)


@cache
def _read(module: str) -> _Module:
    path, about = _path(module), _Module()
    if path is None:
        return about
    tree = ast.parse(path.read_text(encoding="utf-8"))
    about.imports = dict(_imports(tree))
    for statement in tree.body:
        for name in _names(statement):
            definition = about.definitions.setdefault(name, _Definition())
            plain = _Plain().visit(statement)
            if plain is not None:
                definition.code += ast.dump(plain)
                definition.uses |= _uses(plain)
    return about


def _imports(tree: ast.Module) -> Iterator[tuple[str, tuple[str, str | None]]]:
    """What each imported name stands for, those inside functions included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.asname or alias.name.split(".")[0], (alias.name, None)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                known = (inner, None) if _path(inner) is not None else (node.module, alias.name)
                yield alias.asname or alias.name, known


def _names(statement: ast.stmt) -> list[str]:
    """The top-level names that a statement defines; "" if it runs whatever is used."""
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Assign(targets=[ast.Name(id=name)]):
            return [name]
        case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
            return []  # followed where they are used; the docstring
    names = [node.id for node in ast.walk(statement) if isinstance(node, ast.Name)]
    return ["", *(names if isinstance(statement, ast.Assign) else [])]


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


def _uses(tree: ast.AST) -> set[str]:
    """All names that are read, and attributes of names: ``losses.chamfer`` for a module."""
    found, bases = set(), set()
    for node in ast.walk(tree):  # an attribute comes before its base
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.add(f"{node.value.id}.{node.attr}")
            bases.add(id(node.value))
        elif isinstance(node, ast.Name) and id(node) not in bases:
            found.add(node.id)
    return found
