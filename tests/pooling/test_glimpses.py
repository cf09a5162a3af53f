import pytest
import torch

from torchsets.pooling import GlimpsePool, fuse, glimpse_pool
from torchsets.testing import assert_obeys_laws, random_sets

CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def load(pool, numbers, prefix=""):
    state = {
        "element.weight": numbers[f"param.{prefix}v_conv.weight"].flatten(1),
        "context.weight": numbers[f"param.{prefix}q_lin.weight"],
        "context.bias": numbers[f"param.{prefix}q_lin.bias"],
        "logit.weight": numbers[f"param.{prefix}x_conv.weight"].flatten(1),
        "logit.bias": numbers[f"param.{prefix}x_conv.bias"],
    }
    pool.load_state_dict(state)
    return pool


def make():
    torch.manual_seed(0)
    return GlimpsePool(3, 4, hidden=5, glimpses=2).double()


def test_fusion_agrees_with_the_author(golden):
    numbers = golden("vqa_fusion")
    x, y = (numbers[name].requires_grad_() for name in "xy")
    out = fuse(x, y)
    torch.testing.assert_close(out, numbers["out"], **CLOSE)
    (out * numbers["cot"]).sum().backward()
    torch.testing.assert_close(x.grad, numbers["grad_x"], **CLOSE)
    torch.testing.assert_close(y.grad, numbers["grad_y"], **CLOSE)


def test_agrees_with_the_author(golden):
    numbers = golden("vqa_attention")
    pool = load(GlimpsePool(7, 5, hidden=8).double(), numbers)
    v, q = numbers["v"].requires_grad_(), numbers["q"].requires_grad_()
    elements = (v / (v.norm(dim=1, keepdim=True) + 1e-12)).mT
    logits, out = pool.logits(elements, context=q), pool(elements, context=q)
    torch.testing.assert_close(logits.mT, numbers["logits"], **CLOSE)
    torch.testing.assert_close(out, numbers["out"], **CLOSE)
    ((out * numbers["cot"]).sum() + (logits.mT * numbers["cot_logits"]).sum()).backward()
    torch.testing.assert_close(v.grad, numbers["grad_v"], **CLOSE)
    torch.testing.assert_close(q.grad, numbers["grad_q"], **CLOSE)
    names = {"element": "v_conv", "context": "q_lin", "logit": "x_conv"}
    for name, weight in pool.named_parameters():
        layer, kind = name.split(".")
        expected = numbers[f"grad.{names[layer]}.{kind}"].view(weight.shape)
        torch.testing.assert_close(weight.grad, expected, **CLOSE)


def test_obeys_the_laws(generator):
    pool = make()
    elements, mask = random_sets([3, 0, 5, 1], 3, generator)
    context = torch.randn(4, generator=generator, dtype=torch.float64)
    assert_obeys_laws(lambda x, m: pool(x, m, context.expand(len(x), -1)), elements, mask)


def test_zero_padding_without_a_mask_changes_the_result(generator):
    """The released code pads with zeros and has no mask: padding takes part in the softmax."""
    pool = make()
    elements, _ = random_sets([4], 3, generator)
    context = torch.randn(1, 4, generator=generator, dtype=torch.float64)
    expected = pool(elements, context=context)
    padded = torch.cat([elements, torch.zeros(1, 6, 3).double()], dim=1)
    mask = torch.arange(10).unsqueeze(0) < 4
    assert not torch.allclose(pool(padded, context=context), expected, rtol=0.05)
    torch.testing.assert_close(pool(padded, mask, context), expected)


def test_parameters_get_finite_gradients_under_nan_padding(generator):
    pool = make()
    elements, mask = random_sets([3, 0, 5], 3, generator)
    pool(elements, mask, torch.ones(3, 4).double()).square().sum().backward()
    assert all(torch.isfinite(weight.grad).all() for weight in pool.parameters())


def test_is_a_softmax_over_the_real_elements(generator):
    elements, mask = random_sets([3, 5], 2, generator)
    logits = torch.randn(2, 5, 3, generator=generator, dtype=torch.float64)
    out = glimpse_pool(elements, logits, mask).view(2, 3, 2)
    for glimpse in range(3):
        weights = logits[0, :3, glimpse].exp()
        expected = (weights.unsqueeze(1) * elements[0, :3]).sum(dim=0) / weights.sum()
        torch.testing.assert_close(out[0, glimpse], expected)


def test_gradient(generator):
    pool = make()
    elements = torch.randn(2, 3, 3, generator=generator, dtype=torch.float64).requires_grad_()
    context = torch.randn(2, 4, generator=generator, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, c: pool(x, None, c), (elements, context))


def test_rejects_bad_input():
    with pytest.raises(ValueError, match="glimpses must be at least 1, got 0"):
        GlimpsePool(3, 4, hidden=5, glimpses=0)
    with pytest.raises(ValueError, match="context must be given, got None"):
        make()(torch.zeros(1, 2, 3))
    with pytest.raises(ValueError, match=r"context must have shape \(B, C\) = \(1, 4\)"):
        make()(torch.zeros(1, 2, 3), context=torch.zeros(1, 3))
    with pytest.raises(ValueError, match=r"logits must have shape \(B, N, G\)"):
        glimpse_pool(torch.zeros(1, 2, 3), torch.zeros(1, 3, 3))
