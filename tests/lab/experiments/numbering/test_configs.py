from dataclasses import replace

import pytest

from torchsets.lab.experiments.numbering.configs import Numbering, split_numbering


def test_shards_are_one_model_on_one_amount_each_the_longest_first():
    config = Numbering(models=("bilstm", "idspn"), data=(1, 10))
    shards = split_numbering("numbering", config)
    assert list(shards) == ["idspn 1x", "idspn 10x", "bilstm 1x", "bilstm 10x"]
    assert shards["idspn 10x"] == replace(config, models=("idspn",), data=(10,))


def test_rejects_bad_settings():
    with pytest.raises(ValueError, match="decay_from must be from 0 to below 1, got 1"):
        Numbering(decay_from=1.0)
    with pytest.raises(ValueError, match="width must be a multiple of 8, got 12"):
        Numbering(width=12)
    with pytest.raises(ValueError, match="models must be among dspn"):
        Numbering(models=("lstm",))
