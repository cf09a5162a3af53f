"""A fit that fails leaves an estimator as it was."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

Fit = TypeVar("Fit", bound=Callable[..., Any])


def unchanged_on_error(fit: Fit) -> Fit:
    """A method that puts the attributes of its estimator back when it raises an error.

    New classes beside the old network, say, would make wrong predictions without an error. An
    interrupt (Ctrl-C) during training keeps the new network as far as it was trained.
    """

    @wraps(fit)
    def guarded(estimator: Any, *args: Any, **options: Any) -> Any:
        before = dict(vars(estimator))
        try:
            return fit(estimator, *args, **options)
        except BaseException as error:
            has_new_network = vars(estimator).get("module_") is not before.get("module_")
            if isinstance(error, Exception) or not has_new_network:
                vars(estimator).clear()
                vars(estimator).update(before)
            raise

    return cast(Fit, guarded)
