import pytest
import torch

from torchsets.data import motif_graphs
from torchsets.lab.experiments.graphs.configs import ROWS, SOURCES, Choice
from torchsets.lab.experiments.graphs.models import build_model, learned_weights
from torchsets.pooling import FSPool, MeanPool, SumPool


def build(name, dataset, features, classes=2):
    source = SOURCES[dataset]
    choice = Choice(64 if source.kind == "social" else 32, 32, 0.5)
    torch.manual_seed(0)
    return build_model(name, source, choice, features=features, classes=classes)


@pytest.mark.parametrize(
    ("dataset", "features", "classes", "base", "fspool"),
    [
        ("MUTAG", 7, 2, 15_938, 16_898),
        ("PTC_MR", 18, 2, 16_290, 17_250),
        ("PROTEINS", 4, 2, 15_842, 16_802),
        ("NCI1", 37, 2, 16_898, 17_858),
        ("IMDB-BINARY", 137, 2, 68_866, 70_786),
        ("IMDB-MULTI", 90, 3, 65_923, 67_843),
        ("REDDIT-BINARY", 1, 2, 60_162, 62_082),
        ("COLLAB", 493, 3, 91_715, 93_635),
    ],
)
def test_parameters_are_those_of_the_author_model(dataset, features, classes, base, fspool):
    for name, expected in (("base", base), ("fspool", fspool)):
        model = build(name, dataset, features, classes)
        assert sum(weight.numel() for weight in model.parameters()) == expected


@pytest.mark.parametrize(
    ("name", "dataset", "readout"),
    [
        ("base", "MUTAG", SumPool),
        ("base", "REDDIT-BINARY", MeanPool),
        ("base-inputs", "REDDIT-BINARY", MeanPool),
        ("no-edges", "COLLAB", MeanPool),
        ("no-edges", "PROTEINS", SumPool),
        ("sum", "REDDIT-BINARY", SumPool),
        ("fspool", "REDDIT-BINARY", FSPool),
        ("fspool-inputs", "MUTAG", FSPool),
    ],
)
def test_the_readout_follows_the_kind_of_data(name, dataset, readout):
    model = build(name, dataset, 1)
    found = [one for one in model.modules() if isinstance(one, (SumPool, MeanPool, FSPool))]
    assert [type(one) for one in found] == [readout] * 5


def test_fspool_starts_as_the_sum_with_the_same_weights():
    graphs = motif_graphs(6).graphs.batch(slice(None))
    outputs = [build(name, "MUTAG", 3).eval()(*graphs) for name in ("base", "fspool", "fspool-20")]
    for output in outputs[1:]:
        torch.testing.assert_close(output, outputs[0])


def test_eps_and_edges():
    graphs = motif_graphs(6).graphs.batch(slice(None))
    outputs = {name: build(name, "MUTAG", 3).eval()(*graphs) for name in ROWS}
    assert not torch.allclose(outputs["base"], outputs["base-inputs"])
    assert not torch.allclose(outputs["base"], outputs["no-edges"])
    model = build("no-edges", "MUTAG", 3).eval()
    elsewhere = graphs._replace(edges=graphs.edges.flip(0)[:, ::3])
    assert torch.equal(model(*elsewhere), model(*graphs))
    eps = [one.eps for one in build("fspool-inputs", "MUTAG", 7).blocks]
    assert eps == [7, 32, 32, 32, 32]


def test_learned_weights_are_one_function_for_each_feature_and_block():
    assert [weight.shape for weight in learned_weights(build("fspool", "MUTAG", 7))] == [
        (32, 6)
    ] * 5
    twenty = learned_weights(build("fspool-20", "MUTAG", 7))
    assert [weight.shape for weight in twenty] == [(32, 21)] * 5
    assert not twenty[0].requires_grad
    assert learned_weights(build("base", "MUTAG", 7)) == []
