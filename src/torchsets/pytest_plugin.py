"""A pytest plugin: other people's set functions, checked by the laws in their own test run.

``pytest --set-laws package.module:factory`` adds one test for each law; the fixture ``set_laws``
checks a function inside a test. Nothing but pytest is imported until one of them is used.
"""

from collections.abc import Callable, Collection, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # torch takes seconds, and this file is loaded by every run of pytest
    from torchsets.testing import SetFunction

# Padding, an empty set, a single element, and two sets of one size.
_SIZES = (3, 0, 5, 1, 3)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options to ``pytest --help``."""
    group = parser.getgroup("torchsets", "the laws of set functions")
    group.addoption(
        "--set-laws",
        action="append",
        default=[],
        metavar="MODULE:FACTORY",
        help="check what FACTORY() returns, a function of (elements, mask) or a list of them, "
        "by the laws of set functions; may be given several times",
    )
    group.addoption(
        "--set-features",
        type=int,
        default=3,
        metavar="D",
        help="features of each element for --set-laws (default: 3)",
    )
    group.addoption(
        "--set-equivariant",
        action="store_true",
        help="the functions of --set-laws return one result for each element",
    )


@pytest.hookimpl(tryfirst=True)  # before -k and -m choose among the tests
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add the tests of ``--set-laws``."""
    features = config.getoption("--set-features")
    equivariant = config.getoption("--set-equivariant")
    if features < 1:
        raise pytest.UsageError(f"--set-features must be at least 1, got {features}")
    for address in config.getoption("--set-laws"):
        for name, function in _named(address, _build(address)):
            for law in _laws(equivariant):
                items.append(
                    SetLaw.from_parent(
                        session,
                        name=f"{name}[{law}]",
                        nodeid=f"set-laws::{name}[{law}]",
                        check=lambda law=law, function=function: _check(
                            law, function, features, equivariant
                        ),
                    )
                )


class SetLaw(pytest.Item):
    """One law for one function, as a test of its own."""

    def __init__(self, *, check: Callable[[], None], **options: Any) -> None:
        super().__init__(**options)
        self._check = check

    def runtest(self) -> None:
        self._check()

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """A broken law is told by its sentence: the lines of this library would hide it."""
        if isinstance(excinfo.value, AssertionError):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        return self.path, None, f"set law {self.name}"


@pytest.fixture
def set_laws() -> Callable[..., None]:
    """Check a function of (elements, mask) by all laws: ``set_laws(function, features=2)``.

    Options: ``features`` of each element, ``equivariant`` if there is one result for each element,
    and ``skip``, names of laws that the function is not meant to obey. All broken laws are
    reported, not only the first.
    """

    def check(
        function: "SetFunction",
        *,
        features: int,
        equivariant: bool = False,
        skip: Collection[str] = (),
    ) -> None:
        __tracebackhide__ = True
        laws = _laws(equivariant)
        unknown = [name for name in skip if name not in laws]
        if unknown:
            raise ValueError(f"skip must be among {', '.join(laws)}, got {', '.join(unknown)}")
        broken = []
        for law in laws:
            if law not in skip:
                try:
                    _check(law, function, features, equivariant)
                except AssertionError as error:
                    broken.append(f"{law}: {error}")
        if broken:
            pytest.fail("\n\n".join(broken), pytrace=False)

    return check


def _laws(equivariant: bool) -> Iterable[str]:
    from torchsets.testing import set_laws as laws

    return laws(equivariant=equivariant)


def _build(address: str) -> Any:
    """Call the factory; its weights are the same in every run."""
    import torch

    module, separator, name = address.partition(":")
    if not separator or not module or not name:
        raise pytest.UsageError(f"--set-laws must be package.module:factory, got {address}")
    try:
        factory = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise pytest.UsageError(
            f"--set-laws {address}: {error}; is the folder of {module.split('.')[0]} on the path "
            f"(python -m pytest, or pythonpath in the settings of pytest)?"
        ) from error
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            return factory()
        except Exception as error:  # whatever the code of the user raises
            raise pytest.UsageError(
                f"--set-laws {address} must be a factory, which returns the function to check; "
                f"calling it without arguments gave {type(error).__name__}: {error}"
            ) from error


def _named(address: str, built: Any) -> list[tuple[str, Any]]:
    if not isinstance(built, list | tuple):
        built = [built]
        names = [address]
    else:
        names = [f"{address}-{index}" for index in range(len(built))]
    for function in built:
        if not callable(function):
            raise pytest.UsageError(
                f"--set-laws {address} must return a function of (elements, mask) or a list of "
                f"them, got {type(function).__name__}"
            )
    return list(zip(names, built, strict=True))


def _check(law: str, function: Any, features: int, equivariant: bool) -> None:
    """Check one law in float64, where a difference is a mistake and not rounding."""
    __tracebackhide__ = True
    from copy import deepcopy

    import torch

    from torchsets.testing import random_sets
    from torchsets.testing import set_laws as laws

    if isinstance(function, torch.nn.Module):
        function = deepcopy(function).double()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        laws(equivariant=equivariant)[law](function, *random_sets(_SIZES, features))
