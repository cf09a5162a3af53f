from itertools import permutations

import pytest
import torch
from torch import nn

from torchsets.encoders import JanossyPooling, janossy, tuple_mean
from torchsets.encoders.janossy import read_in_orders
from torchsets.mlp import MLP
from torchsets.testing import assert_obeys_laws, random_sets

READERS = {
    "lstm": (nn.LSTM(2, 3, batch_first=True), "hidden"),
    "lstm-cell": (nn.LSTM(2, 3, batch_first=True), "cell"),
    "two-layers": (nn.LSTM(2, 3, num_layers=2, batch_first=True), "hidden"),
    "two-layers-cell": (nn.LSTM(2, 3, num_layers=2, batch_first=True), "cell"),
    "gru": (nn.GRU(2, 3, batch_first=True), "hidden"),
    "rnn": (nn.RNN(2, 3, num_layers=2, batch_first=True), "hidden"),
}


@pytest.fixture(params=READERS)
def reader(request):
    torch.manual_seed(0)
    recurrent, state = READERS[request.param]
    recurrent = recurrent.double()
    recurrent.reset_parameters()
    return JanossyPooling(recurrent, state=state).double()


def tuples(k, width=4):
    torch.manual_seed(0)
    return JanossyPooling(MLP(2 * k, 8, width), k=k).double()


def all_orders(batch, slots):
    orders = list(permutations(range(slots)))
    rows = torch.tensor(orders, dtype=torch.long).view(len(orders), 1, slots)
    return rows.expand(-1, batch, -1)


def mean_over_all_orders(reader):
    def function(elements, mask):
        orders = all_orders(*mask.shape)
        vectors = read_in_orders(elements, reader.module, orders, mask, state=reader.state)
        return vectors.mean(dim=0)

    return function


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("sizes", [[4, 4], [3, 1, 5], [0, 2]])
def test_tuples_obey_the_laws(k, sizes, generator):
    assert_obeys_laws(tuples(k), *random_sets(sizes, features=2, generator=generator))


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("block", [1, 1 << 16])
def test_tuples_match_a_plain_loop(k, block, generator, monkeypatch):
    monkeypatch.setattr(janossy, "_TUPLES", block)
    pool = tuples(k)
    elements, mask = random_sets([4, 5, 3, 0], features=2, generator=generator)
    for one, real, got in zip(elements, mask, pool(elements, mask), strict=True):
        values = [pool.module(torch.cat(chosen)) for chosen in permutations(one[real], k)]
        expected = torch.stack(values).mean(dim=0) if values else torch.zeros(4).double()
        torch.testing.assert_close(got, expected)


def test_too_small_a_set_gives_zeros(generator):
    elements, mask = random_sets([2, 0, 3], features=2, generator=generator)
    got = tuples(3)(elements, mask)
    assert (got[:2] == 0).all()
    assert (got[2] != 0).any()
    assert tuples(3)(elements[:, :2], mask[:, :2]).tolist() == [[0.0] * 4] * 3


def test_the_mean_over_all_orders_obeys_the_laws(reader, generator):
    sets = random_sets([2, 0, 3], features=2, generator=generator)
    assert_obeys_laws(mean_over_all_orders(reader), *sets)


def test_one_order_alone_depends_on_it(reader, generator):
    elements, _ = random_sets([4], features=2, generator=generator)
    vectors = read_in_orders(elements, reader.module, all_orders(1, 4), state=reader.state)
    assert len(vectors.flatten(1).unique(dim=0)) == 24


def test_matches_the_network_on_the_bare_lists(reader, generator):
    elements, mask = random_sets([3, 1, 0, 4], features=2, generator=generator)
    orders = torch.rand(5, *mask.shape, generator=generator).argsort(dim=2)
    got = read_in_orders(elements, reader.module, orders, mask, state=reader.state)
    for order, vectors in zip(orders, got, strict=True):
        for one, real, row, vector in zip(elements, mask, order, vectors, strict=True):
            bare = one[[slot for slot in row.tolist() if real[slot]]]
            if len(bare) == 0:
                assert (vector == 0).all()
                continue
            _, states = reader.module(bare.unsqueeze(0))
            hidden, cell = states if isinstance(states, tuple) else (states, None)
            expected = hidden if reader.state == "hidden" else cell
            torch.testing.assert_close(vector, expected[-1, 0])


@pytest.mark.parametrize("block", [1, 1 << 12])
def test_random_orders_are_as_likely_as_each_other(block, generator, monkeypatch):
    """The first element read of three real ones is each of them in a third of the orders."""

    class First(nn.Module):
        def forward(self, lists):
            return lists[:, :1].expand_as(lists), None

    monkeypatch.setattr(janossy, "_SETS", block)
    elements = torch.eye(4).unsqueeze(0)  # the second is padding
    mask = torch.tensor([[True, False, True, True]])
    pool = JanossyPooling(First())
    orders = 600 if block == 1 else 30_000
    found = pool.vectors_by_order(elements, mask, orders=orders, generator=generator)
    assert found.shape == (orders, 1, 4)
    error = 5 * (2 / 9 / orders) ** 0.5  # five standard errors
    expected = torch.tensor([1 / 3, 0, 1 / 3, 1 / 3])
    torch.testing.assert_close(found.mean(dim=0)[0], expected, rtol=0, atol=error)


def test_sampled_orders_have_the_mean_over_all_orders(reader, generator):
    elements, mask = random_sets([3, 1], features=2, generator=generator)
    everything = read_in_orders(elements, reader.module, all_orders(2, 3), mask, state=reader.state)
    orders = 20_000
    with torch.no_grad():
        got = reader.vectors_by_order(elements, mask, orders=orders, generator=generator)
    error = 5 * everything.std(dim=0, correction=0) / orders**0.5 + 1e-12
    assert ((got.mean(dim=0) - everything.mean(dim=0)).abs() <= error).all()


def test_one_order_in_training_and_many_in_evaluation(reader, generator):
    elements, mask = random_sets([4, 4], features=2, generator=generator)
    state = generator.get_state()
    assert reader.train().vectors_by_order(elements, mask, generator=generator).shape[0] == 1
    vectors = reader.eval().vectors_by_order(elements, mask, generator=generator.set_state(state))
    assert vectors.shape[0] == 20
    pooled = reader(elements, mask, generator=generator.set_state(state))
    torch.testing.assert_close(pooled, vectors.mean(dim=0))
    assert not torch.allclose(pooled, reader(elements, mask, generator=generator))


def test_log_probabilities_can_be_averaged_over_orders(generator):
    reader = JanossyPooling(nn.LSTM(2, 3, batch_first=True), orders=5).eval()
    answer = nn.Linear(3, 4)
    elements = torch.randn(6, 7, 2, generator=generator)
    vectors = reader.vectors_by_order(elements, generator=generator)
    predicted = answer(vectors).log_softmax(dim=2).mean(dim=0)
    assert predicted.shape == (6, 4)


def test_parameter_gradients_are_finite_under_nan_padding(reader, generator):
    for pool in (reader, tuples(2)):
        sets = random_sets([0, 1, 4], features=2, generator=generator)
        pool(*sets, generator=generator).square().sum().backward()
        assert all(torch.isfinite(weight.grad).all() for weight in pool.parameters())


def test_gradient(reader, generator):
    elements = torch.randn(2, 3, 2, generator=generator, dtype=torch.float64).requires_grad_()
    mask = torch.tensor([[True, False, True], [False, True, False]])
    orders = all_orders(2, 3)[:2]
    assert torch.autograd.gradcheck(
        lambda x: read_in_orders(x, reader.module, orders, mask, state=reader.state), elements
    )
    pool = tuples(2)
    assert torch.autograd.gradcheck(lambda x: pool(x, mask), elements)
    assert torch.autograd.gradgradcheck(lambda x: pool(x, mask).pow(3), elements)


def same_draw(function, *arguments):
    torch.manual_seed(1)
    return function(*arguments)


@pytest.mark.slow
@pytest.mark.parametrize("state", ["hidden", "cell"])
def test_a_compiled_reader_gives_the_same(state, generator):
    elements, mask = random_sets([3, 1, 5], features=2, generator=generator)
    pool = JanossyPooling(nn.LSTM(2, 3, batch_first=True), state=state).double().eval()
    compiled = torch.compile(pool, backend="aot_eager")
    with torch.no_grad():  # where it leaves the graph, torch warns about its own gradients
        expected = same_draw(pool, elements, mask)
        torch.testing.assert_close(same_draw(compiled, elements, mask), expected)


@pytest.mark.slow
def test_compiled_tuples_give_the_same(generator):
    sets = random_sets([3, 1, 5], features=2, generator=generator)
    pool = tuples(3)
    compiled = torch.compile(pool, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(*sets), pool(*sets))


def test_runs_under_autocast(reader, generator):
    elements, mask = random_sets([3, 1, 5], features=2, generator=generator)
    for pool in (reader.eval(), tuples(3)):
        expected = same_draw(pool, elements, mask)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            half = same_draw(pool.float(), elements.float(), mask)
        torch.testing.assert_close(half.double(), expected, rtol=0.1, atol=0.1)


def exported(pool, sets):
    batch, size = torch.export.Dim("B"), torch.export.Dim("N", max=40)
    shapes = tuple({0: batch, 1: size} for _ in sets)
    return torch.export.export(pool, sets, dynamic_shapes=shapes).module()


@pytest.mark.slow
@pytest.mark.parametrize("state", ["hidden", "cell"])
@pytest.mark.filterwarnings("ignore")  # the exporter warns about itself
def test_an_exported_reader_serves_every_set(state, generator):
    pool = JanossyPooling(nn.LSTM(2, 3, batch_first=True), state=state, orders=3).double().eval()
    program = exported(pool, random_sets([3, 1, 5], features=2, generator=generator))
    for sizes in ([3, 1, 5], [0, 7], [2]):
        other = random_sets(sizes, features=2, generator=generator)
        torch.testing.assert_close(same_draw(program, *other), same_draw(pool, *other))


def test_the_cell_state_of_several_layers_is_refused_in_a_program(generator):
    pool = JanossyPooling(nn.LSTM(2, 3, 2, batch_first=True), state="cell").double().eval()
    with pytest.raises(RuntimeError, match=r'JanossyPooling with state="cell" cannot be exported'):
        exported(pool, random_sets([3, 1, 5], features=2, generator=generator))


@pytest.mark.parametrize(
    ("module", "options", "message"),
    [
        (nn.LSTM(2, 3), {}, "module must have batch_first=True, got False"),
        (
            nn.GRU(2, 3, batch_first=True, bidirectional=True),
            {},
            "module must read in one direction, got a bidirectional one",
        ),
        (
            nn.GRU(2, 3, batch_first=True),
            {"state": "cell"},
            "module must be an nn.LSTM for the cell state, got GRU",
        ),
        (nn.LSTM(2, 3, batch_first=True), {"state": "output"}, 'state must be "hidden" or "cell"'),
        (nn.LSTM(2, 3, batch_first=True), {"orders": 0}, "orders must be at least 1, got 0"),
        (nn.Linear(2, 3), {"k": 0}, "k must be at least 1, or None, got 0"),
    ],
)
def test_rejects_bad_arguments(module, options, message):
    with pytest.raises(ValueError, match=message):
        JanossyPooling(module, **options)


def test_rejects_bad_input():
    elements = torch.zeros(1, 2, 2)
    reader = JanossyPooling(nn.LSTM(2, 3, batch_first=True))
    with pytest.raises(ValueError, match="orders must be at least 1, got 0"):
        reader.vectors_by_order(elements, orders=0)
    with pytest.raises(ValueError, match="k must be None for random orders, got 2"):
        tuples(2).vectors_by_order(elements)
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        tuple_mean(elements, nn.Linear(2, 3), k=0)
    for pool in (reader, tuples(2).float()):
        with pytest.raises(ValueError, match="elements must be floating point, got"):
            pool(elements.long())
        with pytest.raises(ValueError, match="mask must be bool"):
            pool(elements, torch.ones(1, 2))


def test_the_numbers_of_tuples_come_in_blocks(monkeypatch, generator):
    sets = random_sets([6, 2, 0], features=2, generator=generator)
    pool, seen = tuples(3), []
    expected = pool(*sets)
    distinct = janossy._distinct
    monkeypatch.setattr(janossy, "_TUPLES", 60)
    monkeypatch.setattr(janossy, "_distinct", lambda rows: seen.append(len(rows)) or distinct(rows))
    torch.testing.assert_close(pool(*sets), expected)
    assert max(seen) == 60 // 3
