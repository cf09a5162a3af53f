"""Every recipe of docs/recipes.md runs as printed, where its library is installed."""

import re
import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

PAGE = Path(__file__).parent.parent / "docs" / "recipes.md"
BLOCK = re.compile(r"^```(python|py)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SHARED, *SECTIONS = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
NEEDS = {
    "Lightning": ["lightning"],
    "Hugging Face Trainer (transformers, accelerate)": ["transformers", "accelerate"],
    "skorch": ["skorch"],
    "Optuna": ["optuna"],
    "SLURM through submitit": ["submitit"],
    "Serving from another process": [],
    "ONNX (torchsets[export])": ["onnx", "onnxscript", "onnxruntime"],
    "Hugging Face Hub (torchsets[hub])": ["huggingface_hub"],
}
RECIPES = {text.splitlines()[0]: text for text in SECTIONS if "```py\n" in text}


def test_every_recipe_is_known():
    assert list(RECIPES) == list(NEEDS)


@pytest.mark.slow
@pytest.mark.parametrize("title", RECIPES)
def test_recipe_runs(title, tmp_path, monkeypatch):
    missing = [package for package in NEEDS[title] if find_spec(package) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    namespace = {"__name__": "recipe"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what other libraries warn about is theirs
        for _, code in BLOCK.findall(SHARED) + BLOCK.findall(RECIPES[title]):
            file = re.match(r"# (\w+\.py)\n", code)
            if file:
                (tmp_path / file[1]).write_text(code)
            else:
                exec(compile(code, f"{PAGE.name}: {title}", "exec"), namespace)
