"""The author's networks, with their weights in ours: outputs and gradients."""

import pytest
import torch
from torch.nn.functional import nll_loss

from torchsets.lab.experiments.clevr.configs import AskScenes
from torchsets.lab.experiments.clevr.models import SLOTS, Answerer, Batch, function_shapes

CLOSE = {"rtol": 1e-9, "atol": 1e-11}
CONFIG = AskScenes(hidden=6, question=5, embedding=4, dropout=0.0)


def load(model, arrays):
    """Put the author's weights into a model of ours, whose hidden layers differ in width."""
    weights = {name[6:]: x for name, x in arrays.items() if name.startswith("param.")}

    def put(parameter, name):
        parameter.data = weights[name].clone()

    put(model.question.embedding.weight, "embedding.weight")
    for name, parameter in model.question.recurrent.named_parameters():
        put(parameter, f"lstm.{name}")
    layers = [model.objects.first, *[x for x in model.objects.inner if hasattr(x, "weight")]]
    for number, layer in enumerate(layers):
        put(layer.weight, f"g_layers.{number}.weight")
        put(layer.bias, f"g_layers.{number}.bias")
    answers = [x for x in model.answer if hasattr(x, "weight")]
    for number, layer in enumerate(answers, start=1):
        put(layer.weight, f"f_fc{number}.weight")
        put(layer.bias, f"f_fc{number}.bias")
    if "read.weight_ih_l0" in weights and hasattr(model.objects.pool, "module"):
        for name, parameter in model.objects.pool.module.named_parameters():
            put(parameter, f"read.{name}")
        model.objects.pool.module.hidden_size = 6
    return layers, answers


def build(name, arrays):
    words, answers = len(arrays["param.embedding.weight"]) - 1, arrays["out." + name].shape[1]
    model = Answerer(CONFIG, name, features=7, words=words, answers=answers).double()
    return model, *load(model, arrays)


def batch_of(arrays):
    """As the author's code reads it: all slots, padding included, unless sizes say otherwise."""
    states = arrays["states"].clone().requires_grad_()
    mask = torch.arange(states.shape[1]) < arrays["sizes"].unsqueeze(1)
    words, lengths = arrays["questions"].long(), arrays["lengths"].long()
    return Batch(states, mask, words, lengths, arrays["labels"].long())


def read_in_given_order(elements, mask, *, orders, pool):
    assert orders == 1
    states = pool.module(elements)[1][1]
    return states[-1].unsqueeze(0)


@pytest.mark.parametrize("name", ["fspool", "sum", "max", "janossy"])
def test_agrees_with_the_author_on_full_sets(name, golden, monkeypatch):
    arrays = golden("clevr_full")
    model, layers, answers = build(name, arrays)
    if name == "fspool":
        model.objects.pool.weight.data = SLOTS * arrays["param.pool.weight"]
    if name == "janossy":  # which reads in one random order; the author's numbers are of one order
        pool = model.objects.pool
        monkeypatch.setattr(
            pool, "vectors_by_order", lambda *x, **y: read_in_given_order(*x, **y, pool=pool)
        )
    batch = batch_of(arrays)
    found = model(batch)
    torch.testing.assert_close(found, arrays[f"out.{name}"], **CLOSE)
    loss = nll_loss(found, batch.answers)
    loss.backward()
    torch.testing.assert_close(loss, arrays[f"loss.{name}"].reshape(()), **CLOSE)
    torch.testing.assert_close(batch.states.grad, arrays[f"grad_states.{name}"], **CLOSE)
    torch.testing.assert_close(layers[0].weight.grad, arrays[f"grad_g0.{name}"], **CLOSE)
    torch.testing.assert_close(answers[0].weight.grad, arrays[f"grad_f1.{name}"], **CLOSE)
    embedding = model.question.embedding.weight.grad
    torch.testing.assert_close(embedding, arrays[f"grad_embedding.{name}"], **CLOSE)
    if name == "fspool":
        gradient = SLOTS * model.objects.pool.weight.grad
        torch.testing.assert_close(gradient, arrays["grad_pool.fspool"], **CLOSE)
    if name == "janossy":
        gradient = model.objects.pool.module.weight_ih_l0.grad
        torch.testing.assert_close(gradient, arrays["grad_read.janossy"], **CLOSE)


@pytest.mark.parametrize("name", ["fspool", "sum"])
def test_agrees_on_padded_sets_from_the_question_on(name, golden, monkeypatch):
    arrays = golden("clevr_padded")
    model, *_ = build(name, arrays)
    if name == "fspool":
        model.objects.pool.weight.data = SLOTS * arrays["param.pool.weight"]
    # The author's question vector has read padding, ours has not.
    monkeypatch.setattr(model.question, "forward", lambda *_: arrays["mid_question"])
    torch.testing.assert_close(model(batch_of(arrays)), arrays[f"out.{name}"], **CLOSE)


def test_relations_agree_with_the_author(golden):
    arrays = golden("clevr_rn_full")
    model, layers, _ = build("rn", arrays)
    batch = batch_of(arrays)
    found = model(batch)
    torch.testing.assert_close(found, arrays["out.rn"], **CLOSE)
    nll_loss(found, batch.answers).backward()
    torch.testing.assert_close(batch.states.grad, arrays["grad_states.rn"], **CLOSE)
    torch.testing.assert_close(layers[0].weight.grad, arrays["grad_g0.rn"], **CLOSE)


@pytest.mark.parametrize("name", ["fspool", "rn", "sum", "mean", "max", "question-only"])
def test_order_padding_and_neighbours_do_not_matter(name, generator):
    torch.manual_seed(0)
    model = Answerer(CONFIG, name, features=7, words=9, answers=5).double().eval()
    states = torch.randn(3, 4, 7, generator=generator).double()
    mask = torch.tensor([[True] * 4, [True, False, True, False], [False] * 4])
    words, lengths = torch.randint(1, 10, (3, 6), generator=generator), torch.tensor([6, 2, 4])
    answers = torch.zeros(3, dtype=torch.long)
    padded = states.masked_fill(~mask.unsqueeze(-1), torch.nan)
    found = model(Batch(padded, mask, words, lengths, answers))
    order = torch.randperm(4, generator=generator)
    moved = Batch(padded[:, order], mask[:, order], words, lengths, answers)
    torch.testing.assert_close(model(moved), found)
    for row in range(3):
        real, length = states[row, mask[row]].unsqueeze(0), lengths[row : row + 1]
        alone = Batch(
            real,
            torch.ones(real.shape[:2], dtype=torch.bool),
            words[row : row + 1, : int(length)],
            length,
            answers[:1],
        )
        torch.testing.assert_close(model(alone)[0], found[row])


def test_janossy_averages_log_probabilities_over_orders(generator):
    torch.manual_seed(0)
    model = Answerer(CONFIG, "janossy", features=7, words=9, answers=5).double().eval()
    states = torch.randn(2, 3, 7, generator=generator).double()
    mask, words = torch.ones(2, 3, dtype=torch.bool), torch.ones(2, 2, dtype=torch.long)
    batch = Batch(states, mask, words, torch.tensor([2, 1]), torch.zeros(2, dtype=torch.long))
    model.orders = 3
    torch.manual_seed(1)
    question = model.question(batch.words, batch.lengths)
    vectors = model.objects(states, mask, question, orders=3)
    expected = sum(model.answer(vector) for vector in vectors) / 3
    torch.manual_seed(1)
    torch.testing.assert_close(model(batch), expected)
    assert not torch.equal(vectors[0], vectors[1])  # in different orders


def test_names_what_weight_functions_do():
    flat, first, last = torch.ones(21), torch.zeros(21), torch.zeros(21)
    first[0], last[-1] = 2.0, -1.0
    weight = torch.stack([flat, first, last, torch.zeros(21), torch.linspace(-1, 1, 21)])
    expected = {"unused": 1, "sum": 1, "max": 1, "min": 1, "other": 1}
    assert function_shapes(weight) == expected
