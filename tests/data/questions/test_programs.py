import pytest

from torchsets.data.questions.programs import (
    ANSWERS,
    FUNCTIONS,
    Step,
    parse_program,
    program_records,
    question_type,
    run_program,
)

# From left to right: a large red metal cube, a small red rubber ball, a large blue rubber ball.
SCENE = {
    "objects": [
        {"color": "red", "size": "large", "material": "metal", "shape": "cube"},
        {"color": "red", "size": "small", "material": "rubber", "shape": "sphere"},
        {"color": "blue", "size": "large", "material": "rubber", "shape": "sphere"},
    ],
    "relationships": {
        "left": [[], [0], [0, 1]],
        "right": [[1, 2], [2], []],
        "front": [[], [], []],
        "behind": [[], [], []],
    },
}
RED = [Step("scene"), Step("filter_color", (0,), "red")]
BALL = [Step("scene"), Step("filter_shape", (0,), "sphere")]
BLUE = [Step("scene"), Step("filter_color", (0,), "blue"), Step("unique", (1,))]
SMALL = [Step("scene"), Step("filter_size", (0,), "small"), Step("unique", (1,))]


def moved(steps, by):
    """Steps that stand further behind in a program."""
    return [step._replace(inputs=tuple(one + by for one in step.inputs)) for step in steps]


@pytest.mark.parametrize(
    ("program", "answer"),
    [
        ([*RED, Step("count", (1,))], "2"),
        ([*RED, Step("filter_material", (1,), "rubber"), Step("count", (2,))], "1"),
        ([*RED, Step("filter_size", (1,), "small"), Step("exist", (2,))], "yes"),
        ([*RED, Step("filter_shape", (1,), "cylinder"), Step("exist", (2,))], "no"),
        ([*BLUE, Step("relate", (2,), "left"), Step("count", (3,))], "2"),
        ([*BLUE, Step("relate", (2,), "right"), Step("count", (3,))], "0"),
        ([*SMALL, Step("relate", (2,), "right"), Step("unique", (3,)), Step("query_color", (4,))],
         "blue"),
        ([*SMALL, Step("query_material", (2,))], "rubber"),
        ([*SMALL, Step("same_color", (2,)), Step("unique", (3,)), Step("query_shape", (4,))],
         "cube"),
        ([*BLUE, Step("same_material", (2,)), Step("count", (3,))], "1"),
        ([*BLUE, Step("same_color", (2,)), Step("exist", (3,))], "no"),
        ([*RED, *moved(BALL, 2), Step("union", (1, 3)), Step("count", (4,))], "3"),
        ([*RED, *moved(BALL, 2), Step("intersect", (1, 3)), Step("unique", (4,)),
          Step("query_size", (5,))], "small"),
        ([*RED, Step("count", (1,)), *moved(BALL, 3), Step("count", (4,)),
          Step("equal_integer", (2, 5))], "yes"),
        ([*RED, Step("count", (1,)), Step("scene"), Step("count", (3,)),
          Step("less_than", (2, 4))], "yes"),
        ([*RED, Step("count", (1,)), Step("scene"), Step("count", (3,)),
          Step("greater_than", (2, 4))], "no"),
        ([*SMALL, Step("query_shape", (2,)), *moved(BLUE, 4), Step("query_shape", (6,)),
          Step("equal_shape", (3, 7))], "yes"),
        ([*SMALL, Step("query_size", (2,)), *moved(BLUE, 4), Step("query_size", (6,)),
          Step("equal_size", (3, 7))], "no"),
    ],
)  # fmt: skip
def test_answers_are_right(program, answer):
    assert parse_program(program_records(program)) == tuple(program)
    assert run_program(program, SCENE) == answer
    assert answer in ANSWERS


def test_unique_must_see_one_object():
    with pytest.raises(ValueError, match="unique must see one object, got 2"):
        run_program([*RED, Step("unique", (1,)), Step("query_size", (2,))], SCENE)


def test_both_spellings_are_read():
    spelt = [
        {"type": "scene", "inputs": []},
        {"type": "filter_color", "inputs": [0], "value_inputs": ["red"]},
        {"type": "count", "inputs": [1], "value_inputs": []},
    ]
    other = [{"function": one["type"], "value_inputs": []} | one for one in spelt]
    for one in other:
        del one["type"]
    expected = (*RED, Step("count", (1,)))
    assert parse_program(spelt) == parse_program(other) == expected


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([], "a program must have steps"),
        ([{"function": "guess", "inputs": []}], "functions must be CLEVR's, got 'guess'"),
        ([{"function": "count", "inputs": []}], "count must take 1 earlier steps"),
        ([{"function": "count", "inputs": [0]}], r"count must take 1 earlier steps, got \[0\]"),
        (
            [
                {"function": "scene", "inputs": []},
                {"function": "filter_color", "inputs": [0], "value_inputs": ["large"]},
            ],
            "filter_color must have one of cyan",
        ),
        (
            [{"function": "scene", "inputs": [], "value_inputs": ["red"]}],
            "scene must have no value",
        ),
    ],
)
def test_what_is_no_program_is_refused(records, message):
    with pytest.raises(ValueError, match=message):
        parse_program(records)


def test_types_follow_from_the_last_step():
    lasts = ["count", "exist", "query_size", "equal_color", "equal_integer", "less_than"]
    types = [question_type((Step(name),)) for name in lasts]
    expected = ["count", "exist", "query", "compare attribute"] + ["compare integer"] * 2
    assert types == expected


def test_there_are_28_answers_and_clevrs_functions():
    assert len(set(ANSWERS)) == 28
    assert len(FUNCTIONS) == 10 + 4 * 4
