"""The plugin as another project would use it: their modules, their pytest."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import torchsets.pytest_plugin

PAGE = Path(__file__).parent.parent / "docs" / "laws.md"
MODELS = """
import torch
from torch import nn

class Mean(nn.Module):
    def __init__(self, features=3, outputs=2):
        super().__init__()
        self.linear = nn.Linear(features, outputs)

    def forward(self, elements, mask):
        elements = elements.masked_fill(~mask.unsqueeze(-1), 0)
        mean = elements.sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp(min=1)
        return self.linear(mean)

class Multiplied(Mean):
    def forward(self, elements, mask):
        return self.linear((elements * mask.unsqueeze(-1)).sum(dim=1))

class Normalised(Mean):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(2)

    def forward(self, elements, mask):
        return self.norm(super().forward(elements, mask)) if len(mask) > 1 else elements.sum(1)

class Residual(Mean):
    def __init__(self):
        super().__init__(3, 3)

    def forward(self, elements, mask):
        elements = elements.masked_fill(~mask.unsqueeze(-1), 0)
        return elements + super().forward(elements, mask).unsqueeze(1)

def both():
    return [Mean(), Mean()]

def no_function():
    return 3

def needs(elements, mask):  # the function itself, not a factory
    return elements.sum(dim=1)

def wrong():
    raise RuntimeError("this factory is broken")
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run pytest in a folder with MODELS, with this plugin and no other.

    In this process, because torch takes seconds to import. pytester's runs in the process would
    forget what torch imported meanwhile, and torch cannot be imported twice.
    """
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "models.py").write_text(MODELS)

    def run_pytest(*words):
        quick = ["-p", "no:unraisableexception"]  # it collects all garbage of torch, five times
        words = [*words, "--capture=no", *quick]
        code = pytest.main(words, plugins=[torchsets.pytest_plugin])
        said = capsys.readouterr()
        return pytest.RunResult(code, said.out.splitlines(), said.err.splitlines(), 0)

    before = set(sys.modules)
    yield run_pytest
    for name in set(sys.modules) - before:
        if name.split(".")[0] in ("models", "shop", "test_own"):
            del sys.modules[name]


def test_a_function_that_obeys_passes_one_test_for_each_law(run):
    result = run("--set-laws", "models:Mean", "-v")
    result.assert_outcomes(passed=7)
    result.stdout.fnmatch_lines(["*models:Mean[[]independence] PASSED*"])


def test_several_functions_and_several_factories(run):
    run("--set-laws", "models:both", "--set-laws", "models:Mean").assert_outcomes(passed=21)


def test_a_leak_is_a_failure_told_in_one_sentence(run):
    result = run("--set-laws", "models:Multiplied")
    assert result.parseoutcomes()["failed"] >= 2
    result.stdout.fnmatch_lines(
        ["*models:Multiplied[[]padding]*", "*padding with nan changed the*"]
    )
    assert "laws.py" not in result.stdout.str()


def test_batch_norm_is_caught_by_independence(run):
    result = run("--set-laws", "models:Normalised", "-k", "independence")
    result.assert_outcomes(failed=1, deselected=6)
    result.stdout.fnmatch_lines(["*set 0 gave another result alone than in the batch*"])


def test_equivariant_functions_and_other_features(run):
    run("--set-laws", "models:Residual", "--set-equivariant").assert_outcomes(passed=7)
    assert run("--set-laws", "models:Residual").parseoutcomes()["failed"] > 0
    assert run("--set-laws", "models:Mean", "--set-features", "2").parseoutcomes()["failed"] == 7


def test_laws_are_chosen_like_tests_and_run_beside_them(run, tmp_path):
    (tmp_path / "test_own.py").write_text("def test_own(): pass")
    run("--set-laws", "models:Mean", "-k", "own or order").assert_outcomes(passed=2, deselected=6)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("models.Mean", "*must be package.module:factory, got models.Mean*"),
        ("nothing:Mean", "*No module named 'nothing'*python -m pytest*"),
        ("models:Median", "*has no attribute 'Median'*"),
        ("models:no_function", "*must return a function of (elements, mask)*got int*"),
        ("models:needs", "*must be a factory*without arguments gave TypeError*'elements'*"),
        ("models:wrong", "*without arguments gave RuntimeError: this factory is broken*"),
    ],
)
def test_a_wrong_address_is_one_line(run, address, message):
    result = run("--set-laws", address)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_there_is_at_least_one_feature(run):
    result = run("--set-laws", "models:Mean", "--set-features", "0")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--set-features must be at least 1, got 0*"])


def test_fixture_reports_all_broken_laws(run, tmp_path):
    (tmp_path / "test_own.py").write_text(
        """
import models
import pytest

def test_right(set_laws):
    set_laws(models.Mean(), features=3)

def test_leak(set_laws):
    set_laws(models.Multiplied(), features=3)

def test_skip(set_laws):
    set_laws(models.Residual(), features=3, equivariant=True, skip=["order"])
    with pytest.raises(ValueError, match="skip must be among padding, .*, got orders"):
        set_laws(models.Mean(), features=3, skip=["orders"])
"""
    )
    result = run()
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["padding: padding with nan*", "order: the result is nan*"])


def test_the_function_given_is_not_changed(run, tmp_path):
    (tmp_path / "test_own.py").write_text(
        """
import models
import torch

def test_unchanged(set_laws):
    mean, state = models.Mean(), torch.random.get_rng_state()
    set_laws(mean, features=3)
    assert mean.linear.weight.dtype == torch.float32
    assert torch.equal(torch.random.get_rng_state(), state)
"""
    )
    run().assert_outcomes(passed=1)


def test_a_run_without_the_laws_imports_no_torch(tmp_path):
    (tmp_path / "test_own.py").write_text(
        "import sys\ndef test_own(): assert 'torch' not in sys.modules\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "torchsets.pytest_plugin"]
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": _path_of_torchsets()}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_the_example_of_the_page_fails_as_the_page_says(run, tmp_path):
    """The page prints a module and what pytest says about it."""
    page = PAGE.read_text()
    module = re.search(r'```python title="shop/models.py"\n(.*?)```', page, re.DOTALL)[1]
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "models.py").write_text(module)
    result = run("--set-laws", "shop.models:make_encoder")
    printed = re.search(r"```text\n(.*?)```", page, re.DOTALL)[1]
    said = [line for line in printed.splitlines() if line.startswith("FAILED")]
    assert said
    result.stdout.fnmatch_lines([line.replace("[", "[[]") + "*" for line in said])
    assert result.parseoutcomes()["failed"] == len(said)


def _path_of_torchsets():
    return str(Path(torchsets.pytest_plugin.__file__).parent.parent)
