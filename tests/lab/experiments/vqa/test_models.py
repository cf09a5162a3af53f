"""The author's networks, with their weights in ours: outputs, losses and gradients."""

import pytest
import torch

from torchsets.encoders import ProposalReader
from torchsets.lab.experiments.vqa.models import (
    AnswerClassifier,
    BANNet,
    CounterFeatures,
    NMSFeatures,
    SoftAttentionNet,
    SumFeatures,
    VQABatch,
    ban_loss,
    soft_answer_loss,
    unit_vectors,
)
from torchsets.metrics import vqa_accuracy
from torchsets.padded import lengths_to_mask
from torchsets.testing import assert_obeys_laws, random_sets

CLOSE = {"rtol": 1e-9, "atol": 1e-11}
CLASSIFIER = {
    "seen": "lin11",
    "question": "lin12",
    "answer": "lin2",
    "count": "lin_c",
    "norm": "bn",
    "count_norm": "bn2",
}


def his_name(ours):
    """The author's name of a parameter of the soft attention model."""
    part, *rest = ours.split(".")
    if part == "classifier":
        return ".".join(["classifier", CLASSIFIER[rest[0]], *rest[1:]])
    if part == "pool":
        layer = {"element": "v_conv", "context": "q_lin", "logit": "x_conv"}[rest[0]]
        return f"attention.{layer}.{rest[1]}"
    if part == "count":
        return ".".join(["counter.f", *rest[2:]])
    return ".".join(["text", *rest]).replace("recurrent", "lstm")


def fit(theirs, ours):
    """His array in the shape of ours; his functions have a 0 in front."""
    return theirs.flatten()[-ours.numel() :].view(ours.shape)


def load(module, numbers, name=his_name):
    state = module.state_dict()
    for key, ours in state.items():
        if not key.endswith("num_batches_tracked"):
            state[key] = fit(numbers[f"param.{name(key)}"], ours)
    module.load_state_dict(state)
    return module.eval()


def assert_gradients(module, numbers, name=his_name, prefix="grad", tolerance=CLOSE):
    for key, weight in module.named_parameters():
        expected = fit(numbers[f"{prefix}.{name(key)}"], weight)
        if "embedding" in key:  # the row of unknown words learns in ours
            weight, expected = weight.grad[1:], expected[1:]
        else:
            weight = weight.grad
        torch.testing.assert_close(weight, expected, **tolerance, msg=key)


def soft_attention(count=None):
    sizes = {"features": 7, "embedding": 5, "question": 6, "attention": 8, "hidden": 9}
    return SoftAttentionNet(10, 13, **sizes, count=count).double()


def soft_batch(numbers):
    features = numbers["v"].requires_grad_()
    boxes = numbers["boxes"].requires_grad_()
    mask = torch.ones(features.shape[0], features.shape[2], dtype=torch.bool)
    return VQABatch(numbers["tokens"], numbers["lengths"], features.mT, boxes.mT, mask)


@pytest.mark.parametrize("name", ["baseline", "counting"])
def test_the_soft_attention_model_agrees_with_the_author(golden, name):
    numbers = golden(f"vqa_net_{name}")
    net = soft_attention(CounterFeatures() if name == "counting" else None)
    load(net, numbers)
    batch = soft_batch(numbers)
    out = net(batch)
    torch.testing.assert_close(out, numbers["out"], **CLOSE)
    loss = soft_answer_loss(out, numbers["answers"])
    torch.testing.assert_close(loss, numbers["loss"], **CLOSE)
    agreeing = numbers["answers"].gather(1, out.argmax(dim=1, keepdim=True)).squeeze(1)
    torch.testing.assert_close(vqa_accuracy(agreeing), numbers["accuracy"], **CLOSE)
    loss.backward()
    assert_gradients(net, numbers)
    torch.testing.assert_close(numbers["v"].grad, numbers["grad_v"], **CLOSE)
    if name == "counting":
        torch.testing.assert_close(numbers["boxes"].grad, numbers["grad_boxes"], **CLOSE)


@pytest.mark.parametrize("variant", ["baseline", "counting"])
def test_the_classifier_agrees_with_the_author(golden, variant):
    numbers = golden("vqa_classifier")

    def name(ours):
        part, kind = ours.split(".")
        return f"{CLASSIFIER[part]}.{kind}"

    counts = 11 if variant == "counting" else None
    classifier = load(AnswerClassifier(8, 6, 9, 7, counts=counts).double(), numbers, name)
    inputs = [numbers[one].requires_grad_() for one in "xyc"]
    out = classifier(*inputs)
    torch.testing.assert_close(out, numbers[f"{variant}.out"], **CLOSE)
    (out * numbers["cot"]).sum().backward()
    assert_gradients(classifier, numbers, name, prefix=f"{variant}.grad")
    for one, tensor in zip("xyc"[: 2 + (counts is not None)], inputs, strict=False):
        torch.testing.assert_close(tensor.grad, numbers[f"{variant}.grad_{one}"], **CLOSE)


def test_the_loss_agrees_with_the_author(golden):
    numbers = golden("vqa_loss")
    logits = numbers["logits"].requires_grad_()
    loss = soft_answer_loss(logits, numbers["counts"])
    torch.testing.assert_close(loss, numbers["loss"], **CLOSE)
    loss.backward()
    torch.testing.assert_close(logits.grad, numbers["grad_logits"], **CLOSE)
    rows = [soft_answer_loss(logits[i : i + 1], numbers["counts"][i : i + 1]) for i in range(12)]
    torch.testing.assert_close(torch.stack(rows), numbers["loss_per_question"], **CLOSE)


def ban_name(ours):
    """The author's name of a parameter of BAN; the embeddings are compared apart."""
    kinds = {"weight": "weight_v", "scale": "weight_g", "bias": "bias"}
    part, *rest = ours.split(".")
    if part == "gru":
        return f"q_emb.rnn.{rest[0]}"
    if part == "classifier":
        return f"classifier.main.{rest[0]}.{kinds[rest[1]]}"
    part, *rest = rest
    sides = {"element": "v_net", "word": "q_net"}
    if part == "attention" and len(rest) == 1:
        names = {"weight": "h_mat_v", "scale": "h_mat_g", "bias": "h_bias"}
        return f"v_att.logits.{names[rest[0]]}"
    if part == "attention":
        return f"v_att.logits.{sides[rest[0]]}.main.1.{kinds[rest[1]]}"
    if part == "pools":
        return f"b_net.{rest[0]}.{sides[rest[1]]}.main.1.{kinds[rest[2]]}"
    if part == "residuals":
        return f"q_prj.{rest[0]}.main.1.{kinds[rest[1]]}"
    if part == "counted":
        return f"c_prj.{rest[0]}.main.0.{kinds[rest[1]]}"
    return ".".join(["counter.f", *rest[1:]])


def test_ban_agrees_with_the_author(golden):
    """To 1e-8: his code adds a small number to the union of boxes."""
    close = {"rtol": 1e-8, "atol": 1e-9}
    numbers = golden("ban_net")
    # His padding is the last row, ours the first.
    for name in ("emb", "emb_"):
        for kind in ("param", "grad"):
            key = f"{kind}.w_emb.{name}.weight"
            numbers[key] = numbers[key].roll(1, dims=0)
    tokens = (numbers["tokens"] + 1) % 9

    def name(ours):
        if ours.startswith("embeddings"):
            return f"w_emb.{['emb', 'emb_'][int(ours.split('.')[1])]}.weight"
        return ban_name(ours)

    sizes = {"features": 5, "embedding": 3, "hidden": 6, "glimpses": 2, "objects": 4}
    net = load(BANNet(8, 7, **sizes, mask_words=False).double(), numbers, name)
    features, boxes = numbers["v"].requires_grad_(), numbers["boxes"].requires_grad_()
    mask = lengths_to_mask(numbers["sizes"], size=7)
    lengths = (tokens > 0).sum(dim=1)
    batch = VQABatch(tokens, lengths, features, boxes[..., :4], mask)
    out = net(batch)
    torch.testing.assert_close(out, numbers["out"], **close)
    loss = ban_loss(out, numbers["target"])
    torch.testing.assert_close(loss, numbers["loss"], **close)
    loss.backward()
    assert_gradients(net, numbers, name, tolerance=close)
    torch.testing.assert_close(features.grad, numbers["grad_v"], **close)
    torch.testing.assert_close(boxes.grad, numbers["grad_boxes"], **close)
    assert (lengths < tokens.shape[1]).any()
    net.mask_words = True
    assert not torch.allclose(net(batch), out)  # his network attends to what is no word


NETS = {
    "baseline": lambda: soft_attention(),
    "nms": lambda: soft_attention(NMSFeatures(4)),
    "sum": lambda: soft_attention(SumFeatures(4)),
    "counting": lambda: soft_attention(CounterFeatures(4)),
    "ban": lambda: BANNet(10, 5, features=7, embedding=3, hidden=4, glimpses=2, objects=3).double(),
    "ban-order": lambda: BANNet(
        10,
        5,
        features=7,
        embedding=3,
        hidden=4,
        glimpses=2,
        objects=None,
        reader=ProposalReader(7, projected=2, outputs=3, compared=4),
    ).double(),
}


def ask(net, elements, mask):
    """One question about each set, whose boxes are made from its elements."""
    count = len(elements)
    filled = elements.masked_fill(~mask.unsqueeze(-1), 0)
    corner, side = filled[..., :2].sigmoid(), filled[..., 2:4].sigmoid() / 2
    boxes = torch.cat([corner, corner + side], dim=2).masked_fill(~mask.unsqueeze(-1), torch.nan)
    tokens = torch.tensor([[3, 1, 7, 0]]).expand(count, -1)
    lengths = torch.full((count,), 3)
    return net(VQABatch(tokens, lengths, elements, boxes, mask))


@pytest.mark.parametrize("name", list(NETS))
def test_obeys_the_laws_in_the_proposals(generator, name):
    torch.manual_seed(0)
    net = NETS[name]().eval()
    elements, mask = random_sets([3, 0, 5], 7, generator)
    assert_obeys_laws(lambda x, m: ask(net, x, m), elements, mask)


@pytest.mark.parametrize("name", ["counting", "ban"])
def test_padding_words_do_not_matter(generator, name):
    torch.manual_seed(0)
    net = NETS[name]().eval()
    features, mask = random_sets([3, 5], 7, generator)
    boxes = torch.rand(2, 5, 4, generator=generator).double().cumsum(dim=2)
    tokens, lengths = torch.tensor([[1, 2, 9], [4, 4, 4]]), torch.tensor([2, 3])
    expected = net(VQABatch(tokens, lengths, features, boxes, mask))
    longer = torch.tensor([[1, 2, 5, 5, 5], [4, 4, 4, 0, 7]])
    torch.testing.assert_close(net(VQABatch(longer, lengths, features, boxes, mask)), expected)


@pytest.mark.parametrize("name", ["baseline", "counting", "ban"])
def test_unmasked_zeros_leak_as_in_the_released_code(generator, name):
    """Its proposals are padded with zeros to 100 and not masked: the answers change with them."""
    torch.manual_seed(0)
    net = NETS[name]().eval()
    features = torch.randn(1, 4, 7, generator=generator, dtype=torch.float64)
    boxes = torch.rand(1, 4, 4, generator=generator).double().cumsum(dim=2)
    words = torch.tensor([[1, 2, 3]]), torch.tensor([3])
    every = torch.ones(1, 4, dtype=torch.bool)
    expected = net(VQABatch(*words, features, boxes, every))
    padded = torch.cat([features, torch.zeros(1, 30, 7).double()], dim=1)
    padded_boxes = torch.cat([boxes, torch.zeros(1, 30, 4).double()], dim=1)
    mask = torch.arange(34).unsqueeze(0) < 4
    masked = net(VQABatch(*words, padded, padded_boxes, mask))
    unmasked = net(VQABatch(*words, padded, padded_boxes, torch.ones_like(mask)))
    torch.testing.assert_close(masked, expected)
    assert (unmasked - expected).abs().max() > 1e-3


def test_a_proposal_of_zeros_has_no_direction_and_no_gradient():
    features = torch.tensor([[[3.0, 4.0], [0.0, 0.0], [torch.nan, 1.0]]]).requires_grad_()
    mask = torch.tensor([[True, True, False]])
    unit = unit_vectors(features, mask)
    torch.testing.assert_close(unit, torch.tensor([[[0.6, 0.8], [0.0, 0.0], [0.0, 0.0]]]))
    unit.sum().backward()
    assert (features.grad[0, 1:] == 0).all()


def test_suppression_counts_the_boxes_of_largest_attention():
    box, near, far = [0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.9], [5.0, 5.0, 6.0, 6.0]
    boxes = torch.tensor([[box, near, far, far]])
    logits = torch.tensor([[[3.0, 1.0], [2.0, 0.0], [-4.0, 0.0], [-5.0, 0.0]]])
    mask = torch.tensor([[True, True, True, False]])
    assert NMSFeatures(2)(boxes, logits, mask).tolist() == [[0.0, 1.0, 0.0]]
    assert NMSFeatures(2, largest=False)(boxes, logits, mask).tolist() == [[0.0, 0.0, 1.0]]


def test_the_question_alone_can_be_answered():
    net = SoftAttentionNet(9, 4, features=0, embedding=3, question=5, hidden=6).eval()
    tokens, lengths = torch.tensor([[1, 2], [3, 0]]), torch.tensor([2, 1])
    nothing = torch.full((2, 3, 0), torch.nan)
    batch = VQABatch(tokens, lengths, nothing, torch.zeros(2, 3, 4), torch.zeros(2, 3).bool())
    net(batch).square().sum().backward()
    assert (net.question.embedding.weight.grad[1:4] != 0).any(dim=1).all()


def parameters(net):
    return sum(weight.numel() for weight in net.parameters())


def test_the_numbers_of_parameters_are_those_of_the_released_code():
    with torch.device("meta"):
        baseline = parameters(SoftAttentionNet(13758, 3000))
        assert baseline == 18_097_550
        counting = parameters(SoftAttentionNet(13758, 3000, count=CounterFeatures()))
        assert counting == baseline + 14_336 + 128
        ban = parameters(BANNet(19901, 3129))
        assert ban == 90_618_566 - 272 + 128  # half of his counter's functions are idle
        ordered = parameters(BANNet(19901, 3129, reader=ProposalReader(2048)))
        assert ordered == ban + 93_194 + 1_320_968
        read = parameters(BANNet(19901, 3129, reader=ProposalReader(2048, compared=None)))
        assert read == ordered - 3586
