import math
import multiprocessing
import os

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from torchsets import matching
from torchsets.matching import assign, assign_flat

BACKENDS = [
    pytest.param(
        True,
        id="lapx",
        marks=pytest.mark.skipif(not matching._USE_LAPX, reason="lapx is not installed"),
    ),
    pytest.param(False, id="scipy"),
]
KINDS = ["uniform", "tied", "distances", "rank one", "constant", "negative", "huge", "offset"]


@pytest.fixture(params=BACKENDS)
def backend(request, monkeypatch):
    monkeypatch.setattr(matching, "_USE_LAPX", request.param)


def draw_costs(kind, shape, rng):
    sets, n, m = shape
    uniform = rng.random(shape)
    points, others = rng.random((sets, n, 1, 2)), rng.random((sets, 1, m, 2))
    return {
        "uniform": lambda: uniform,
        "tied": lambda: rng.integers(0, 3, shape).astype(float),
        "distances": lambda: ((points - others) ** 2).sum(-1),
        "rank one": lambda: points[..., 0] * others[..., 0],
        "constant": lambda: np.full(shape, 2.5),
        "negative": lambda: -1e3 * uniform,
        "huge": lambda: (uniform - 0.5) * 1e12,
        "offset": lambda: 1e6 + uniform,
    }[kind]()


def optimal_totals(cost, row_mask, column_mask):
    totals = []
    for matrix, rows, columns in zip(cost, row_mask, column_mask, strict=True):
        real = matrix[rows][:, columns].numpy()
        totals.append(real[linear_sum_assignment(real)].sum())
    return torch.tensor(totals, dtype=torch.float64)


def checked_totals(cost, result, row_mask, column_mask):
    """The total cost of a result, after checking that it is a matching of real elements."""
    totals = []
    for matrix, columns, rows, allowed in zip(cost, result, row_mask, column_mask, strict=True):
        matched = columns >= 0
        assert matched.sum() == min(rows.sum(), allowed.sum())
        assert rows[matched].all()
        assert allowed[columns[matched]].all()
        assert len(columns[matched].unique()) == matched.sum()
        totals.append(matrix[matched, columns[matched]].sum())
    return torch.stack(totals)


def assert_optimal(cost, result, row_mask, column_mask):
    expected = optimal_totals(cost, row_mask, column_mask)
    actual = checked_totals(cost, result, row_mask, column_mask)
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)


def draw_mask(kind, shape, rng):
    if kind == "holes":
        return torch.from_numpy(rng.random(shape) < 0.7)
    sizes = torch.from_numpy(rng.integers(0, shape[-1] + 1, shape[:-1]))
    sizes = sizes if kind == "prefix" else torch.full_like(sizes, shape[-1])
    return torch.arange(shape[-1]) < sizes.unsqueeze(-1)


MASKS = st.sampled_from(["none", "prefix", "holes"])


@settings(max_examples=800, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    leading=st.lists(st.integers(1, 3), max_size=2),
    shape=st.tuples(st.integers(1, 8), st.integers(1, 9), st.integers(1, 9)),
    masks=st.tuples(MASKS, MASKS),
    own_masks=st.booleans(),
    least=st.sampled_from([0, 12, 300]),
    seed=st.integers(0, 2**32 - 1),
)
def test_both_solvers_are_optimal_for_random_tied_and_structured_costs(
    kind, leading, shape, masks, own_masks, least, seed
):
    rng = np.random.default_rng(seed)
    sets, n, m = shape
    steps = math.prod(leading)
    cost = torch.from_numpy(draw_costs(kind, (steps * sets, n, m), rng))
    own = (steps if own_masks else 1) * sets
    rows, columns = (draw_mask(k, (own, size), rng) for k, size in zip(masks, (n, m), strict=True))
    given_masks = [
        None if kind == "none" else mask.view(*leading, sets, -1) if own_masks else mask
        for kind, mask in zip(masks, (rows, columns), strict=True)
    ]
    rows, columns = (mask.repeat(steps * sets // own, 1) for mask in (rows, columns))
    padding = ~(rows.unsqueeze(2) & columns.unsqueeze(1))
    filled = cost.masked_fill(padding, rng.choice([0.0, np.nan, np.inf, -1e300]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "_LAPX_ENTRIES", least)
        for use_lapx in {matching._USE_LAPX, False}:
            patch.setattr(matching, "_USE_LAPX", use_lapx)
            result = assign(filled.view(*leading, *shape), *given_masks)
            assert result.shape == (*leading, sets, n)
            assert_optimal(cost, result.view(-1, n), rows, columns)


def test_all_layers_of_a_decoder_in_one_call_equal_one_call_each(backend, generator):
    cost = torch.rand(6, 4, 30, 12, generator=generator)
    mask = torch.arange(12) < torch.tensor([12, 1, 0, 7]).unsqueeze(1)
    result = assign(cost, None, mask)
    assert torch.equal(result, torch.stack([assign(layer, None, mask) for layer in cost]))
    assert (result >= 0).sum() == 6 * 20
    both = assign(cost.mT, mask.expand(6, 4, 12), torch.ones(4, 30).bool())
    assert (both >= 0).sum() == 6 * 20


@pytest.mark.parametrize("sizes", [(900, 150), (300, 40), (100, 3), (17, 18)])
def test_ragged_problems_of_usual_sizes_are_optimal(sizes, backend, generator):
    n, m = sizes
    cost = torch.rand(3, n, m, generator=generator, dtype=torch.float64)
    columns = torch.arange(m) < torch.tensor([m, m // 2, 1]).unsqueeze(1)
    assert_optimal(cost, assign(cost, None, columns), torch.ones(3, n).bool(), columns)
    assert_optimal(cost.mT, assign(cost.mT, columns), columns, torch.ones(3, n).bool())


def test_large_ragged_problems_are_optimal_in_several_threads(backend, monkeypatch, generator):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    cost = torch.rand(4, 110, 130, generator=generator, dtype=torch.float64)
    columns = torch.arange(130) < torch.tensor([130, 120, 0, 5]).unsqueeze(1)
    assert_optimal(cost, assign(cost, None, columns), torch.ones(4, 110).bool(), columns)


@pytest.mark.parametrize("kind", KINDS)
def test_large_problems_are_optimal_in_several_threads(kind, backend):
    rng = np.random.default_rng(0)
    cost = torch.from_numpy(draw_costs(kind, (4, 110, 130), rng))
    everything = torch.ones(4, 110).bool(), torch.ones(4, 130).bool()
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert_optimal(cost, assign(cost), *everything)
        assert_optimal(cost.mT, assign(cost.mT), *everything[::-1])
    finally:
        torch.set_num_threads(before)


def test_finds_a_planted_permutation(backend, generator):
    planted = torch.stack([torch.randperm(12, generator=generator) for _ in range(5)])
    cost = torch.rand(5, 12, 12, generator=generator) + 1
    cost.scatter_(2, planted.unsqueeze(2), 0.0)
    assert torch.equal(assign(cost), planted)


def test_more_rows_than_columns_leave_rows_unmatched(backend):
    cost = torch.tensor([[[1.0], [0.0], [2.0]]])
    assert assign(cost).tolist() == [[-1, 0, -1]]


@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 0, 3), (2, 3, 0), (0, 0, 0), (0, 2, 3, 4)])
def test_empty_axes_give_no_match(shape, backend):
    rows, columns = torch.ones(shape[-3:-1]).bool(), torch.ones(shape[-3], shape[-1]).bool()
    for result in (assign(torch.zeros(shape)), assign(torch.zeros(shape), rows, columns)):
        assert result.shape == shape[:-1]
        assert (result == -1).all()
    nothing = assign(torch.zeros(2, 3, 4), torch.zeros(2, 3).bool())
    assert (nothing == -1).all()


def test_empty_sets_beside_others_give_no_match(backend):
    rows = torch.tensor([[False, False], [True, True], [True, False]])
    columns = torch.tensor([[True, True], [False, False], [False, True]])
    cost = torch.full((3, 2, 2), float("nan"))
    cost[2, 0, 1] = 3.0
    assert assign(cost, rows, columns).tolist() == [[-1, -1], [-1, -1], [1, -1]]
    cost[2, 0, 1] = float("inf")
    result = assign(cost, rows, columns, invalid="worst")
    assert result.tolist() == [[-1, -1], [-1, -1], [1, -1]]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_an_invalid_cost_is_an_error_that_names_sets_and_entries(bad, backend):
    cost = torch.rand(4, 3, 3)
    cost[1, 0, 0] = bad
    cost[3, 1:, 1] = bad
    with pytest.raises(ValueError, match=r"1 in set 1, 2 in set 3; invalid="):
        assign(cost)


def test_the_error_names_the_step_of_a_set(backend):
    cost = torch.rand(2, 3, 4, 4)
    cost[1, 2, 0, :2] = float("inf")
    with pytest.raises(ValueError, match=r"2 in set \(1, 2\); invalid="):
        assign(cost)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda cost: torch.vmap(assign)(cost), id="vmap"),
        pytest.param(lambda cost: assign(cost[0].to("meta")), id="meta"),
    ],
)
def test_costs_without_values_are_an_error_that_names_the_cure(call):
    with pytest.raises(RuntimeError, match=r"instead of vmap, put the extra axes first"):
        call(torch.rand(2, 3, 4, 4))


def test_the_error_counts_sets_of_different_sizes_and_stays_short(backend):
    cost = torch.full((9, 2, 3), float("nan"))
    mask = torch.ones(9, 2).bool()
    mask[4, 1] = False
    with pytest.raises(ValueError, match=r"6 in set 3, 3 in set 4 and more in 4 other sets"):
        assign(cost, mask)


@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e300])
def test_invalid_worst_matches_as_few_invalid_entries_as_possible(scale, backend):
    nan, inf = float("nan"), float("inf")
    cost = scale * torch.tensor(
        [[[1.0, nan], [0.0, 5.0]], [[nan, inf], [-inf, 0.0]], [[nan, nan], [nan, nan]]],
        dtype=torch.float64,
    )
    result = assign(cost, invalid="worst")
    assert result[:2].tolist() == [[0, 1], [0, 1]]
    assert sorted(result[2].tolist()) == [0, 1]


@pytest.mark.parametrize("scale", [1.0, 1e-310, 1e300])
def test_invalid_worst_gives_up_any_valid_cost_to_avoid_an_invalid_one(scale, backend):
    # The diagonal costs -1 each and one invalid entry; the only valid matching costs 1 each.
    cost = torch.full((1, 6, 6), float("nan"), dtype=torch.float64)
    cost.diagonal(dim1=1, dim2=2).fill_(-scale)
    cost[0, 0, 0] = float("nan")
    rows = torch.arange(6)
    cost[0, rows, (rows + 1) % 6] = scale
    assert assign(cost, invalid="worst").tolist() == [[1, 2, 3, 4, 5, 0]]


def test_invalid_worst_takes_the_smallest_numbers_there_are(backend):
    cost = torch.tensor([[[float("nan"), 1e-310], [1e-310, 5e-310]]], dtype=torch.float64)
    assert assign(cost, invalid="worst").tolist() == [[1, 0]]
    assert assign(torch.full((1, 1, 1), float("nan")), invalid="worst").tolist() == [[0]]


@pytest.mark.parametrize(
    ("dtype", "huge"),
    [
        (torch.float32, 3e38),
        (torch.float32, 1e30),
        (torch.float64, 1.7e308),
        (torch.float64, 1e200),
    ],
)
def test_huge_finite_costs_are_solved_like_any_others(dtype, huge, backend):
    cost = torch.full((2, 5, 5), huge, dtype=dtype)
    cost[0].diagonal().fill_(huge / 2)
    cost[1] = -huge
    cost[1, range(5), range(4, -1, -1)] = huge  # the worst matching
    result = assign(cost)
    assert result[0].tolist() == [0, 1, 2, 3, 4]
    assert not (result[1] == torch.arange(4, -1, -1)).any()
    padded = torch.nn.functional.pad(cost, (0, 1), value=float("nan"))
    mask = torch.tensor([[True] * 5 + [False]]).repeat(2, 1)
    assert torch.equal(assign(padded, None, mask), result)


def test_costs_are_not_changed(backend):
    cost = torch.rand(3, 20, 20, dtype=torch.float64)
    cost[0, 0] = float("nan")
    before = cost.clone()
    assign(cost, invalid="worst")
    assert torch.equal(cost.nan_to_num(7), before.nan_to_num(7))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_low_precision_costs_are_solved_as_they_are(dtype, backend, generator):
    cost = torch.rand(3, 7, 5, generator=generator).to(dtype)
    result = assign(cost)
    assert result.dtype == torch.long
    assert_optimal(cost.double(), result, torch.ones(3, 7).bool(), torch.ones(3, 5).bool())


def test_costs_with_a_gradient_are_accepted():
    assert assign(torch.eye(2)[None].requires_grad_()).tolist() == [[1, 0]]


def solve_in_child(queue, cost):
    queue.put(assign(cost).tolist())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_does_not_wait_for_threads_it_did_not_inherit(backend, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    cost = torch.rand(8, 120, 120)
    expected = assign(cost).tolist()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=solve_in_child, args=(queue, cost), daemon=True)
    child.start()
    assert queue.get(timeout=60) == expected
    child.join()


@pytest.mark.parametrize(
    ("cost", "masks", "options", "message"),
    [
        (torch.zeros(2, 2), (), {}, r"cost must have shape \(B, N, M\)"),
        (torch.zeros(1, 2, 2).long(), (), {}, "cost must be floating point"),
        (
            torch.zeros(1, 2, 3),
            (torch.ones(1, 3).bool(),),
            {},
            r"row_mask must have shape \(1, 2\)",
        ),
        (
            torch.zeros(1, 2, 3),
            (None, torch.ones(1, 2).bool()),
            {},
            r"column_mask must have shape \(1, 3\)",
        ),
        (torch.zeros(1, 2, 2), (torch.ones(1, 2),), {}, "row_mask must be bool"),
        (
            torch.zeros(5, 1, 2, 3),
            (torch.ones(4, 1, 2).bool(),),
            {},
            r"row_mask must have shape \(5, 1, 2\)",
        ),
        (
            torch.zeros(5, 1, 2, 3),
            (None, torch.ones(5, 3).bool()),
            {},
            r"column_mask must have shape \(1, 3\)",
        ),
        (torch.zeros(1, 2, 2), (), {"invalid": "ignore"}, 'invalid must be "raise" or "worst"'),
    ],
)
def test_rejects_bad_input(cost, masks, options, message):
    with pytest.raises(ValueError, match=message):
        assign(cost, *masks, **options)


@pytest.mark.parametrize("steps", [(), (2,)])
def test_flat_rows_are_matched_set_by_set(steps, generator):
    sizes = [3, 0, 7, 1]
    cost = torch.rand(*steps, sum(sizes), 5, generator=generator)
    got = assign_flat(cost, sizes)
    expected = torch.cat(
        [assign(one.unsqueeze(-3)).squeeze(-2) for one in cost.split(sizes, dim=-2)], dim=-1
    )
    assert torch.equal(got, expected)
    assert (got == -1).sum() == 2 * max(1, sum(steps))  # 7 rows, 5 columns


def test_flat_rows_may_be_none_or_invalid():
    assert assign_flat(torch.zeros(0, 4), []).tolist() == []
    assert assign_flat(torch.zeros(0, 4), [0, 0]).tolist() == []
    cost = torch.tensor([[1.0, 2.0], [float("nan"), 3.0], [0.0, float("inf")]])
    assert assign_flat(cost, [2, 1], invalid="worst").tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match="1 in set 0, 1 in set 1"):
        assign_flat(cost, [2, 1])
    with pytest.raises(ValueError, match=r"as many rows as sizes adds up to, got \(3, 2\)"):
        assign_flat(cost, [2, 2])
    with pytest.raises(ValueError, match='invalid must be "raise" or "worst"'):
        assign_flat(cost, [2, 1], invalid="best")
