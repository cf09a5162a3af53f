import pytest
import torch

from torchsets.encoders import ProposalReader
from torchsets.testing import assert_obeys_laws, random_sets

CLOSE = {"rtol": 1e-7, "atol": 1e-8}  # his code adds a small number to the norm of the costs


def load(reader, numbers):
    """Put the author's weights into ours: pairs of a parameter of ours and his name."""
    cost, lstm = reader.encoder.order.cost.compare, reader.encoder.lstm
    pairs = [
        (reader.encoder.order.step_size, "lr"),
        (cost[0].weight, "skew.f.0.conv.weight"),
        (cost[0].bias, "skew.f.0.conv.bias"),
        (cost[2].weight, "skew.f.2.conv.weight"),
        (cost[2].bias, "skew.f.2.conv.bias"),
        (reader.project.weight, "conv.conv.weight"),
        (reader.project.bias, "conv.conv.bias"),
        *((weight, f"lstm.{name}") for name, weight in lstm.named_parameters()),
    ]
    for weight, name in pairs:
        weight.data = numbers[f"param.{name}"].reshape(weight.shape).clone()
    return pairs


def test_agrees_with_the_author(golden):
    """With four Sinkhorn rounds, as in the thesis; the released code has three."""
    numbers = golden("ban_perm")
    reader = ProposalReader(6, projected=3, outputs=4, compared=8).double()
    pairs = load(reader, numbers)
    v, boxes = numbers["v"].requires_grad_(), numbers["boxes"].requires_grad_()
    att = numbers["att"].requires_grad_()
    out = reader(v, boxes.mT, att.unsqueeze(1)).squeeze(1)
    torch.testing.assert_close(out, numbers["thesis.out"], **CLOSE)
    (out * numbers["cot"]).sum().backward()
    for name, tensor in (("v", v), ("boxes", boxes), ("att", att)):
        torch.testing.assert_close(tensor.grad, numbers[f"thesis.grad_{name}"], **CLOSE, msg=name)
    for weight, name in pairs:
        expected = numbers[f"thesis.grad.{name}"].reshape(weight.shape)
        torch.testing.assert_close(weight.grad, expected, **CLOSE, msg=name)


def make(compared=4):
    torch.manual_seed(0)
    reader = ProposalReader(6, projected=2, outputs=3, compared=compared, steps=2)
    return reader.double()


def parts(elements):
    """Features, boxes and the logits of two glimpses out of the same elements."""
    return elements, elements[..., 1:5], torch.stack([elements[..., 0], elements[..., 5]], dim=1)


def test_obeys_the_laws(generator):
    reader = make()
    elements, mask = random_sets([3, 0, 4, 1], 6, generator)
    assert_obeys_laws(lambda x, m: reader(*parts(x), m), elements, mask)


def test_without_a_cost_the_proposals_are_read_as_they_come(generator):
    reader = make(compared=None)
    elements, _ = random_sets([5], 6, generator)
    mask = torch.tensor([[True, False, True, True, False]])
    padded = elements.masked_fill(~mask.unsqueeze(-1), float("nan"))
    expected = reader(*parts(elements[:, [0, 2, 3]]))
    torch.testing.assert_close(reader(*parts(padded), mask), expected)
    assert not torch.allclose(reader(*parts(elements.flip(1))), reader(*parts(elements)))


def test_rejects_bad_input():
    reader, elements = make(), torch.zeros(1, 2, 6).double()
    with pytest.raises(ValueError, match=r"boxes must have shape \(B, N, 4\) = \(1, 2, 4\)"):
        reader(elements, elements, torch.zeros(1, 2, 2))
    with pytest.raises(ValueError, match=r"logits must have shape \(B, G, N\) = \(1, any, 2\)"):
        reader(elements, elements[..., :4], torch.zeros(1, 2))
