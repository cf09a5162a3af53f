import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import pad

from torchsets.counting import Counter, box_iou
from torchsets.counting.graph import symmetric_index
from torchsets.lab.benchmarks.counting import PlainCounter
from torchsets.testing import assert_handles_scales, assert_obeys_laws, random_sets


def random_counter(objects=10, *, attention="weights", pieces=16, seed=0):
    """A counter with eight random functions, in float64."""
    counter = Counter(objects, pieces=pieces, attention=attention).double()
    generator = torch.Generator().manual_seed(seed)
    for weight in counter.parameters():
        weight.data = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
    return counter


def random_proposals(batch, size, *, generator, dtype=torch.float64):
    corner = torch.rand(batch, size, 2, generator=generator, dtype=dtype)
    boxes = torch.cat([corner, corner + 0.4], dim=-1)
    return boxes, torch.rand(batch, size, generator=generator, dtype=dtype)


def split(elements):
    """Boxes with an area and weights near 1 / 2 from any elements (B, N, 5)."""
    corner, size = elements[..., :2], elements[..., 2:4].abs() + 0.5
    return torch.cat([corner, corner + size], dim=-1), 0.5 + elements[..., 4] / 10


def count_one_set(counter, boxes, weights):
    """The formulas of the thesis for one set, one entry after the other."""
    f1, f2, f3, f4, f5, f6, f7, f8 = counter.activations
    n = len(weights)
    distance = 1 - box_iou(boxes)
    distance = distance - torch.diag(distance.diag())
    matrix = weights.unsqueeze(1) * weights.unsqueeze(0)
    rows = f4(matrix) * f5(distance)
    scale = []
    for i in range(n):
        total = 0.0
        for j in range(n):
            similarity = f3(1 - (weights[i] - weights[j]).abs())
            for k in range(n):
                similarity = similarity * f3(1 - (rows[k, i] - rows[k, j]).abs())
            total = total + similarity
        scale.append(1 / total)
    scale = torch.stack(scale)
    counts = f1(matrix) * f2(distance) * scale.unsqueeze(0) * scale.unsqueeze(1)
    counts = counts + torch.diag(scale * f1(weights * weights))
    count = counts.sum().sqrt()
    confidence = f8((f6(weights) - 0.5).abs().mean() + (f7(distance) - 0.5).abs().mean())
    number = torch.arange(counter.objects + 1)
    output = confidence * (1 - (count - number).abs()).clamp(min=0)
    return output, matrix, distance, counts, count, confidence


def test_linear_functions_agree_with_the_author(golden):
    data = golden("count_linear_n10")
    counter = Counter(10).double()
    boxes = data["boxes"].transpose(1, 2).clone().requires_grad_()
    attention = data["attention"].clone().requires_grad_()
    output = counter(boxes, attention)
    (output * data["cot"]).sum().backward()
    torch.testing.assert_close(output, data["out"])
    torch.testing.assert_close(attention.grad, data["grad_attention"])
    torch.testing.assert_close(boxes.grad, data["grad_boxes"].transpose(1, 2))
    gradients = torch.stack([function.weight.grad for function in counter.activations])
    torch.testing.assert_close(gradients, data["grad_w"][:, 1:])  # theirs keeps a weight w_0 = 0
    details = counter.inspect(boxes, attention)
    torch.testing.assert_close(details.D, data["mid_D"])
    torch.testing.assert_close(details.total, data["mid_count"].squeeze(1))
    torch.testing.assert_close(details.confidence, data["mid_conf"].squeeze(1))


def test_extreme_cases_agree_with_the_author(golden):
    data = golden("count_extreme")
    counter = Counter(10).double()
    for function, weight in zip(counter.activations, data["w"], strict=True):
        function.weight.data = weight[1:]
    boxes = data["boxes"].transpose(1, 2)
    torch.testing.assert_close(counter(boxes, data["attention"]), data["out"])
    count = counter.inspect(boxes, data["attention"]).total
    torch.testing.assert_close(count, data["true_count"].double())


@settings(max_examples=100, deadline=None)
@given(
    copies=st.lists(st.integers(1, 9), max_size=6),
    irrelevant=st.lists(st.integers(1, 4), max_size=3),
    seed=st.integers(0, 2**31),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_extreme_cases_are_exact_for_every_number_of_duplicates(copies, irrelevant, seed, dtype):
    numbers = torch.tensor(copies + irrelevant, dtype=torch.long)
    place = torch.arange(len(numbers)).repeat_interleave(numbers)
    boxes = torch.stack([place, place, place + 1, place + 1], dim=-1).to(dtype)
    weights = (place < len(copies)).to(dtype)
    order = torch.randperm(len(place), generator=torch.Generator().manual_seed(seed))
    counter = random_counter(max(1, len(place)), seed=seed).to(dtype)
    output = counter(boxes[order].unsqueeze(0), weights[order].unsqueeze(0))
    expected = torch.zeros_like(output)
    expected[0, len(copies)] = 1
    torch.testing.assert_close(
        output, expected, rtol=0, atol=1e-4 if dtype is torch.float32 else 1e-10
    )


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_agrees_with_the_formulas_one_entry_after_the_other(size, generator):
    counter = random_counter(6)
    boxes, weights = random_proposals(3, size, generator=generator)
    output, details = counter(boxes, weights), counter.inspect(boxes, weights)
    for index in range(3):
        expected = count_one_set(counter, boxes[index], weights[index])
        got = (output, details.A, details.D, details.C, details.total, details.confidence)
        torch.testing.assert_close(tuple(part[index] for part in got), expected)


def test_agrees_with_the_plain_way_of_the_benchmark(generator):
    counter, plain = random_counter(30), PlainCounter(30).double()
    plain.weight.data = torch.stack([function.weight.data for function in counter.activations])
    boxes, weights = random_proposals(2, 30, generator=generator)
    torch.testing.assert_close(counter(boxes, weights), plain(boxes, weights))


def test_nothing_cubic_in_the_number_of_objects_is_kept(generator):
    sizes = []

    def note(tensor):
        sizes.append(tensor.numel())
        return tensor

    boxes, weights = random_proposals(2, 30, generator=generator)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        random_counter(30)(boxes.requires_grad_(), weights.requires_grad_())
    assert max(sizes) == 2 * 30 * 31  # the graph with its weights
    assert sum(sizes) < 60 * 2 * 30 * 30


@pytest.mark.parametrize("objects", [3, 8], ids=["top-3", "all"])
@pytest.mark.parametrize("sizes", [[4, 4], [3, 0, 5], [1, 6]], ids=["full", "empty", "mixed"])
def test_obeys_the_laws(objects, sizes, generator):
    counter = random_counter(objects)
    elements, mask = random_sets(sizes, 5, generator)
    assert_obeys_laws(lambda x, m: counter(*split(x), m), elements, mask)


def test_is_finite_at_any_scale():
    counter = Counter(3)

    def count(elements, mask):
        corner, size = elements[..., :2], elements[..., 2:4].abs()
        return counter(torch.cat([corner, corner + size], dim=-1), elements[..., 4], mask)

    assert_handles_scales(count, features=5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_details_keep_the_dtype(dtype, generator):
    counter = Counter(3)
    boxes, weights = (part.to(dtype) for part in random_proposals(2, 5, generator=generator))
    distances = torch.rand(2, 5, 5, generator=generator, dtype=torch.float64).to(dtype)
    for details in (
        counter.inspect(boxes, weights),
        counter.inspect_distances(distances, weights),
    ):
        assert {tensor.dtype for tensor in details[:5]} == {dtype}
        assert details.kept.dtype == torch.long


def test_distances_obey_the_laws(generator):
    counter = random_counter(4)

    def count(elements, mask):
        filled = elements.masked_fill(~mask.unsqueeze(-1), 0)
        gaps = (filled.unsqueeze(1) - filled.unsqueeze(2)).abs().mean(dim=-1)
        hidden = ~(mask.unsqueeze(1) & mask.unsqueeze(2))
        distances = gaps.tanh().masked_fill(hidden, torch.nan)
        return counter.from_distances(distances, 0.5 + elements[..., 0] / 10, mask)

    assert_obeys_laws(count, *random_sets([3, 0, 6], 2, generator))


def test_parameter_gradients_are_finite_under_nan_padding(generator):
    counter = random_counter(4)
    elements, mask = random_sets([3, 0, 6], 5, generator)
    counter(*split(elements), mask).square().sum().backward()
    assert all(weight.grad.isfinite().all() for weight in counter.parameters())
    assert any(weight.grad.abs().sum() > 0 for weight in counter.parameters())


def test_boxes_and_their_distances_give_the_same(generator):
    counter = random_counter(5)
    boxes, weights = random_proposals(4, 8, generator=generator)
    distances = 1 - box_iou(boxes)
    torch.testing.assert_close(counter.from_distances(distances, weights), counter(boxes, weights))
    details, same = counter.inspect_distances(distances, weights), counter.inspect(boxes, weights)
    torch.testing.assert_close(tuple(details), tuple(same))


def test_the_two_distances_of_a_pair_are_averaged(generator):
    counter = random_counter(5)
    distances = torch.rand(2, 5, 5, generator=generator, dtype=torch.float64)
    weights = torch.rand(2, 5, generator=generator, dtype=torch.float64)
    symmetric = (distances + distances.transpose(1, 2)) / 2
    expected = counter.from_distances(symmetric, weights)
    torch.testing.assert_close(counter.from_distances(distances, weights), expected)


def test_logits_are_weights_before_the_logistic_function(generator):
    boxes, weights = random_proposals(2, 12, generator=generator)
    expected = random_counter(5)(boxes, weights)
    logits = random_counter(5, attention="logits")(boxes, weights.logit())
    torch.testing.assert_close(logits, expected)


def test_only_the_largest_weights_take_part(generator):
    counter = random_counter(4)
    boxes, weights = random_proposals(3, 9, generator=generator)
    weights.requires_grad_()
    top = weights.topk(4, dim=1).indices
    alone = counter(boxes.take_along_dim(top.unsqueeze(-1), dim=1), weights.gather(1, top))
    output = counter(boxes, weights)
    torch.testing.assert_close(output, alone)
    (gradient,) = torch.autograd.grad(output.square().sum(), weights)
    dropped = torch.ones_like(weights, dtype=torch.bool).scatter(1, top, False)
    assert (gradient[dropped] == 0).all()
    assert gradient[~dropped].abs().sum() > 0
    assert counter.inspect(boxes, weights).kept.equal(top.sort(dim=1).values)


@pytest.mark.parametrize("real", [[0, 1], [0, 3], [1, 2], [2, 3]])
def test_a_logit_of_minus_infinity_goes_before_padding(real):
    counter = random_counter(2, attention="logits")
    boxes = torch.eye(4, dtype=torch.float64).unsqueeze(0)
    logits = torch.full((1, 4), -torch.inf, dtype=torch.float64)
    mask = torch.isin(torch.arange(4), torch.tensor(real)).unsqueeze(0)
    assert counter.inspect(boxes, logits, mask).kept.tolist() == [real]


def test_an_empty_set_gives_one_at_count_zero():
    boxes, weights = torch.full((1, 3, 4), torch.nan), torch.full((1, 3), torch.nan)
    output = Counter(2)(boxes, weights, torch.zeros(1, 3, dtype=torch.bool))
    assert output.tolist() == [[1.0, 0.0, 0.0]]
    assert Counter(2)(boxes[:, :0], weights[:, :0]).tolist() == [[1.0, 0.0, 0.0]]


@pytest.mark.parametrize("flat", [[0.5, 0.5, 0.5, 0.5], [0.9, 0.1, 0.2, 0.8]])
def test_one_box_without_area_counts_as_one(flat):
    output = Counter(2)(torch.tensor([[flat]]), torch.ones(1, 1))
    assert output.tolist() == [[0.0, 1.0, 0.0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("weight", [0.0, 1e-30, 1e-3])
def test_gradients_are_finite_at_and_near_count_zero(dtype, weight, generator):
    boxes, _ = random_proposals(2, 5, generator=generator)
    boxes, counter = boxes.to(dtype).requires_grad_(), Counter(5).to(dtype)
    attention = torch.full((2, 5), weight, dtype=dtype, requires_grad=True)
    output = counter(boxes, attention)
    output.float().square().sum().backward()
    assert output.dtype == dtype
    for tensor in (boxes, attention, *counter.parameters()):
        assert tensor.grad.isfinite().all()


def test_bfloat16_autocast_changes_nothing_but_rounding(generator):
    counter = Counter(5)
    boxes, weights = random_proposals(4, 5, generator=generator, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = counter(boxes, weights)
    torch.testing.assert_close(output.float(), counter(boxes, weights))


def test_weights_outside_zero_and_one_count_as_the_nearer_end(generator):
    boxes, _ = random_proposals(1, 4, generator=generator)
    outside = torch.tensor([[-0.5, 1.5, 0.3, 2.0]], dtype=torch.float64)
    counter = random_counter(4)
    torch.testing.assert_close(counter(boxes, outside), counter(boxes, outside.clamp(0, 1)))


def test_a_nan_weight_spoils_its_own_set_only(generator):
    counter = random_counter(4)
    boxes, weights = random_proposals(2, 4, generator=generator)
    expected = counter(boxes, weights)[1]
    weights[0, 2] = torch.nan
    output = counter(boxes, weights)
    assert output[0].isnan().any()
    torch.testing.assert_close(output[1], expected)


def test_gradient(generator):
    counter = random_counter(4, pieces=5)
    boxes, weights = random_proposals(2, 5, generator=generator)
    inputs = (boxes.requires_grad_(), weights.requires_grad_())
    parameters = dict(counter.named_parameters())

    def count(boxes, weights, *values):
        named = dict(zip(parameters, values, strict=True))
        return torch.func.functional_call(counter, named, (boxes, weights))

    assert torch.autograd.gradcheck(count, (*inputs, *parameters.values()))


def test_second_derivatives(generator):
    counter = random_counter(4, pieces=5)
    boxes, weights = random_proposals(1, 4, generator=generator)
    assert torch.autograd.gradgradcheck(lambda a: counter(boxes, a), weights.requires_grad_())


def test_torch_func_gives_the_same_gradient(generator):
    counter = random_counter(4)
    boxes, weights = random_proposals(2, 4, generator=generator)
    got = torch.func.grad(lambda a: counter(boxes, a).square().sum())(weights)
    weights.requires_grad_()
    (expected,) = torch.autograd.grad(counter(boxes, weights).square().sum(), weights)
    torch.testing.assert_close(got, expected)


@pytest.mark.slow
def test_compiles_without_a_break(generator):
    counter = random_counter(4)
    boxes, weights = random_proposals(2, 6, generator=generator)
    compiled = torch.compile(counter, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(boxes, weights), counter(boxes, weights))


def test_each_pair_has_one_place_in_the_matrix():
    index = symmetric_index(torch.zeros(5, 1))
    assert index.equal(index.t())
    assert sorted(index[*torch.triu_indices(5, 5, 1)].tolist()) == list(range(10))
    assert index.diag().tolist() == [10] * 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(objects=0), "objects must be at least 1, got 0"),
        (dict(attention="softmax"), "attention must be 'weights' or 'logits', got 'softmax'"),
    ],
)
def test_rejects_bad_options(arguments, message):
    with pytest.raises(ValueError, match=message):
        Counter(**arguments)


@pytest.mark.parametrize(
    ("boxes", "attention", "mask", "message"),
    [
        (torch.zeros(2, 3, 5), torch.zeros(2, 3), None, r"boxes must have shape \(B, N, 4\)"),
        (torch.zeros(2, 3, 4), torch.zeros(2, 1), None, r"attention must have shape \(2, 3\)"),
        (torch.zeros(2, 3, 4), torch.zeros(2, 3).long(), None, "attention must be floating point"),
        (torch.zeros(2, 3, 4), torch.zeros(2, 3), torch.ones(2, 3), "mask must be bool"),
    ],
)
def test_rejects_bad_input(boxes, attention, mask, message):
    with pytest.raises(ValueError, match=message):
        Counter()(boxes, attention, mask)


def test_rejects_distances_that_are_not_square():
    with pytest.raises(ValueError, match=r"distances must have shape \(B, N, N\)"):
        Counter().from_distances(torch.zeros(2, 3, 4), torch.zeros(2, 3))


def test_padding_does_not_choose_among_equal_weights(generator):
    """More proposals than objects, weights of 0 and 1: the first slots of the equal ones."""
    counter = random_counter(3)
    for padding in range(1, 30):
        boxes, weights = random_proposals(1, 6, generator=generator)
        weights = weights.round()
        mask = torch.arange(6 + padding).unsqueeze(0) < 6
        expected = counter(boxes, weights)
        more_boxes = pad(boxes, (0, 0, 0, padding), value=torch.nan)
        more_weights = pad(weights, (0, padding), value=torch.nan)
        torch.testing.assert_close(counter(more_boxes, more_weights, mask), expected)
