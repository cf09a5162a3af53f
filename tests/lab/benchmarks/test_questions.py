import pytest
import torch

from torchsets.lab.benchmarks import questions


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(questions, "_BATCH", 8)


@pytest.mark.parametrize("case", questions.cases(), ids=lambda case: case.name)
def test_the_plain_way_computes_the_same(case):
    losses = [prepare()() for prepare in case.variants.values()]
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-5, atol=0)
    if len(losses) > 2:
        torch.testing.assert_close(losses[2], losses[3], rtol=1e-5, atol=0)
