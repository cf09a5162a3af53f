import pytest
import torch
from torch.nn.functional import pad

from torchsets.permutations import (
    LinearAssignment,
    PairwiseCost,
    PermutationOptimiser,
    descent,
    hard_permutation,
    optimise_permutation,
    ordering_cost,
    sinkhorn,
)
from torchsets.testing import (
    assert_empty_batches_connected,
    assert_handles_small_sets,
    assert_ignores_padding,
    assert_no_gradient_to_padding,
    assert_permutation_equivariant,
    assert_permutation_invariant,
    assert_sets_independent,
    assert_twice_differentiable,
    random_sets,
)

SIZES = [3, 1, 5, 0]
WIDTH = 12  # more positions than any padding of the laws makes, so that results compare


def load(arrays, *, outputs=1, initial=None, grid=None):
    """The author's model with its weights."""
    prefix = "param.compare.skew."
    first = arrays[f"{prefix}0.conv.weight"].squeeze(-1)
    cost = PairwiseCost(first.shape[1] // 2, len(first), outputs=outputs).double()
    state = {"0.weight": first, "0.bias": arrays[f"{prefix}0.conv.bias"]}
    state["2.weight"] = arrays[f"{prefix}2.conv.weight"].squeeze(-1)
    state["2.bias"] = arrays.get(f"{prefix}2.conv.bias", torch.zeros(outputs)).double()
    cost.compare.load_state_dict(state)
    model = PermutationOptimiser(cost, steps=int(arrays["T"]), initial=initial, grid=grid).double()
    model.step_size.data.copy_(arrays["param.lr"].squeeze())
    return model


def optimise_by_definition(costs, steps, step_size, initial=None, grid=None):
    """The algorithm with autograd for its gradient."""
    costs = costs / costs.square().sum(dim=(-2, -1), keepdim=True).sqrt()
    start = torch.zeros_like(costs if grid is None else costs[:, 0]).requires_grad_()
    scores = start if initial is None else initial
    for _ in range(steps):
        soft = sinkhorn(scores)
        total = ordering_cost(soft, costs, grid=grid).sum()
        (gradient,) = torch.autograd.grad(total, soft, create_graph=True)
        scores = scores - abs(step_size) * gradient
    return sinkhorn(scores)


def antisymmetric(*shape, generator):
    costs = torch.randn(*shape, generator=generator, dtype=torch.float64)
    return costs - costs.mT


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("po_u_sort_n5_T4", {}),
        ("po_la_n5_T4", {"initial": LinearAssignment(3, 5)}),
        ("po_grid2_u_T4", {"outputs": 2, "grid": (2, 2)}),
    ],
)
def test_agrees_with_the_authors_numbers(name, options, golden):
    arrays = golden(name)
    if "initial" in options:
        options["initial"].weight.data = arrays["param.coord.f.0.conv.weight"].squeeze(-1)
    model = load(arrays, **options)
    elements = arrays["x"].mT.clone().requires_grad_()
    ordered = model(elements)
    close(model.cost(elements), arrays["C_raw"])
    close(ordered.permutation, arrays["P_final"])
    close(ordered.elements, arrays["out"].mT)
    (ordered.elements * arrays["cot"].mT).sum().backward()
    close(elements.grad, arrays["grad_x"].mT)
    close(model.step_size.grad, arrays["grad.lr"].squeeze())
    for layer in (0, 2):
        expected = arrays[f"grad.compare.skew.{layer}.conv.weight"].squeeze(-1)
        close(model.cost.compare[layer].weight.grad, expected)
    close(model.cost.compare[0].bias.grad, arrays["grad.compare.skew.0.conv.bias"])
    if "initial" in options:
        expected = arrays["grad.coord.f.0.conv.weight"].squeeze(-1)
        close(options["initial"].weight.grad, expected)


@pytest.mark.parametrize("with_initial", [False, True], ids=["PO-U", "PO-LA"])
@pytest.mark.parametrize("group", [1, 60, 1 << 18], ids=lambda group: f"group-{group}")
@pytest.mark.parametrize("steps", [0, 1, 4])
def test_values_and_gradients_match_the_definition(
    with_initial, group, steps, generator, monkeypatch
):
    monkeypatch.setattr(descent, "_GROUP", group)  # one, two or all sets at a time
    raw = torch.randn(3, 5, 5, generator=generator, dtype=torch.float64).requires_grad_()
    costs = raw - raw.mT  # of a gradient at the costs only the antisymmetric part has a meaning
    step_size = torch.tensor(-1.3, dtype=torch.float64, requires_grad=True)
    initial = torch.randn(3, 5, 5, generator=generator, dtype=torch.float64).requires_grad_()
    weights = torch.randn(3, 5, 5, generator=generator, dtype=torch.float64)
    start = initial if with_initial else None
    inputs = [raw, step_size, *([initial] if with_initial else [])]
    results = []
    for soft in (
        optimise_permutation(costs, steps=steps, step_size=step_size, initial=start),
        optimise_by_definition(costs, steps, step_size, start),
    ):
        total = (soft * weights).sum() + 0 * costs.sum() + 0 * step_size
        results.append((soft, *torch.autograd.grad(total, inputs, retain_graph=True)))
    torch.testing.assert_close(results[0], results[1])


@pytest.mark.parametrize("grid", [(2, 3), (1, 6), (6, 1)])
def test_grids_of_any_shape_match_the_definition(grid, generator):
    raw = torch.randn(2, 2, 6, 6, generator=generator, dtype=torch.float64).requires_grad_()
    costs = raw - raw.mT
    soft = optimise_permutation(costs, steps=3, step_size=1.5, grid=grid)
    expected = optimise_by_definition(costs, 3, 1.5, grid=grid)
    torch.testing.assert_close(soft, expected)
    weights = torch.randn(soft.shape, generator=generator, dtype=torch.float64)
    gradients = [
        torch.autograd.grad((x * weights).sum(), raw, retain_graph=True) for x in (soft, expected)
    ]
    torch.testing.assert_close(gradients[0], gradients[1])


def test_a_grid_of_one_row_is_a_sequence(generator):
    costs = antisymmetric(2, 2, 4, 4, generator=generator)
    on_grid = optimise_permutation(costs, steps=3, step_size=1.0, grid=(1, 4))
    torch.testing.assert_close(on_grid, optimise_permutation(costs[:, 1], steps=3, step_size=1.0))


def test_a_grid_puts_elements_where_they_belong():
    row = torch.tensor([1.0, 0.0, 1.0, 0.0, 0.0, 1.0])
    column = torch.tensor([2.0, 0.0, 0.0, 2.0, 1.0, 1.0])
    costs = torch.stack([x.unsqueeze(1) - x for x in (row, column)]).unsqueeze(0)
    soft = optimise_permutation(costs, steps=10, step_size=10.0, grid=(2, 3))
    positions = hard_permutation(soft)[0].argmax(dim=1)
    assert positions.tolist() == (row * 3 + column).int().tolist()


def test_true_gradient_matches_autograd(generator):
    raw = torch.randn(2, 4, 4, generator=generator, dtype=torch.float64).requires_grad_()
    costs = raw - raw.mT
    soft = optimise_permutation(costs, steps=3, step_size=1.2, through_sinkhorn=True)
    unit = costs / costs.square().sum(dim=(1, 2), keepdim=True).sqrt()
    scores = torch.zeros_like(costs).requires_grad_()
    for _ in range(3):
        total = ordering_cost(sinkhorn(scores), unit).sum()
        scores = scores - 1.2 * torch.autograd.grad(total, scores, create_graph=True)[0]
    expected = sinkhorn(scores)
    torch.testing.assert_close(soft, expected)
    gradients = [
        torch.autograd.grad(x.square().sum(), raw, retain_graph=True) for x in (soft, expected)
    ]
    torch.testing.assert_close(gradients[0], gradients[1])


def test_the_usual_update_gives_a_harder_permutation_than_the_true_gradient(generator):
    value = torch.rand(20, 8, generator=generator)
    costs = value.unsqueeze(2) - value.unsqueeze(1)
    entropies = [
        torch.special.entr(
            optimise_permutation(costs, steps=6, step_size=2.0, through_sinkhorn=through)
        ).sum()
        for through in (False, True)
    ]
    assert entropies[0] < 0.8 * entropies[1]


def test_steps_lower_the_cost(generator):
    costs = antisymmetric(5, 6, 6, generator=generator)
    totals = torch.stack(
        [
            ordering_cost(optimise_permutation(costs, steps=steps, step_size=1.0), costs)
            for steps in range(6)
        ]
    )
    assert (totals.diff(dim=0) < 0).all()


def test_sorts_numbers_by_their_difference(generator):
    value = torch.rand(4, 30, generator=generator, dtype=torch.float64)
    soft = optimise_permutation(value.unsqueeze(2) - value.unsqueeze(1), steps=6, step_size=1.0)
    ordered = (hard_permutation(soft).mT @ value.unsqueeze(2)).squeeze(2)
    torch.testing.assert_close(ordered, value.sort(dim=1).values)


def test_identical_elements_share_their_positions(generator):
    value = torch.tensor([[0.2, 0.7, 0.7, 0.9]])
    costs = value.unsqueeze(2) - value.unsqueeze(1)
    soft = optimise_permutation(costs, steps=8, step_size=5.0)
    torch.testing.assert_close(soft[0, 1], soft[0, 2])


@pytest.mark.parametrize("steps", [1, 5])
def test_huge_steps_stay_finite_and_right(steps, generator):
    costs = antisymmetric(3, 5, 5, generator=generator)
    expected = optimise_permutation(costs, steps=steps, step_size=300.0)
    single = costs.float().requires_grad_()
    soft = optimise_permutation(single, steps=steps, step_size=300.0)
    # scores of size 1e3 in float32 resolve to 1e-4
    torch.testing.assert_close(soft.double(), expected, rtol=0, atol=2e-3)
    (soft * torch.rand(soft.shape, generator=generator)).sum().backward()
    assert torch.isfinite(single.grad).all()


def test_a_position_that_nobody_wants_is_safe_in_float32(generator):
    costs = antisymmetric(2, 4, 4, generator=generator)
    initial = torch.zeros(2, 4, 4, dtype=torch.float64)
    initial[:, :, 0] = -300.0  # its exponential is 0 in float32
    weights = torch.rand(2, 4, 4, generator=generator, dtype=torch.float64)
    results = []
    for dtype in (torch.float64, torch.float32):
        leaf = costs.to(dtype).requires_grad_()
        soft = optimise_permutation(leaf, steps=3, step_size=1.0, initial=initial.to(dtype))
        (gradient,) = torch.autograd.grad((soft * weights.to(dtype)).sum(), leaf)
        results.append((soft.double(), gradient.double()))
    torch.testing.assert_close(results[1], results[0], rtol=1e-3, atol=1e-4)  # 300 in float32


def test_gradients_where_the_fast_way_is_not_trusted(generator):
    costs = antisymmetric(2, 4, 4, generator=generator)
    costs[:, 0] = 0
    costs[:, :, 0] = 0
    initial = torch.zeros(2, 4, 4, dtype=torch.float64)
    initial[:, :, 0] = -200.0  # nobody wants the first position: a share of 1e-44
    initial[:, 2, 0] = -100.0
    inputs = (costs.requires_grad_(), initial.requires_grad_())

    def function(x, y):
        return optimise_permutation(x, steps=2, step_size=1.0, initial=y)

    assert torch.autograd.gradcheck(function, inputs, atol=1e-6)


def test_second_gradient_of_costs_that_lie_transposed(generator):
    costs = torch.randn(2, 4, 4, generator=generator, dtype=torch.float64).requires_grad_()

    def second(order):
        soft = optimise_permutation(order(costs), steps=3, step_size=torch.tensor(0.7).double())
        (first,) = torch.autograd.grad(soft.square().sum(), costs, create_graph=True)
        return torch.autograd.grad(first.square().sum(), costs)[0]

    lying = second(lambda costs: costs.mT)
    copied = second(lambda costs: costs.mT.contiguous())
    torch.testing.assert_close(lying, copied)


@pytest.mark.parametrize("mask", [None, [[True, False, True, True], [True] * 4]])
def test_first_and_second_gradient(mask, generator):
    costs = antisymmetric(2, 4, 4, generator=generator).requires_grad_()
    step_size = torch.tensor(0.9, dtype=torch.float64, requires_grad=True)
    mask = None if mask is None else torch.tensor(mask)

    def function(x, y):
        return optimise_permutation(x, steps=2, step_size=y, mask=mask)

    assert torch.autograd.gradcheck(function, (costs, step_size))
    assert torch.autograd.gradgradcheck(function, (costs, step_size))


@pytest.mark.parametrize("through_sinkhorn", [False, True])
def test_a_masked_set_equals_the_bare_one(through_sinkhorn, generator):
    bare = antisymmetric(1, 3, 3, generator=generator)
    rows = torch.tensor([1, 2, 4])
    costs = torch.full((2, 5, 5), float("nan"), dtype=torch.float64)
    costs[0, rows.unsqueeze(1), rows] = bare[0]
    costs[1] = antisymmetric(5, 5, generator=generator)
    mask = torch.tensor([[False, True, True, False, True], [True] * 5])
    options = {"steps": 4, "step_size": 1.7, "through_sinkhorn": through_sinkhorn}
    soft = optimise_permutation(costs, mask=mask, **options)
    close = {"rtol": 0, "atol": 1e-12}  # a start that is rounded to float32 shows
    torch.testing.assert_close(soft[0, rows, :3], optimise_permutation(bare, **options)[0], **close)
    torch.testing.assert_close(soft[1:], optimise_permutation(costs[1:], **options), **close)
    assert soft[0].count_nonzero() == 9


def make(initial=False):
    torch.manual_seed(0)
    start = LinearAssignment(2, 5) if initial else None
    model = PermutationOptimiser(PairwiseCost(2, 8), steps=3, initial=start).double()
    model.step_size.data.fill_(2.0)
    return model


@pytest.mark.parametrize("initial", [False, True], ids=["PO-U", "PO-LA"])
def test_the_ordered_elements_obey_the_invariant_laws(initial, generator):
    model = make(initial)

    def ordered(elements, mask):
        result = model(elements, mask)
        extra = WIDTH - elements.shape[1]
        return pad(result.elements, (0, 0, 0, extra)), pad(result.mask, (0, extra))

    elements, mask = random_sets(SIZES, 2, generator)
    assert_permutation_invariant(ordered, elements, mask)
    assert_ignores_padding(ordered, elements, mask)
    assert_no_gradient_to_padding(ordered, elements, mask)
    assert_sets_independent(ordered, elements, mask)
    assert_handles_small_sets(ordered, 2)
    assert_empty_batches_connected(ordered, 2)
    assert_twice_differentiable(ordered, elements, mask)


def test_the_permutation_obeys_the_equivariant_laws(generator):
    model = make()

    def permutation(elements, mask):
        return pad(model(elements, mask).permutation, (0, WIDTH - elements.shape[1]))

    elements, mask = random_sets(SIZES, 2, generator)
    assert_permutation_equivariant(permutation, elements, mask)
    assert_ignores_padding(permutation, elements, mask, equivariant=True)
    assert_no_gradient_to_padding(permutation, elements, mask)
    assert_sets_independent(permutation, elements, mask)
    assert_empty_batches_connected(permutation, 2)
    assert_twice_differentiable(permutation, elements, mask)


def test_real_elements_come_first(generator):
    model = make()
    elements, mask = random_sets(SIZES, 2, generator)
    order = torch.rand(mask.shape, generator=generator).argsort(dim=1)
    result = model(elements.take_along_dim(order.unsqueeze(-1), 1), mask.take_along_dim(order, 1))
    assert result.mask.tolist() == mask.tolist()
    assert (result.elements[~mask] == 0).all()
    assert (result.permutation.mT[~mask] == 0).all()


def test_elements_that_are_all_equal_get_finite_gradients():
    model = make()
    elements = torch.ones(1, 4, 2, dtype=torch.float64, requires_grad=True)
    result = model(elements)
    torch.testing.assert_close(result.permutation, torch.full((1, 4, 4), 0.25).double())
    result.elements.square().sum().backward()
    gradients = [elements.grad, *(parameter.grad for parameter in model.parameters())]
    assert all(torch.isfinite(gradient).all() for gradient in gradients)
    assert elements.grad.abs().max() < 100


def test_parameters_get_finite_gradients_under_nan_padding(generator):
    model = make(initial=True)
    elements, mask = random_sets(SIZES, 2, generator)
    model(elements, mask).elements.square().sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


def test_works_in_inference_mode_and_half_precision(generator):
    model = PermutationOptimiser(PairwiseCost(2, 8))
    elements = torch.rand(2, 6, 2, generator=generator)
    expected = model(elements).elements
    with torch.inference_mode():
        torch.testing.assert_close(model(elements).elements, expected.detach())
        with torch.autocast("cpu", dtype=torch.bfloat16):
            # the first layer of f and P^T X run in bfloat16, with 8 bits
            half = model(elements).elements.float()
            torch.testing.assert_close(half, expected.detach(), rtol=0, atol=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("masked", [False, True])
def test_compiles_with_the_same_values_and_gradients(masked, generator):
    model = make()
    elements, mask = random_sets([4, 3], 2, generator)
    if not masked:
        elements, mask = elements[:1], None
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    results = []
    for function in (model, compiled):
        ordered = function(elements, mask).elements
        gradients = torch.autograd.grad(ordered.square().sum(), list(model.parameters()))
        results.append((ordered, *gradients))
    torch.testing.assert_close(results[0], results[1])


def test_works_inside_functional_transforms(generator):
    model = make()
    elements = torch.randn(3, 4, 2, generator=generator, dtype=torch.float64).requires_grad_()

    def total(one):
        return model(one.unsqueeze(0)).elements.square().sum()

    per_set = torch.func.vmap(torch.func.grad(total))(elements.detach())
    expected = torch.autograd.grad(model(elements).elements.square().sum(), elements)
    torch.testing.assert_close((per_set,), expected)


COSTS = torch.zeros(2, 4, 4)


@pytest.mark.parametrize(
    ("costs", "options", "message"),
    [
        (torch.zeros(4, 4), {}, r"costs must have shape \(B, N, N\)"),
        (COSTS, {"steps": -1}, "steps must be at least 0, got -1"),
        (COSTS, {"step_size": float("nan")}, "step_size must be finite, got nan"),
        (
            COSTS,
            {"step_size": torch.ones(2, 1, 1)},
            r"step_size must be one number, got \(2, 1, 1\)",
        ),
        (COSTS, {"initial": torch.zeros(2, 3, 3)}, r"initial must have shape \(2, 4, 4\)"),
        (COSTS, {"initial": torch.zeros(4, 4)}, r"initial must have shape \(B, N, N\)"),
        (COSTS, {"mask": torch.ones(2, 4)}, "mask must be bool"),
        (COSTS, {"mask": torch.ones(2, 3).bool()}, r"mask must have shape \(2, 4\)"),
        (COSTS, {"grid": (2, 2)}, r"costs must have shape \(B, 2, N, N\)"),
        (
            torch.zeros(2, 2, 4, 4),
            {"grid": (2, 2), "mask": torch.ones(2, 4).bool()},
            "mask is not supported with grid",
        ),
    ],
)
def test_rejects_bad_input(costs, options, message):
    with pytest.raises(ValueError, match=message):
        optimise_permutation(costs, **{"steps": 2, "step_size": 1.0, **options})


def test_the_module_rejects_bad_input():
    with pytest.raises(ValueError, match="steps must be at least 0, got -1"):
        PermutationOptimiser(PairwiseCost(2, 4), steps=-1)
    with pytest.raises(ValueError, match=r"grid must not be negative, got \(-2, -2\)"):
        PermutationOptimiser(PairwiseCost(2, 4, outputs=2), grid=(-2, -2))
    model = PermutationOptimiser(PairwiseCost(2, 4, outputs=2), grid=(2, 2))
    with pytest.raises(ValueError, match="mask is not supported with grid"):
        model(torch.zeros(1, 4, 2), torch.ones(1, 4).bool())
