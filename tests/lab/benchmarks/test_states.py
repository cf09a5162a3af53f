import pytest

from torchsets.lab.benchmarks.states import cases
from torchsets.lab.experiments.pictures.configs import DECODERS


def test_every_decoder_is_measured_and_the_thesis_own_way_beside_ours():
    every, thesis = cases()
    assert len(every.variants) == len(DECODERS)
    assert len(thesis.variants) == 2


@pytest.mark.slow
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_every_step_runs(case):
    for prepare in case.variants.values():
        prepare()()
