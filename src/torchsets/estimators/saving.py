"""Save a trained estimator as one safetensors file with JSON in its header; nothing is pickled."""

import json
import os
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_model, save_model
from sklearn.utils.validation import check_is_fitted

from torchsets import __version__
from torchsets.fitting import find_device

_KEY = "torchsets estimator"
_PLAIN = (bool, int, float, str, type(None))


class SavesItself:
    """``save`` and ``load`` of an estimator with ``module_`` and the attributes in ``_saved``.

    A subclass lists in ``_saved`` its fitted attributes (numbers, lists, arrays of numbers or
    strings), and has ``_rebuild()``, which makes ``module_`` from them, and ``_built_with``, the
    parameters that shaped ``module_``.
    """

    _saved: tuple[str, ...] = ()
    _built_with: dict[str, Any]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the weights and all else that predictions need to a safetensors file.

        A network of one's own is not written, only its weights: give it to :meth:`load` again.

        Raises:
            NotFittedError: If there is nothing to save yet.
            TypeError: If a class or parameter is something that JSON cannot hold.
        """
        check_is_fitted(self)
        # The file describes the network as it is, whatever set_params said afterwards.
        parameters = {**self.get_params(deep=False), **self._built_with}  # type: ignore[attr-defined]
        header = {
            "class": type(self).__name__,
            "version": __version__,
            "own_network": parameters["network"] is not None,
            "parameters": {
                name: _to_json(value, name)
                for name, value in parameters.items()
                if name not in ("network", "random_state", "device")
            },
            "fitted": {
                name: _to_json(getattr(self, name), name)
                for name in (*self._saved, "feature_names_in_")
                if hasattr(self, name)
            },
        }
        path = Path(path)
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            save_model(self.module_, str(unfinished), {_KEY: json.dumps(header)})
            unfinished.replace(path)
        except SafetensorError as error:
            raise OSError(f"cannot write {path}: {error}") from error
        finally:
            unfinished.unlink(missing_ok=True)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, network: Any = None, device: str = "auto"
    ) -> Self:
        """Read what :meth:`save` wrote; it can predict at once.

        Args:
            path: The file.
            network: The same as in training, if that had a network of one's own.
            device: Where to predict.

        Raises:
            ValueError: If the file holds something else, or the network is missing.
        """
        if not Path(path).is_file():
            raise FileNotFoundError(f"there is no file {path}")
        header = _read_header(path)
        if header["class"] != cls.__name__:
            raise ValueError(
                f"{path} holds a {header['class']}; read it with {header['class']}.load"
            )
        if header["own_network"] != (network is not None):
            raise ValueError(
                f"the {cls.__name__} in {path} was trained with a network of its own; "
                f"pass it again: {cls.__name__}.load(path, network=...)"
                if header["own_network"]
                else f"the {cls.__name__} in {path} has no network of its own; leave out network"
            )
        given = {"network": network} if header["own_network"] else {}
        try:
            parameters = {name: _from_json(value) for name, value in header["parameters"].items()}
            estimator = cls(**parameters, **given, device=device)  # type: ignore[call-arg]  # a subclass's
            for name, value in header["fitted"].items():
                if name not in (*cls._saved, "feature_names_in_"):
                    raise ValueError(f"it has no {name}")
                setattr(estimator, name, _from_json(value))
            # The initial weights are drawn before they are replaced: keep the caller's randomness.
            with torch.random.fork_rng([]):
                estimator._rebuild()
            missing = [name for name in cls._saved if not hasattr(estimator, name)]
            if missing:
                raise ValueError(f"{', '.join(missing)} missing")
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            raise ValueError(
                f"{path} does not fit {cls.__name__} of torchsets {__version__}; it was written by "
                f"{header.get('version', 'an unknown version')}, or is damaged: {error}"
            ) from error
        try:
            load_model(estimator.module_, str(path))
        except RuntimeError as error:
            raise ValueError(f"the weights in {path} do not fit the network: {error}") from error
        estimator.module_.to(find_device(device)).eval()
        return estimator

    def _rebuild(self) -> None:
        raise NotImplementedError

    module_: torch.nn.Module


def _read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {})[_KEY])
        if {"class", "own_network", "parameters", "fitted"} <= header.keys():
            return header
    except (SafetensorError, KeyError, ValueError, AttributeError) as error:
        raise ValueError(f"{path} holds no estimator of torchsets, or is damaged") from error
    raise ValueError(f"{path} holds no estimator of torchsets, or is damaged")


def _to_json(value: Any, name: str) -> Any:
    """JSON of numbers, strings, lists, dicts with any keys, and arrays."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, np.ndarray):
        return {"array": [_to_json(one, name) for one in value.tolist()], "dtype": _dtype(value)}
    if isinstance(value, (list, tuple)):
        items = [_to_json(one, name) for one in value]
        return {"tuple": items} if isinstance(value, tuple) else items
    if isinstance(value, dict):
        return {"dict": [[_to_json(k, name), _to_json(v, name)] for k, v in value.items()]}
    raise TypeError(
        f"{name} must be made of numbers and strings to be saved, got {type(value).__name__}"
    )


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_json(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        found: NDArray[Any] = np.array(_from_json(value["array"]), dtype=np.dtype(value["dtype"]))
        return found
    if "tuple" in value:
        return tuple(_from_json(value["tuple"]))
    return {_from_json(key): _from_json(one) for key, one in value["dict"]}


def _dtype(array: NDArray[Any]) -> str:
    return "O" if array.dtype.kind == "O" else array.dtype.str
