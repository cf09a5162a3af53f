"""Make the configuration of an experiment from ``field=value``, or from JSON. Needs no torch."""

import dataclasses
import json
import math
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from torchsets.lab.experiments.experiment import Experiment, check_seed, nearest
from torchsets.lab.typed import Json, from_json, type_name

Config = TypeVar("Config")
_WORDS = {"true": True, "1": True, "false": False, "0": False}


def config_from_overrides(
    experiment: Experiment[Config], overrides: Sequence[str], scale: str
) -> Config:
    """Start from a scale and change what the overrides, each ``field=value``, name.

    The elements of a tuple are separated by commas: ``sizes=2,4,8``.

    Raises:
        ValueError: For an unknown field, naming the nearest, or a value of the wrong type.
    """
    hints = typing.get_type_hints(experiment.config)
    changes = {}
    for override in overrides:
        name, equals, text = override.partition("=")
        if name not in hints:
            raise ValueError(
                f"{experiment.name} has no field {name!r}; did you mean {nearest(name, hints)!r}?"
            )
        if not equals:
            raise ValueError(f"fields are written field=value, got {name!r} alone")
        try:
            changes[name] = read_value(hints[name], text)
        except ValueError:
            raise ValueError(f"{name} must be {type_name(hints[name])}, got {text!r}") from None
    return experiment.config_at(scale, **changes)


def config_from_file(experiment: Experiment[Config], path: Path, scale: str) -> Config:
    """Start from a scale and change the fields that a JSON file holds.

    Raises:
        ValueError: If the file is no JSON, or has other fields or values.
        OSError: If there is no such file.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} must be a JSON file, got {error}") from None
    if isinstance(content, dict):
        content = {**config_to_json(experiment.config_at(scale)), **content}
    config = config_from_json(experiment, content, str(path))
    check_seed(getattr(config, "seed", 0))
    return config


def config_from_json(experiment: Experiment[Config], content: object, where: str) -> Config:
    """Make the configuration that ``config.json`` holds; JSON has lists where it has tuples.

    Raises:
        ValueError: For a field that the experiment does not have, or no longer has.
    """
    declared = dataclasses.fields(experiment.config)  # type: ignore[arg-type]  # it is a dataclass
    names = [field.name for field in declared]
    unknown = sorted(set(content) - set(names)) if isinstance(content, Mapping) else []
    if unknown:
        raise ValueError(
            f"{where} must have the fields of {experiment.name}, got also {', '.join(unknown)}; "
            f"did you mean {nearest(unknown[0], names)!r}, or was it written by another version?"
        )
    return from_json(experiment.config, content, where)


def config_to_json(config: Any) -> dict[str, Json]:
    """Return a configuration as ``config.json`` holds it."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in dataclasses.asdict(config).items()
    }


def read_value(hint: Any, text: str) -> Any:
    """Read a value of a type; raise ``ValueError`` if the text is none.

    Example:
        >>> read_value(tuple[int, ...], "2,4"), read_value(float | None, "none")
        ((2, 4), None)
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if text.lower() == "none" and type(None) in arguments:
            return None
        return read_value(next(one for one in arguments if one is not type(None)), text)
    if origin is tuple:
        return tuple(read_value(arguments[0], part.strip()) for part in text.split(",") if part)
    if hint is bool:
        if text.lower() not in _WORDS:
            raise ValueError(text)
        return _WORDS[text.lower()]
    value = hint(text)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(text)  # no JSON, so no record, holds it
    return value
