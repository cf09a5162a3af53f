"""Models that can be saved to and loaded from the Hugging Face Hub, with their configuration.

The classes here are those of the same name in :mod:`torchsets.encoders` and
:mod:`torchsets.decoders`, with ``save_pretrained``, ``from_pretrained`` and ``push_to_hub``.
:func:`with_hub` does the same for a class of your own.
"""

import json
from inspect import Parameter, signature
from typing import Any

from safetensors.torch import load_file
from torch import nn

from torchsets import decoders, encoders
from torchsets._extras import import_extra

_MODELS: dict[str, type[nn.Module]] = {
    "GIN": encoders.GIN,
    "FSPoolAutoEncoder": decoders.FSPoolAutoEncoder,
    "LSTMDecoder": decoders.LSTMDecoder,
    "MLPDecoder": decoders.MLPDecoder,
    "PointNet": encoders.PointNet,
    "QueryDecoder": decoders.QueryDecoder,
    "SetTransformer": encoders.SetTransformer,
    "SlotAttention": decoders.SlotAttention,
    "TSPNDecoder": decoders.TSPNDecoder,
}
__all__ = [*_MODELS, "with_hub"]


def with_hub(model: type[nn.Module]) -> Any:
    """Make a model class that can be saved with its arguments and loaded without them.

    Arguments must be what JSON can hold: numbers, text, lists, None; ``*args`` cannot be saved. A
    module as an argument could not be made again, so it is refused when the model is made: write a
    class that takes numbers and builds its parts. Weights are safetensors and keep
    their dtype; a repository that has only pickled ones is refused, and so are weights that do not
    fit.

    Args:
        model: A class of modules. ``with_hub`` can be its decorator.

    Raises:
        ImportError: If huggingface_hub is not installed.
    """
    mixin: Any = import_extra("huggingface_hub", "hub").PyTorchModelHubMixin

    class Shared(model, mixin, library_name="torchsets"):  # type: ignore
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            takes = signature(cls.__init__)
            given = takes.bind_partial(None, *args, **kwargs).arguments
            for name, value in given.items():
                if takes.parameters[name].kind is Parameter.VAR_POSITIONAL:
                    raise ValueError(f"*{name} cannot be saved with the model: take a list instead")
                if not _survives_json(value):
                    kind = value.__name__ if isinstance(value, type) else type(value).__name__
                    raise ValueError(
                        f"{name} must be a number, text or a list of them to be saved with the "
                        f"model, got {kind}; write a class that takes numbers and makes it"
                    )
            return super().__new__(cls, *args, **kwargs)

        @classmethod
        def _load_as_safetensor(cls, model: Any, file: str, device: str, strict: bool) -> Any:
            dtypes = {
                weight.dtype for weight in load_file(file).values() if weight.is_floating_point()
            }
            if len(dtypes) == 1:  # the model is made in torch's default
                model.to(*dtypes)
            return super()._load_as_safetensor(model, file, device, True)

        @classmethod
        def _load_as_pickle(cls, *args: Any) -> Any:
            raise ValueError("there is no model.safetensors, and torchsets unpickles nothing")

    Shared.__name__, Shared.__qualname__ = model.__name__, model.__qualname__
    Shared.__module__ = __name__ if model.__module__.startswith("torchsets.") else model.__module__
    Shared.__doc__ = f"{model.__name__}, which can be saved with its arguments and loaded again."
    return Shared


def _survives_json(value: Any) -> bool:
    """Whether JSON gives it back. Tuples may become lists; keys that are no text would change."""
    try:
        return bool(json.loads(json.dumps(value)) == _as_lists(value))
    except (TypeError, ValueError):
        return False


def _as_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_lists(one) for key, one in value.items()}
    return [_as_lists(one) for one in value] if isinstance(value, (tuple, list)) else value


def __getattr__(name: str) -> Any:
    if name not in _MODELS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = with_hub(_MODELS[name])
    return globals()[name]
