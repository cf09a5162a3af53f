from functools import partial

import pytest
import torch

from torchsets import sorting
from torchsets._relaxed_order import multiply_rows
from torchsets.sorting import (
    descending_order,
    neural_sort,
    relaxed_sort,
    sort_features,
)
from torchsets.testing import assert_handles_small_sets, assert_obeys_laws, random_sets

DTYPES = [torch.float32, torch.float64, torch.bfloat16]
MASK = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 1, 0, 1, 1, 0], [0, 0, 0, 0, 1, 0], [0] * 6]).bool()


def sorted_values(elements, mask):
    return sort_features(elements, mask).values


def sort_alone(elements, mask):
    """The oracle: torch.sort on each bare set. Values and slots, one pair per set."""
    for one, real in zip(elements, mask, strict=True):
        values, order = one[real].sort(dim=0, descending=True, stable=True)
        yield values, real.nonzero()[order.flatten()].view(order.shape)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("threads", [1, 2])
def test_equals_torch_sort_with_ties_and_signed_zeros(dtype, threads, generator, monkeypatch):
    monkeypatch.setattr(sorting, "_THREADED", 0)
    monkeypatch.setattr(sorting, "_BLOCK", 64)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    elements = torch.randn(5, 40, 3, generator=generator).mul(2).round().div(2).to(dtype)
    assert (elements == 0).any()
    assert elements[elements == 0].signbit().any()
    expected = elements.sort(dim=1, descending=True, stable=True)
    actual = sort_features(elements)
    torch.set_num_threads(before)
    assert torch.equal(actual.values, expected.values)
    assert torch.equal(actual.order, expected.indices)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("fill", [float("nan"), float("inf"), 0.0])
def test_masked_sort_equals_the_sort_of_the_bare_set(dtype, fill, generator):
    elements = torch.randn(4, 6, 3, generator=generator).mul(2).round().to(dtype)
    elements[0, 0] = float("-inf")
    elements[1, 3] = float("-inf")  # a real -inf stands before padding
    elements = elements.masked_fill(~MASK.unsqueeze(-1), fill)
    values, order = sort_features(elements, MASK)
    for index, (expected, slots) in enumerate(sort_alone(elements, MASK)):
        size = len(expected)
        assert torch.equal(values[index, :size], expected)
        assert torch.equal(order[index, :size], slots)
        assert (values[index, size:] == 0).all()
        assert torch.equal(order[index, size:], (~MASK[index]).nonzero().expand(-1, 3))


@pytest.mark.parametrize("masked", [False, True])
def test_plain_torch_path_gives_the_same_order(masked, generator, monkeypatch):
    rows = torch.randn(4, 3, 6, generator=generator).mul(2).round()
    rows[1, 0, 3] = float("-inf")
    mask = MASK.unsqueeze(1) if masked else None
    fast = descending_order(rows, mask)
    monkeypatch.setattr(sorting, "runs_on_numpy", lambda rows: False)
    assert torch.equal(descending_order(rows, mask), fast)


def test_huge_and_tiny_numbers_keep_their_order():
    rows = torch.tensor([1e-45, -1e-45, 3.4e38, -3.4e38, torch.inf, -torch.inf, 1.0, 0.0])
    assert rows[descending_order(rows)].tolist() == sorted(rows.tolist(), reverse=True)
    wide = torch.tensor([5e-324, -5e-324, 1.7e308, -1.7e308, torch.inf, -torch.inf], dtype=float)
    assert wide[descending_order(wide)].tolist() == sorted(wide.tolist(), reverse=True)


@pytest.mark.parametrize("sizes", [[4, 4], [3, 1, 5], [0, 2]])
def test_sort_obeys_the_laws(sizes, generator):
    """Values are invariant; the ranks of padding hold zeros, so sums over ranks ignore padding."""
    weights = torch.linspace(1, 2, 16).double()

    def ranked_sum(elements, mask):
        values = sorted_values(elements, mask)
        return (values * weights[: values.shape[1], None]).sum(dim=1)

    assert_obeys_laws(ranked_sum, *random_sets(sizes, features=2, generator=generator))


def test_sort_is_differentiable_twice(generator):
    elements = torch.randn(4, 6, 2, generator=generator, dtype=torch.float64).requires_grad_()

    def function(elements):
        return sorted_values(elements, MASK).pow(3)

    assert torch.autograd.gradcheck(function, elements)
    assert torch.autograd.gradgradcheck(function, elements)


def _inner_step(elements, mask):
    """What DSPN does: move a set along the gradient of a sort, and differentiate that again."""

    def energy(elements):
        values = sort_features(elements, mask).values
        ranks = torch.arange(values.shape[1], dtype=values.dtype).unsqueeze(-1)
        return (values.pow(3) * ranks).sum()

    return (elements - 0.1 * torch.func.grad(energy)(elements)).square().sum()


@pytest.mark.slow
def test_compiled_second_order_gradient_equals_the_eager_one(generator):
    elements = torch.randn(4, 6, 2, generator=generator, dtype=torch.float64)
    start = elements.clone().requires_grad_()
    values = sort_features(start, MASK).values
    ranks = torch.arange(6, dtype=torch.float64).unsqueeze(-1)
    energy = (values.pow(3) * ranks).sum()
    (inner,) = torch.autograd.grad(energy, start, create_graph=True)
    (expected,) = torch.autograd.grad((start - 0.1 * inner).square().sum(), start)
    assert (expected - 2 * elements).abs().max() > 0.1  # the second order takes part
    torch.testing.assert_close(torch.func.grad(_inner_step)(elements, MASK), expected)
    compiled = torch.compile(_inner_step, backend="aot_eager", fullgraph=True)
    leaf = elements.clone().requires_grad_()
    (actual,) = torch.autograd.grad(compiled(leaf, MASK), leaf)
    torch.testing.assert_close(actual, expected)


def test_sort_works_under_vmap(generator):
    elements = torch.randn(3, 2, 5, 2, generator=generator)
    mapped = torch.func.vmap(lambda one: sort_features(one).values)(elements)
    expected = torch.stack([sort_features(one).values for one in elements])
    assert torch.equal(mapped, expected)


def neural_sort_by_definition(scores, temperature):
    """P_ij = softmax_j(((n + 1 - 2i) s_j - sum_k |s_j - s_k|) / temperature)."""
    size = len(scores)
    sums = (scores[:, None] - scores[None, :]).abs().sum(dim=1)
    slope = size + 1 - 2 * torch.arange(1, size + 1, dtype=scores.dtype)
    return ((slope[:, None] * scores[None, :] - sums) / temperature).softmax(dim=-1)


def test_neural_sort_matches_the_author(golden):
    arrays = golden("fspool_neuralsort")
    scores = arrays["s"].requires_grad_()
    relaxed = neural_sort(scores, temperature=float(arrays["tau"]))
    torch.testing.assert_close(relaxed, arrays["P"], rtol=1e-6, atol=1e-9)
    (gradient,) = torch.autograd.grad((relaxed * arrays["cot"]).sum(), scores)
    torch.testing.assert_close(gradient, arrays["grad_s"], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_padded_neural_sort_equals_that_of_the_bare_set(dtype, offset, generator):
    scores = (torch.randn(4, 6, generator=generator, dtype=torch.float64) + offset).to(dtype)
    scores = scores.masked_fill(~MASK, float("nan"))
    relaxed = neural_sort(scores, temperature=0.5, mask=MASK)
    for one, result, real in zip(scores, relaxed, MASK, strict=True):
        size = int(real.sum())
        expected = neural_sort_by_definition(one[real].double(), 0.5)
        torch.testing.assert_close(result[:size, real].double(), expected, rtol=1e-4, atol=1e-5)
        assert result[size:].abs().sum() == 0
        assert result[:, ~real].abs().sum() == 0


def test_neural_sort_of_a_large_padded_set_in_single_precision(generator):
    """The author's padding value destroys this case: errors of up to 0.96."""
    scores = torch.randn(1, 342, generator=generator)
    mask = torch.arange(342).unsqueeze(0) < 133
    relaxed = neural_sort(scores, mask=mask)
    expected = neural_sort_by_definition(scores[0, :133].double(), 1.0)
    torch.testing.assert_close(relaxed[0, :133, :133].double(), expected, rtol=1e-3, atol=1e-4)


def test_neural_sort_becomes_the_permutation(generator):
    scores = torch.randn(2, 7, generator=generator)
    hard = torch.nn.functional.one_hot(scores.argsort(dim=1, descending=True), 7).float()
    torch.testing.assert_close(neural_sort(scores, temperature=1e-4), hard)


def test_neural_sort_is_differentiable_twice(generator):
    scores = torch.randn(4, 6, generator=generator, dtype=torch.float64).requires_grad_()

    def function(scores):
        return neural_sort(scores, mask=MASK, temperature=0.7)

    assert torch.autograd.gradcheck(function, scores)
    assert torch.autograd.gradgradcheck(function, scores)


@pytest.mark.parametrize("wanted", ["weights", "values"])
def test_equal_scores_have_the_gradient_of_the_definition(wanted, generator):
    scores = torch.tensor([1.0, 0, 2, 1, 0, 1], dtype=torch.float64)
    cotangents = torch.randn(6, 6, generator=generator, dtype=torch.float64)

    def measure(scores, relaxed):
        return (
            (cotangents * relaxed).sum()
            if wanted == "weights"
            else cotangents[0] @ (relaxed @ scores)
        )

    def definition(scores):
        return measure(scores, neural_sort_by_definition(scores, 0.5))

    def padded(scores):  # zeros of padding are no zeros of the set
        mask = torch.tensor([True] * 3 + [False] * 2 + [True] * 3)
        slots = torch.zeros(8, dtype=torch.float64).masked_scatter(mask, scores)
        values, relaxed = relaxed_sort(slots.unsqueeze(0), mask.unsqueeze(0), temperature=0.5)
        if wanted == "values":
            return cotangents[0] @ values[0, :6]
        return (cotangents * relaxed[0, :6][:, mask]).sum()

    expected = torch.func.grad(definition)(scores)
    given = scores.clone().requires_grad_()
    (recorded,) = torch.autograd.grad(padded(given), given)
    torch.testing.assert_close(recorded, expected)
    torch.testing.assert_close(torch.func.grad(padded)(scores), expected)  # the plain operations


@pytest.mark.slow
def test_compiled_neural_sort_equals_the_eager_one(generator):
    scores = torch.randn(4, 6, generator=generator, dtype=torch.float64).requires_grad_()
    weights = torch.randn(4, 6, 6, generator=generator, dtype=torch.float64)

    def function(scores):
        return (neural_sort(scores, mask=MASK) * weights).sum()

    expected = torch.autograd.grad(function(scores), scores)
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(torch.autograd.grad(compiled(scores), scores), expected)
    functional = torch.func.grad(function)(scores.detach())
    torch.testing.assert_close(functional, expected[0])


def test_neural_sort_obeys_the_laws(generator):
    ranks = torch.linspace(1, 2, 16).double()

    def ranked_scores(elements, mask):
        scores = elements[..., 0]
        relaxed = neural_sort(scores, mask=mask)
        filled = scores.masked_fill(~mask, 0).unsqueeze(-1)
        return ((relaxed @ filled).squeeze(-1) * ranks[: scores.shape[1]]).sum(dim=1)

    assert_obeys_laws(ranked_scores, *random_sets([3, 1, 5], features=1, generator=generator))
    assert_handles_small_sets(ranked_scores, features=1)


def test_neural_sort_in_half_precision_is_computed_in_single(generator):
    scores = torch.randn(2, 50, generator=generator).bfloat16()
    relaxed = neural_sort(scores)
    assert relaxed.dtype == torch.bfloat16
    torch.testing.assert_close(relaxed, neural_sort(scores.float()).bfloat16())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(neural_sort(scores.float()), neural_sort(scores.float()))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sort_features(torch.zeros(2, 3)), r"elements must have shape \(B, N, D\)"),
        (lambda: sort_features(torch.zeros(1, 3, 1), torch.ones(1, 3)), "mask must be bool"),
        (lambda: neural_sort(torch.zeros(3)), r"scores must have shape \(B, N\), got \(3,\)"),
        (lambda: neural_sort(torch.zeros(1, 3).int()), "scores must be floating point"),
        (lambda: neural_sort(torch.zeros(1, 3), temperature=0), "temperature must be above 0"),
        (
            lambda: neural_sort(torch.zeros(1, 3), mask=torch.ones(1, 2).bool()),
            r"mask must have shape \(1, 3\) to match scores",
        ),
    ],
)
def test_rejects_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_relaxed_sort_is_neural_sort_times_the_scores(generator):
    scores = torch.randn(4, 6, generator=generator, dtype=torch.float64)
    values, matrix = relaxed_sort(scores.masked_fill(~MASK, torch.nan), MASK, temperature=0.7)
    expected = neural_sort(scores, mask=MASK, temperature=0.7)
    torch.testing.assert_close(matrix, expected)
    clean = scores.masked_fill(~MASK, 0)
    torch.testing.assert_close(values, torch.einsum("bij,bj->bi", expected, clean))


@pytest.mark.parametrize("wanted", ["values", "matrix", "both"])
def test_a_relaxed_sort_is_differentiable_twice_in_each_result(wanted, generator):
    scores = torch.randn(4, 6, generator=generator, dtype=torch.float64).requires_grad_()

    def function(scores):
        values, matrix = relaxed_sort(scores, MASK, temperature=0.7)
        # gradcheck takes outputs one by one: both at once only if they are one
        both = torch.cat([values.unsqueeze(2), matrix], dim=2)
        return {"values": values, "matrix": matrix, "both": both.square().sum(dim=2)}[wanted]

    assert torch.autograd.gradcheck(function, scores)
    assert torch.autograd.gradgradcheck(function, scores)


@pytest.mark.parametrize("transposed", [False, True])
def test_rows_times_matrices(transposed, generator):
    rows = torch.randn(2, 3, 4, generator=generator, dtype=torch.float64).requires_grad_()
    matrices = torch.randn(2, 3, 4, 4, generator=generator, dtype=torch.float64).requires_grad_()
    product = multiply_rows(rows, matrices, transposed=transposed)
    letters = "abi,abji->abj" if transposed else "abi,abij->abj"
    torch.testing.assert_close(product, torch.einsum(letters, rows, matrices))
    function = partial(multiply_rows, transposed=transposed)
    assert torch.autograd.gradcheck(function, (rows, matrices))
    assert torch.autograd.gradgradcheck(function, (rows, matrices))
