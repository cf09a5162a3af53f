"""JSON to frozen dataclasses, checked: the one reader of records, figures and configurations."""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar, Union

Json: TypeAlias = Any
"""What ``json.loads`` returned and nobody has checked yet, or what ``json.dumps`` may get."""

Kind = TypeVar("Kind")
_KNOWN: dict[Any, dict[str, Any]] = {}
_NUMBERS: dict[Any, set[type]] = {  # lists of these are read fast: figures have many
    float: {int, float},
    float | None: {int, float, type(None)},
}
_DEEPEST = 32  # levels of lists and objects where anything may stand


def from_json(kind: type[Kind], content: object, where: str, *, strict: bool = True) -> Kind:
    """Build a dataclass from what ``json.loads`` returned.

    Args:
        kind: A dataclass. Its fields may be numbers, texts, None, literals, other dataclasses, and
            tuples, sequences and mappings of these.
        content: The JSON object.
        where: What to call it in an error.
        strict: Whether an unknown key is an error; otherwise it is passed over.

    Raises:
        ValueError: If a key is unknown or missing, or a value has another type; says where.

    Example:
        >>> @dataclasses.dataclass(frozen=True)
        ... class Settings:
        ...     sizes: tuple[int, ...]
        ...     rate: float | None = None
        >>> from_json(Settings, {"sizes": [2, 4]}, "settings.json")
        Settings(sizes=(2, 4), rate=None)
    """
    if not isinstance(content, Mapping):
        raise ValueError(f"{where} must be a JSON object, got {_shown(content)}")
    hints = _hints(kind)
    unknown = sorted(set(content) - set(hints))
    if unknown and strict:
        raise ValueError(f"{where} must have the fields {', '.join(hints)}, got also {unknown[0]}")
    values = {
        name: _read(hint, content[name], f"{where}: {name}", strict)
        for name, hint in hints.items()
        if name in content
    }
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]  # any dataclass
        if field.name not in values and _is_required(field):
            raise ValueError(f"{where} must have the field {field.name}, got none")
    try:
        return kind(**values)
    except ValueError as error:  # a check of the class itself does not know where
        raise ValueError(f"{where}: {error}") from None


def type_name(hint: Any) -> str:
    """Write a type as its annotation does.

    Example:
        >>> type_name(tuple[int, ...]), type_name(int | None)
        ('tuple[int, ...]', 'int | None')
    """
    if hint is type(None):
        return "None"
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)


def _hints(kind: Any) -> dict[str, Any]:
    if kind not in _KNOWN:  # slow to find out, and asked for every line of a figure
        _KNOWN[kind] = typing.get_type_hints(kind)
    return _KNOWN[kind]


def _kind(choice: Any) -> Any:
    return _hints(choice).get("kind")


def _is_required(field: "dataclasses.Field[Any]") -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def _read(hint: Any, value: Any, where: str, strict: bool) -> Any:
    if hint is Any or hint is object:
        if _is_deeper(value, _DEEPEST):
            raise ValueError(f"{where} must have at most {_DEEPEST} levels, got more")
        return value
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return from_json(hint, value, where, strict=strict)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return _read_union(arguments, value, where, strict)
    if origin is Literal:
        if value in arguments:
            return value
    elif origin in (tuple, list, Sequence):
        if isinstance(value, (list, tuple)):
            return _read_list(origin, arguments, value, where, strict)
    elif origin in (dict, Mapping):
        if isinstance(value, Mapping):
            return {str(key): _read(arguments[1], one, where, strict) for key, one in value.items()}
    elif _fits(hint, value):
        return float(value) if hint is float else value
    raise ValueError(f"{where} must be {type_name(hint)}, got {_shown(value)}")


def _fits(hint: Any, value: Any) -> bool:
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return is_number(value) if hint is float else isinstance(value, hint)


def is_number(value: object) -> bool:
    """Whether a value is a number that a float can hold: JSON may hold 1e999 and 400 digits.

    Example:
        >>> [is_number(value) for value in (1, 0.5, True, None, float("nan"), 10**400)]
        [True, True, False, False, False, False]
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _is_deeper(value: object, levels: int) -> bool:
    if not isinstance(value, (Mapping, list, tuple)):
        return False
    inner = value.values() if isinstance(value, Mapping) else value
    return levels == 0 or any(_is_deeper(one, levels - 1) for one in inner)


def _read_union(choices: Sequence[Any], value: Any, where: str, strict: bool) -> Any:
    kinds = [choice for choice in choices if dataclasses.is_dataclass(choice)]
    if kinds and isinstance(value, Mapping):  # a literal may name the kind
        named = [one for one in kinds if value.get("kind") in typing.get_args(_kind(one))]
        choices = named or choices
    reasons = []
    for choice in choices:
        try:
            return _read(choice, value, where, strict)
        except ValueError as error:
            reasons.append(str(error))
    expected = " | ".join(map(type_name, choices))
    if len(reasons) == 1:
        raise ValueError(reasons[0])
    raise ValueError(f"{where} must be {expected}, got {_shown(value)}")


def _read_list(
    origin: Any, arguments: Sequence[Any], value: Sequence[Any], where: str, strict: bool
) -> Any:
    if origin is not tuple or arguments[-1] is Ellipsis:
        hints: Sequence[Any] = [arguments[0]] * len(value)
    else:
        hints = arguments
    if len(hints) != len(value):
        raise ValueError(f"{where} must have {len(hints)} entries, got {len(value)}")
    alike = hints is not arguments or len(set(hints)) == 1
    if alike and set(map(type, value)) <= _NUMBERS.get(arguments[0], set()):
        if not all(map(is_number, filter(None, value))):
            raise ValueError(f"{where} must hold finite numbers, got others")
        read: list[Any] = [one if one is None else float(one) for one in value]
    else:
        read = [_read(hint, one, where, strict) for hint, one in zip(hints, value, strict=True)]
    return tuple(read) if origin is tuple else read


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except RecursionError:
        return f"a {type(value).__name__} of many levels"
    return text if len(text) < 80 else f"{text[:77]}..."
