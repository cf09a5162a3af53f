import pytest
import torch

from torchsets.permutations import sinkhorn


def normalise_by_turns(scores, steps):
    """The definition: exp, then rows and columns, for one matrix."""
    matrix = scores.exp()
    for _ in range(steps):
        matrix = matrix / matrix.sum(dim=1, keepdim=True)
        matrix = matrix / matrix.sum(dim=0, keepdim=True)
    return matrix


def normalise_logarithms(scores, steps):
    """The same in a form that no size of the scores disturbs."""
    for _ in range(steps):
        scores = scores - scores.logsumexp(dim=2, keepdim=True)
        scores = scores - scores.logsumexp(dim=1, keepdim=True)
    return scores.exp()


def test_agrees_with_the_authors_numbers(golden):
    arrays = golden("po_sinkhorn")
    scores = arrays["x"].requires_grad_()
    soft = sinkhorn(scores, steps=int(arrays["L"]), temperature=float(arrays["temp"]))
    torch.testing.assert_close(soft, arrays["out"], rtol=1e-6, atol=0)
    (gradient,) = torch.autograd.grad((soft * arrays["cot"]).sum(), scores)
    torch.testing.assert_close(gradient, arrays["grad_x"], rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("steps", [1, 4, 20])
def test_matches_the_definition(steps, generator):
    scores = torch.randn(3, 5, 5, generator=generator, dtype=torch.float64)
    expected = torch.stack([normalise_by_turns(one / 0.7, steps) for one in scores])
    torch.testing.assert_close(sinkhorn(scores, steps=steps, temperature=0.7), expected)


@pytest.mark.parametrize("size", [10.0, 1e3, 1e5])
def test_scores_of_any_size_are_safe_in_float32(size, generator):
    scores = size * torch.randn(50, 7, 7, generator=generator)
    leaf = scores.clone().requires_grad_()
    soft = sinkhorn(leaf)
    exact = scores.double().requires_grad_()
    expected = normalise_logarithms(exact, 4)
    # float32 resolves scores of this size only to size * 1e-7
    torch.testing.assert_close(soft.double(), expected, rtol=0, atol=2e-6 * max(size / 100, 1))
    weights = torch.rand(soft.shape, generator=generator)
    (gradient,) = torch.autograd.grad((soft * weights).sum(), leaf)
    (expected_gradient,) = torch.autograd.grad((expected * weights.double()).sum(), exact)
    torch.testing.assert_close(
        gradient.double(), expected_gradient, rtol=0, atol=4e-6 * max(size / 100, 1)
    )


def test_a_column_that_all_rows_avoid_still_gets_its_share():
    scores = torch.zeros(1, 3, 3)
    scores[:, :, 2] = -1000.0
    scores[:, 0, 2] = -900.0
    soft = sinkhorn(scores, steps=20)
    torch.testing.assert_close(soft.sum(dim=1), torch.ones(1, 3))
    torch.testing.assert_close(soft[0, 0], torch.tensor([0.0, 0.0, 1.0]), rtol=0, atol=0.05)


@pytest.fixture
def denormals_are_zero():
    """As on a GPU."""
    torch.set_flush_denormal(True)
    yield
    torch.set_flush_denormal(False)


@pytest.mark.usefixtures("denormals_are_zero")
def test_a_column_at_the_edge_of_float32_is_exact():
    scores = torch.zeros(1, 8, 8)
    scores[:, :, 3] = -86.0  # its exponential, divided by 7, is denormal; that of -84 is not
    scores[:, 0, 3] = -84.0
    expected = normalise_logarithms(scores.double(), 4)
    torch.testing.assert_close(sinkhorn(scores).double(), expected, rtol=1e-5, atol=1e-6)


def test_a_masked_set_equals_the_bare_one(generator):
    scores = torch.full((2, 5, 5), float("nan"), dtype=torch.float64)
    bare = torch.randn(3, 3, generator=generator, dtype=torch.float64)
    rows = torch.tensor([0, 2, 4])
    scores[0, rows, :3] = bare
    scores[1] = torch.randn(5, 5, generator=generator, dtype=torch.float64)
    mask = torch.tensor([[True, False, True, False, True], [True] * 5])
    soft = sinkhorn(scores, mask=mask)
    torch.testing.assert_close(soft[0, rows, :3], normalise_by_turns(bare, 4))
    torch.testing.assert_close(soft[1], normalise_by_turns(scores[1], 4))
    rest = soft[0].clone()
    rest[rows, :3] = 0
    assert (rest == 0).all()


def test_masked_scores_get_no_gradient(generator):
    scores = torch.randn(1, 4, 4, generator=generator, dtype=torch.float64).requires_grad_()
    mask = torch.tensor([[True, False, True, False]])
    soft = sinkhorn(scores, mask=mask)
    (gradient,) = torch.autograd.grad((soft * torch.randn_like(soft)).sum(), scores)
    real = torch.zeros(4, 4, dtype=torch.bool)
    real[::2, :2] = True
    assert (gradient[0][~real] == 0).all()
    assert (gradient[0][real] != 0).all()


@pytest.mark.parametrize("shape", [(2, 0, 0), (0, 3, 3), (0, 0, 0)])
def test_nothing_gives_nothing(shape):
    scores = torch.zeros(shape, requires_grad=True)
    soft = sinkhorn(scores)
    assert soft.shape == shape
    soft.sum().backward()
    assert scores.grad.shape == shape


def test_empty_and_single_sets():
    scores = torch.full((2, 3, 3), 7.0)
    mask = torch.tensor([[False] * 3, [False, True, False]])
    expected = torch.zeros(2, 3, 3)
    expected[1, 1, 0] = 1
    torch.testing.assert_close(sinkhorn(scores, mask=mask), expected)


def test_first_and_second_gradient(generator):
    scores = torch.randn(2, 4, 4, generator=generator, dtype=torch.float64).requires_grad_()
    mask = torch.tensor([[True, True, False, True], [True] * 4])

    def function(x):
        return sinkhorn(x, steps=3, temperature=0.8, mask=mask)

    assert torch.autograd.gradcheck(function, scores)
    assert torch.autograd.gradgradcheck(function, scores)


def test_gradient_where_the_fast_way_is_not_trusted(generator):
    scores = 60 * torch.randn(2, 4, 4, generator=generator, dtype=torch.float64)
    scores[:, :, 1] -= 300
    assert torch.autograd.gradcheck(sinkhorn, scores.requires_grad_(), atol=1e-6)


def test_gradient_of_a_transposed_cotangent(generator):
    scores = torch.randn(1, 4, 4, generator=generator, dtype=torch.float64).requires_grad_()
    weights = torch.randn(1, 4, 4, generator=generator, dtype=torch.float64)
    (plain,) = torch.autograd.grad((sinkhorn(scores) * weights).sum(), scores)
    (transposed,) = torch.autograd.grad((sinkhorn(scores).mT * weights.mT).sum(), scores)
    torch.testing.assert_close(transposed, plain)


def test_half_precision_is_computed_in_float32(generator):
    scores = torch.randn(2, 6, 6, generator=generator).bfloat16()
    soft = sinkhorn(scores)
    assert soft.dtype == torch.bfloat16
    torch.testing.assert_close(soft, sinkhorn(scores.float()).bfloat16())


def test_autocast_changes_nothing(generator):
    scores = torch.randn(2, 6, 6, generator=generator).requires_grad_()
    plain = sinkhorn(scores)
    (expected,) = torch.autograd.grad(plain.square().sum(), scores)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        soft = sinkhorn(scores)
        (gradient,) = torch.autograd.grad(soft.square().sum(), scores)
    torch.testing.assert_close(soft, plain)
    torch.testing.assert_close(gradient, expected)


@pytest.mark.slow
def test_compiles_with_the_same_values_and_gradients(generator):
    scores = torch.randn(2, 5, 5, generator=generator, dtype=torch.float64).requires_grad_()
    mask = torch.tensor([[True, True, False, True, True], [True] * 5])
    compiled = torch.compile(sinkhorn, backend="aot_eager", fullgraph=True)
    weights = torch.randn(2, 5, 5, generator=generator, dtype=torch.float64)
    results = []
    for function in (sinkhorn, compiled):
        soft = function(scores, mask=mask)
        results.append((soft, *torch.autograd.grad((soft * weights).sum(), scores)))
    torch.testing.assert_close(results[0], results[1])


@pytest.mark.parametrize(
    ("scores", "options", "message"),
    [
        (torch.zeros(3, 3), {}, r"scores must have shape \(B, N, N\), got \(3, 3\)"),
        (torch.zeros(1, 3, 4), {}, r"scores must have shape \(B, N, N\), got \(1, 3, 4\)"),
        (torch.zeros(1, 3, 3).long(), {}, "scores must be floating point"),
        (torch.zeros(1, 3, 3), {"steps": 0}, "steps must be at least 1, got 0"),
        (torch.zeros(1, 3, 3), {"temperature": 0.0}, "temperature must be positive, got 0"),
        (torch.zeros(1, 3, 3), {"temperature": torch.nan}, "temperature must be positive, got nan"),
        (torch.zeros(1, 3, 3), {"mask": torch.ones(1, 3)}, "mask must be bool"),
        (torch.zeros(1, 3, 3), {"mask": torch.ones(1, 2).bool()}, r"mask must have shape \(1, 3\)"),
    ],
)
def test_rejects_bad_input(scores, options, message):
    with pytest.raises(ValueError, match=message):
        sinkhorn(scores, **options)
