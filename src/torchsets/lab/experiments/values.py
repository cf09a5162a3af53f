"""Make the ``Config`` of an experiment from the words of a command line, or from a record."""

import contextlib
import dataclasses
import difflib
import io
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from torchsets._extras import import_extra
from torchsets.lab.experiments import load_experiment, read_fields


def config_from_words(name: str, words: Sequence[str], scale: str) -> Any:
    """Start from a scale and change what the words, each ``field=value``, name.

    The elements of a tuple are separated by commas: ``sizes=2,4,8``.

    Raises:
        ValueError: For an unknown field, naming the nearest, or a value of the wrong type.
    """
    types = {field.name: field.type for field in read_fields(name)}
    pairs = [word.partition("=") for word in words]
    for field, equals, _ in pairs:
        if field not in types:
            nearest = difflib.get_close_matches(field, types, n=1, cutoff=0)[0]
            raise ValueError(
                f"field must be one of {name}'s, got {field!r}; the nearest is {nearest!r}"
            )
        if not equals:
            raise ValueError(f"fields must be written field=value, got {field!r}")
    if pairs:
        import_extra("tyro", "app")  # before torch, which takes its time
    experiment = load_experiment(name)
    hints = typing.get_type_hints(experiment.Config)
    changes = {
        field: _read_value(field, value, hints[field], types[field]) for field, _, value in pairs
    }
    return experiment.Config(**{**experiment.SCALES[scale], **changes})


def config_from_record(name: str, recorded: Mapping[str, Any]) -> Any:
    """Make the ``Config`` that ``config.json`` holds; JSON has lists where it has tuples.

    Raises:
        ValueError: For a field that the experiment does not have, or has no longer.
    """
    config_class = load_experiment(name).Config
    hints = typing.get_type_hints(config_class)
    unknown = sorted(set(recorded) - set(hints))
    if unknown:
        raise ValueError(
            f"config.json must have the fields of {name}, got also {', '.join(unknown)}: "
            "it was written by another version of torchsets"
        )
    values = {
        key: tuple(value) if _is_tuple(hints[key]) else value for key, value in recorded.items()
    }
    return config_class(**values)


def _read_value(field: str, value: str, hint: Any, type_text: str) -> Any:
    """Let tyro read one value, so that optional, literal and tuple types work."""
    tyro = import_extra("tyro", "app")
    holder = dataclasses.make_dataclass("Holder", [(field, hint)])
    flag = "--" + field.replace("_", "-")
    words = [flag, *value.replace(",", " ").split()] if _is_tuple(hint) else [f"{flag}={value}"]
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            return getattr(tyro.cli(holder, args=words), field)
    except SystemExit:
        raise ValueError(f"{field} must be {type_text}, got {value!r}") from None


def _is_tuple(hint: Any) -> bool:
    return typing.get_origin(hint) is tuple
