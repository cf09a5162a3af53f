import pytest
import torch

from torchsets.counting import Counter
from torchsets.encoders import (
    BAN,
    BilinearAttention,
    BilinearPool,
    NormalisedLinear,
    ProposalReader,
)
from torchsets.padded import lengths_to_mask
from torchsets.testing import assert_obeys_laws, random_sets

CLOSE = {"rtol": 1e-9, "atol": 1e-11}
LAYER = {"weight_v": "weight", "weight_g": "scale", "bias": "bias"}


def layer_names(ours, theirs):
    return {f"{theirs}.{theirs_name}": f"{ours}.{name}" for theirs_name, name in LAYER.items()}


def load(module, numbers, names):
    """Put the author's weights into ours; a function then compares the gradients."""
    weights = dict(module.named_parameters())
    for theirs, ours in names.items():
        weights[ours].data = numbers[f"param.{theirs}"].reshape(weights[ours].shape).clone()

    def check():
        for theirs, ours in names.items():
            expected = numbers[f"grad.{theirs}"].reshape(weights[ours].shape)
            torch.testing.assert_close(weights[ours].grad, expected, **CLOSE, msg=ours)

    return check


def attention_names(theirs="logits"):
    return {
        f"{theirs}.h_mat_v": "weight",
        f"{theirs}.h_mat_g": "scale",
        f"{theirs}.h_bias": "bias",
        **layer_names("element", f"{theirs}.v_net.main.1"),
        **layer_names("word", f"{theirs}.q_net.main.1"),
    }


def with_attention(attention, features, hidden):
    network = BAN(features, hidden, glimpses=len(attention.bias)).double()
    network.attention = attention
    return network


def test_attention_agrees_with_the_author(golden):
    numbers = golden("ban_attention")
    attention = BilinearAttention(5, 6, rank=18, glimpses=2).double()
    check = load(attention, numbers, attention_names())
    v, q = numbers["v"].requires_grad_(), numbers["q"].requires_grad_()
    mask = lengths_to_mask(numbers["sizes"], size=6)
    logits, weights = with_attention(attention, 5, 6).attend(v, mask, words=q)
    real = ~numbers["padded"]
    torch.testing.assert_close(logits[real], numbers["logits"][real], **CLOSE)
    torch.testing.assert_close(weights, numbers["p"], **CLOSE)
    (weights * numbers["cot"]).sum().backward()
    check()
    torch.testing.assert_close(v.grad, numbers["grad_v"], **CLOSE)
    torch.testing.assert_close(q.grad, numbers["grad_q"], **CLOSE)


def test_a_glimpse_agrees_with_the_author(golden):
    numbers = golden("ban_glimpse")
    pool = BilinearPool(5, 6, 6).double()
    names = layer_names("element", "v_net.main.1") | layer_names("word", "q_net.main.1")
    check = load(pool, numbers, names)
    inputs = [numbers[name].requires_grad_() for name in "vqw"]
    out = pool(*inputs)
    torch.testing.assert_close(out, numbers["out"], **CLOSE)
    (out * numbers["cot"]).sum().backward()
    check()
    for name, tensor in zip("vqw", inputs, strict=True):
        torch.testing.assert_close(tensor.grad, numbers[f"grad_{name}"], **CLOSE)


def make(**parts):
    torch.manual_seed(0)
    return BAN(6, 4, glimpses=2, **parts).double()


def make_whole():
    counter = Counter(3, attention="logits")
    return make(
        counter=counter, reader=ProposalReader(6, projected=2, outputs=3, compared=4, steps=2)
    )


def boxes_of(elements, mask):
    """Boxes that are a function of the elements, so that a law moves both."""
    corner = elements[..., :2].masked_fill(~mask.unsqueeze(-1), 0).sigmoid()
    size = elements[..., 2:4].masked_fill(~mask.unsqueeze(-1), 0).sigmoid() / 2
    boxes = torch.cat([corner, corner + size], dim=2)
    return boxes.masked_fill(~mask.unsqueeze(-1), float("nan"))


@pytest.mark.parametrize("build", [make, make_whole])
def test_obeys_the_laws_in_the_elements(generator, build):
    network = build()
    elements, mask = random_sets([3, 0, 4], 6, generator)
    words = torch.randn(5, 4, generator=generator, dtype=torch.float64)

    def function(elements, mask):
        boxes = boxes_of(elements, mask)
        return network(elements, mask, words=words.expand(len(mask), -1, -1), boxes=boxes)

    assert_obeys_laws(function, elements, mask)


def test_obeys_the_laws_in_the_words(generator):
    network = make_whole()
    words, word_mask = random_sets([3, 0, 4], 4, generator)
    elements, mask = random_sets([3], 6, generator)

    def function(words, word_mask):
        many, many_mask = elements.expand(len(words), -1, -1), mask.expand(len(words), -1)
        boxes = boxes_of(many, many_mask)
        return network(many, many_mask, words=words, word_mask=word_mask, boxes=boxes)

    assert_obeys_laws(function, words, word_mask)


def test_empty_sets_leave_the_biases_and_no_words_give_zeros(generator):
    network = make()
    words = torch.randn(1, 3, 4, generator=generator, dtype=torch.float64)
    elements, none = torch.zeros(1, 2, 6).double(), torch.zeros(1, 2, dtype=torch.bool)
    change = sum(layer.bias for layer in network.residuals)
    torch.testing.assert_close(network(elements, none, words=words), words.sum(1) + 3 * change)
    assert network.attend(elements, none, words=words).weights.eq(0).all()
    no_words = torch.zeros(1, 3, dtype=torch.bool)
    assert network(elements, words=words, word_mask=no_words).tolist() == [[0.0] * 4]


def test_parameters_get_finite_gradients_under_nan_padding(generator):
    network = make_whole()
    elements, mask = random_sets([3, 0, 4], 6, generator)
    words, word_mask = random_sets([2, 3, 1], 4, generator)
    boxes = boxes_of(elements, mask)
    out = network(elements, mask, words=words, word_mask=word_mask, boxes=boxes)
    out.square().sum().backward()
    assert all(torch.isfinite(weight.grad).all() for weight in network.parameters())


def test_weights_are_a_softmax_over_real_pairs(generator):
    network = make()
    elements, mask = random_sets([3, 4], 6, generator)
    words, word_mask = random_sets([2, 3], 4, generator)
    logits, weights = network.attend(elements, mask, words=words, word_mask=word_mask)
    pairs = logits[0, 1, :3, :2].exp()
    torch.testing.assert_close(weights[0, 1, :3, :2], pairs / pairs.sum())
    torch.testing.assert_close(weights.sum(dim=(2, 3)), torch.ones(2, 2).double())


def test_a_logit_is_a_weighted_sum_of_products(generator):
    attention = BilinearAttention(3, 2, rank=4, glimpses=2).double()
    attention.scale.data.fill_(1.7)
    x = torch.randn(3, generator=generator, dtype=torch.float64)
    q = torch.randn(2, generator=generator, dtype=torch.float64)
    h = 1.7 * attention.weight / attention.weight.square().sum().sqrt()
    products = attention.element(x).relu() * attention.word(q).relu()
    expected = (h * products).sum(dim=1) + attention.bias
    found = attention(x.view(1, 1, 3), q.view(1, 1, 2))
    torch.testing.assert_close(found.flatten(), expected)


def test_a_normalised_layer_starts_as_a_plain_one(generator):
    layer = NormalisedLinear(3, 2).double()
    x = torch.randn(5, 3, generator=generator, dtype=torch.float64)
    layer.scale.data = layer.weight.detach().norm()
    torch.testing.assert_close(layer(x), x @ layer.weight.mT + layer.bias)
    before = layer(x) - layer.bias
    layer.weight.data *= 3  # the length of V does not matter
    torch.testing.assert_close(layer(x) - layer.bias, before)


def test_rejects_bad_input():
    with pytest.raises(ValueError, match="glimpses must be at least 1, got 0"):
        BAN(3, 4, glimpses=0)
    with pytest.raises(ValueError, match="counter must take \"logits\", got 'weights'"):
        BAN(3, 4, counter=Counter(3))
    network = make_whole()
    elements, words = torch.zeros(1, 2, 6).double(), torch.zeros(1, 3, 4).double()
    with pytest.raises(ValueError, match="boxes must be given for a counter or a reader"):
        network(elements, words=words)
    with pytest.raises(ValueError, match=r"words must have shape \(B, T, H\) = \(1, any, 4\)"):
        network(elements, words=words[..., :3])
