"""Batches for a DataLoader: every field that holds sets is padded, the rest is stacked."""

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import default_collate

from torchsets.padded import pad


def collate(samples: Sequence[Any]) -> Any:
    """Make a batch of a list of sets, or of tuples or dicts with sets in them.

    For ``DataLoader(collate_fn=collate)``. A field is a set if it has two axes: a floating point
    tensor, an array of numbers or a list of rows. Other fields, such as labels and images, are
    stacked as the ``DataLoader`` does by itself. Tuples and dicts may be nested.

    Args:
        samples: Sets, or tuples or dicts that all have the same form.

    Returns:
        A :class:`SetBatch` for sets; for tuples and dicts the same form, with a
        :class:`SetBatch` in place of each set: ``(SetBatch, labels)`` for (set, label).

    Raises:
        ValueError: If the samples differ in form, or a field cannot be padded or stacked.

    Example:
        >>> batch, labels = collate([([[1.0], [2.0]], 0), ([[3.0]], 1)])
        >>> batch.sizes, labels
        (tensor([2, 1]), tensor([0, 1]))
        >>> collate([{"points": [[1.0]], "boxes": [[0.0, 1.0]]}])["boxes"]
        SetBatch(1 set of 1 element, 2 features, float32, cpu)
    """
    if not any(isinstance(sample, (tuple, Mapping)) for sample in samples):
        return pad(samples)
    return _collate(samples, "")


def _collate(samples: Sequence[Any], field: str) -> Any:
    """``field`` says where in a sample these are, such as ``[1]['boxes']``."""
    if not any(isinstance(sample, (tuple, Mapping)) for sample in samples):
        if any(_is_set(sample) for sample in samples):
            return _named(pad, samples, field)
        if samples and all(_is_nothing(sample) for sample in samples):
            raise ValueError(
                f"samples{field} are empty sets without a number of features, which a batch of "
                f"them alone needs: use zeros((0, D))"
            )
        if not any(isinstance(sample, list) for sample in samples):
            return _named(default_collate, samples, field)
    first = samples[0]
    forms = [_form(sample) for sample in samples]
    other = next((index for index, form in enumerate(forms) if form != forms[0]), None)
    if other is not None:
        raise ValueError(
            f"samples{field} must all have the same form, "
            f"got {forms[0]} in sample 0 and {forms[other]} in sample {other}"
        )
    keys = list(first) if isinstance(first, Mapping) else range(len(first))
    fields = [_collate([sample[key] for sample in samples], f"{field}[{key!r}]") for key in keys]
    if isinstance(first, Mapping):
        return dict(zip(keys, fields, strict=True))
    if isinstance(first, list):
        return fields
    return type(first)(*fields) if hasattr(first, "_fields") else tuple(fields)


def _is_set(field: Any) -> bool:
    if isinstance(field, Tensor):
        return field.ndim == 2 and field.is_floating_point()
    if isinstance(field, np.ndarray):
        return field.ndim == 2 and field.dtype.kind in "iuf"
    # A list of rows of numbers; a list of sets or of labels is a list of fields.
    return isinstance(field, list) and any(
        isinstance(row, (list, tuple)) and all(isinstance(x, Real) for x in row) for row in field
    )


def _is_nothing(field: Any) -> bool:
    """Whether it is an empty set beside others, and could be anything alone."""
    if isinstance(field, (Tensor, np.ndarray)):
        return tuple(field.shape) == (0,)
    return isinstance(field, list) and not field


def _form(sample: Any) -> str:
    if isinstance(sample, Mapping):
        return f"the keys {', '.join(sorted(map(repr, sample)))}"
    if isinstance(sample, (tuple, list)):
        return f"a {type(sample).__name__} of {len(sample)} fields"
    return f"one {type(sample).__name__}"


def _named(make: Any, samples: Sequence[Any], field: str) -> Any:
    try:
        return make(samples)
    except (RuntimeError, TypeError, ValueError) as error:
        shapes = [tuple(sample.shape) for sample in samples if hasattr(sample, "shape")]
        cure = ""
        if len(set(shapes)) > 1 and make is default_collate:
            cure = "; sets need two axes and floating point: use x[:, None] or x.float()"
        raise ValueError(f"samples{field} cannot be put into a batch: {error}{cure}") from error
