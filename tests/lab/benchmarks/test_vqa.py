import math

import pytest

from torchsets.lab.benchmarks import vqa


@pytest.mark.parametrize("case", vqa.cases()[2:], ids=lambda case: case.name)
def test_the_steps_of_all_variants_run(case):
    for prepare in case.variants.values():
        step = prepare()
        first, second = step(), step()
        assert math.isfinite(first)
        assert second < first  # it trains on the same questions
