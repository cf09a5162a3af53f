"""The digest of an experiment's code sees what can change its numbers, and nothing else."""

import ast
import shutil
from pathlib import Path

import pytest

import torchsets
from torchsets.lab.experiments import digest, experiments
from torchsets.lab.experiments.digest import code_digest, definitions

ROOT = Path(torchsets.__file__).parent
NAMES = list(experiments())


class Package:
    """A copy of the sources that can be changed."""

    def __init__(self, root):
        self.root = root

    def change(self, file, old, new):
        """Replace a text that is there once."""
        path = self.root / file
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{file} has {text.count(old)} of {old!r}"
        path.write_text(text.replace(old, new), encoding="utf-8")

    def write(self, file, text):
        path = self.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def touch(self, file, name):
        """Add a statement to the end of a function or class."""
        path = self.root / file
        text = path.read_text(encoding="utf-8")
        (node,) = [one for one in ast.parse(text).body if getattr(one, "name", None) == name]
        lines = text.splitlines(keepends=True)
        lines.insert(node.end_lineno, f"{' ' * node.body[-1].col_offset}_touched = 1\n")
        path.write_text("".join(lines), encoding="utf-8")

    def digests(self):
        forget()
        return {name: code_digest(one.run) for name, one in experiments().items()}


def forget():
    digest._read.cache_clear()
    digest._path.cache_clear()


@pytest.fixture
def empty(tmp_path, monkeypatch):
    monkeypatch.setattr(digest, "_ROOT", tmp_path / "torchsets")
    forget()
    yield Package(tmp_path / "torchsets")
    forget()


@pytest.fixture
def package(empty):
    shutil.copytree(ROOT, empty.root, ignore=shutil.ignore_patterns("__pycache__"))
    return empty


@pytest.fixture(scope="module")
def before():
    """The digests of the sources as they are."""
    return Package(ROOT).digests()


def test_the_same_code_has_the_same_digest_wherever_it_is(before, package):
    assert package.digests() == before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        pytest.param(
            "fitting.py",
            "        self.optimiser.step()\n",
            "        self.optimiser.step()  # towards the minimum\n\n",
            id="comment",
        ),
        pytest.param(
            "losses/chamfer.py",
            '"""Add the costs from each element',
            '"""Sum the costs from each element',
            id="docstring",
        ),
        pytest.param("mlp.py", '"""Multi-layer', '"""New: multi-layer', id="docstring-of-a-module"),
        pytest.param(
            "lab/training/loop.py",
            "def seed_everything(seed: int) -> None:",
            "def seed_everything(seed: float) -> object:",
            id="annotation",
        ),
        pytest.param(
            "lab/training/loop.py",
            "self.sums: dict[str, Tensor] = {}",
            "self.sums: object = {}",
            id="annotation-of-a-variable",
        ),
        pytest.param(
            "_progress.py",
            "_SECONDS_BETWEEN_UPDATES = 0.2",
            "_SECONDS_BETWEEN_UPDATES = 0.3",
            id="progress-bar",
        ),
        pytest.param(
            "data/__init__.py",
            "from torchsets.data.idx import read_idx\n",
            "from torchsets.data.idx import read_idx\nfrom torchsets.data.new import load_new\n",
            id="new-loader",
        ),
        pytest.param(
            "data/__init__.py", '    "jitter",\n', '    "jitter",\n    "new",\n', id="all"
        ),
        pytest.param(
            "lab/experiments/polygons/figures.py", "Rings: the corners", "The corners", id="caption"
        ),
        pytest.param(
            "lab/experiments/polygons/configs.py",
            "auto-encode rotating polygons:",
            "reconstruct rotating polygons:",
            id="summary",
        ),
        pytest.param(
            "lab/experiments/polygons/configs.py",
            "    steps: int = 10240\n",
            "    steps: int = 20480\n",
            id="default-of-a-field",  # the record says what the run had
        ),
        pytest.param(
            "lab/records/recorder.py", "VARIANTS = ", "LATER = 1\nVARIANTS = ", id="records"
        ),
    ],
)
def test_what_cannot_change_a_number_is_not_seen(before, package, file, old, new):
    package.change(file, old, new)
    assert package.digests() == before


def test_another_function_of_a_file_is_not_seen(before, package):
    package.touch("lab/training/loop.py", "linear_decay")
    changed = {name for name, one in package.digests().items() if one != before[name]}
    assert "dspn-polygons" in changed  # its learning rate decays
    assert not changed & {"polygons", "count-toy", "sort-numbers"}


@pytest.mark.parametrize("name", NAMES)
def test_its_own_code_is_seen_and_that_of_others_is_not(before, package, name):
    module, _, function = experiments()[name].run.partition(":")
    package.touch(Path(*module.split(".")[1:]).with_suffix(".py"), function)
    changed = {one for one, code in package.digests().items() if code != before[one]}
    assert changed == {one for one in NAMES if experiments()[one].run == f"{module}:{function}"}


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("fitting.py", "self.optimiser.zero_grad(set_to_none=True)", "pass"),
        ("lab/training/loop.py", "    seed: int = 0\n", "    seed: int = 1\n"),
        ("lab/training/loop.py", "torch.manual_seed(seed)", "torch.manual_seed(seed + 1)"),
    ],
    ids=["optimiser step", "default of a setting", "seed"],
)
def test_a_change_in_the_training_loop_is_seen_by_all(before, package, file, old, new):
    package.change(file, old, new)
    after = package.digests()
    unseen = [name for name in NAMES if after[name] == before[name]]
    assert unseen == ([] if file == "fitting.py" else ["set-estimators"])


POLYGONS, COUNTING, SORTING = {"polygons", "dspn-polygons"}, {"count-toy"}, {"sort-numbers"}


@pytest.mark.parametrize(
    ("file", "name", "expected"),
    [
        ("losses/chamfer.py", "_reduce", {"polygons"}),
        ("losses/neighbours.py", "search", {"polygons"}),
        ("matching.py", "_solve", POLYGONS | SORTING),
        ("sorting.py", "descending_order", POLYGONS | COUNTING),
        ("pooling/mean.py", "mean_pool", {"polygons"}),  # through a dict of lambdas
        ("mlp.py", "MLP", POLYGONS),
        ("decoders/dspn.py", "DSPN", {"dspn-polygons"}),
        ("data/polygons.py", "random_polygons", {"polygons"}),
        ("data/toy_counting.py", "_largest_overlap", COUNTING),
        ("counting/similarity.py", "_SimilarRows", COUNTING),
        ("boxes.py", "box_area", COUNTING),
        ("permutations/sinkhorn.py", "sinkhorn", SORTING),
        ("permutations/pairwise.py", "_Compare", SORTING),
        ("lab/experiments/polygons/models.py", "PolygonModel", {"dspn-polygons"}),
        ("lab/experiments/polygons/models.py", "FixedLatent", {"polygons"}),
        ("lab/experiments/counting/configs.py", "sweeps_of", COUNTING),
        ("lab/experiments/sorting/configs.py", "Training", SORTING),
    ],
)
def test_a_change_deep_below_is_seen_by_those_that_use_it(before, package, file, name, expected):
    package.touch(file, name)
    after = package.digests()
    changed = {one for one in NAMES if after[one] != before[one]}
    assert changed & (POLYGONS | COUNTING | SORTING) == expected


@pytest.mark.parametrize(
    ("file", "old", "new", "name"),
    [
        ("pooling/fspool.py", "        pieces: int = 20,", "        pieces: int = 21,", "polygons"),
        ("permutations/descent.py", "_ROUNDS = ", "_ROUNDS = 1 + ", "sort-numbers"),
        ("lab/experiments/counting/toy.py", "10_007, 20_011", "10_007, 20_012", "count-toy"),
        ("lab/experiments/polygons/decode.py", "eps=1e-12", "eps=1e-11", "dspn-polygons"),
    ],
)
def test_a_changed_default_or_constant_is_seen(before, package, file, old, new, name):
    package.change(file, old, new)
    assert package.digests()[name] != before[name]


RUN = "torchsets.main:run"


@pytest.mark.parametrize(
    "main",
    [
        "from torchsets.deep import helper\ndef run(): helper()",
        "from torchsets.deep import helper as other\ndef run(): other()",
        "from torchsets import deep\ndef run(): deep.helper()",
        "from torchsets import deep\ndef run(): call(deep)",
        "import torchsets.deep\ndef run(): torchsets.deep.helper()",
        "import torchsets.deep\nimport torchsets.more\ndef run(): torchsets.deep.helper()",
        "import torchsets.deep as place\ndef run(): place.helper()",
        "import torchsets\ndef run(): torchsets.deep.helper()",
        "from torchsets.package import helper\ndef run(): helper()",
        "from torchsets import package\ndef run(): package.helper()",
        "from torchsets import package\ndef run(): call(package)",
        "import torchsets.package\ndef run(): torchsets.package.helper()",
        "def run():\n    from torchsets.deep import helper\n    helper()",
        "def f():\n    from torchsets.more import helper\n"
        "def run():\n    from torchsets.deep import helper\n    helper()\n"
        "def g():\n    from torchsets.more import helper",
        "from torchsets.deep import helper\nTABLE = {'x': lambda: helper()}\n"
        "def run(): TABLE['x']()",
        "from torchsets.deep import helper\nFIRST, SECOND = helper(), helper()\ndef run(): FIRST",
        "from torchsets.deep import helper\nFIRST, SECOND = helper, 1\ndef run(): helper()",
        "from torchsets.deep import helper\nclass Base:\n    x = helper()\n"
        "class Model(Base): pass\ndef run(): Model()",
        "from torchsets.deep import helper\n@helper\ndef f(): pass\ndef run(): f()",
        "from torchsets.deep import helper\ndef run(default=helper()): pass",
        "from torchsets.deep import helper\nclass A: pass\nA.call = helper\ndef run(): A()",
        "from torchsets.deep import helper\nif 1 > 0:\n    f = helper\ndef run(): f()",
        "from torchsets.deep import helper\nx = 1\nx += helper()\ndef run(): pass",
        "from torchsets.deep import Class\ndef run(): Class.method()",
    ],
)
def test_every_way_to_reach_a_function_is_followed(empty, main):
    empty.write("__init__.py", "")
    empty.write("main.py", main)
    empty.write("deep.py", "def helper(): return 1\nclass Class:\n    def method(): helper()")
    empty.write("more.py", "def helper(): pass")
    empty.write("package/__init__.py", "from torchsets.deep import helper")
    assert ("torchsets.deep", "helper") in definitions(RUN)
    before = code_digest(RUN)
    empty.change("deep.py", "return 1", "return 2")
    forget()
    assert code_digest(RUN) != before
