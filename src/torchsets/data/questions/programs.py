"""Programs of CLEVR: a question as steps, and what a scene answers to them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from torchsets.data.scenes import RELATIONS, VALUES

ANSWERS = (
    "yes",
    "no",
    *(str(count) for count in range(11)),
    *VALUES["color"],
    *VALUES["shape"],
    *VALUES["size"],
    *VALUES["material"],
)
"""The 28 answers, in the order of their numbers."""
TYPES = ("query", "count", "exist", "compare attribute", "compare integer")
"""The types of questions, by their last step."""
_TWO_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "equal_integer": int.__eq__,
    "less_than": int.__lt__,
    "greater_than": int.__gt__,
}


class Step(NamedTuple):
    """One step of a program.

    Attributes:
        function: Its name, as in CLEVR's files.
        inputs: The steps whose results it takes.
        value: The value that it filters by, or the side of a relation; None for other functions.
    """

    function: str
    inputs: tuple[int, ...] = ()
    value: str | None = None


Program = tuple[Step, ...]


class Function(NamedTuple):
    """How many results a step takes, and which values."""

    inputs: int
    values: tuple[str, ...] = ()


FUNCTIONS: dict[str, Function] = {
    "scene": Function(0),
    "unique": Function(1),
    "relate": Function(1, RELATIONS),
    "union": Function(2),
    "intersect": Function(2),
    "count": Function(1),
    "exist": Function(1),
    **{name: Function(2) for name in _TWO_NUMBERS},
    **{f"filter_{name}": Function(1, values) for name, values in VALUES.items()},
    **{
        f"{function}_{name}": Function(inputs)
        for function, inputs in (("same", 1), ("query", 1), ("equal", 2))
        for name in VALUES
    },
}


def parse_program(records: Sequence[Mapping[str, Any]]) -> Program:
    """Read a program from a file's list, which calls a function ``function`` or ``type``.

    Raises:
        ValueError: If it is no program of CLEVR's functions.
    """
    steps: list[Step] = []
    for record in records:
        name = record["function"] if "function" in record else record["type"]
        inputs, values = tuple(record["inputs"]), record.get("value_inputs", [])
        function = FUNCTIONS.get(name)
        if function is None:
            raise ValueError(f"functions must be CLEVR's, got {name!r}")
        if len(inputs) != function.inputs or any(not 0 <= one < len(steps) for one in inputs):
            raise ValueError(
                f"{name} must take {function.inputs} earlier steps, got {list(inputs)} in step "
                f"{len(steps)}"
            )
        if len(values) != bool(function.values) or any(v not in function.values for v in values):
            wanted = f"one of {', '.join(function.values)}" if function.values else "no value"
            raise ValueError(f"{name} must have {wanted}, got {values}")
        steps.append(Step(name, inputs, values[0] if values else None))
    if not steps:
        raise ValueError("a program must have steps, got none")
    return tuple(steps)


def program_records(program: Program) -> list[dict[str, Any]]:
    """Write a program as CLEVR's files have it."""
    return [
        {
            "function": step.function,
            "inputs": list(step.inputs),
            "value_inputs": [] if step.value is None else [step.value],
        }
        for step in program
    ]


def question_type(program: Program) -> str:
    """Which of :data:`TYPES` a question is."""
    last = program[-1].function
    if last in _TWO_NUMBERS:
        return "compare integer"
    kind = last.split("_")[0]
    return "compare attribute" if kind == "equal" else kind


def run_program(program: Iterable[Step], scene: Mapping[str, Any]) -> str:
    """Answer a question: run its program on a scene, step by step, on plain lists.

    Slow and simple on purpose: what generates questions is tested against it.

    Args:
        program: Steps in an order in which each follows its inputs.
        scene: In CLEVR's form, with ``objects`` and ``relationships``.

    Returns:
        One of :data:`ANSWERS`.

    Raises:
        ValueError: If ``unique`` does not see exactly one object: then there is no answer.

    Example:
        >>> scene = {"objects": [{"color": "red"}, {"color": "blue"}], "relationships": {}}
        >>> steps = [Step("scene"), Step("filter_color", (0,), "red"), Step("count", (1,))]
        >>> run_program(steps, scene)
        '1'
    """
    results: list[Any] = []
    for step in program:
        results.append(_run_step(step, [results[place] for place in step.inputs], scene))
    answer = results[-1]
    if isinstance(answer, bool):
        return "yes" if answer else "no"
    return str(answer)


def _run_step(step: Step, inputs: list[Any], scene: Mapping[str, Any]) -> Any:
    objects = scene["objects"]
    function, _, attribute = step.function.partition("_")
    if step.function in _TWO_NUMBERS:
        return _TWO_NUMBERS[step.function](*inputs)
    if function == "scene":
        return list(range(len(objects)))
    if function == "filter":
        return [one for one in inputs[0] if objects[one][attribute] == step.value]
    if function == "unique":
        if len(inputs[0]) != 1:
            raise ValueError(f"unique must see one object, got {len(inputs[0])}")
        return inputs[0][0]
    if function == "relate":
        return sorted(scene["relationships"][step.value][inputs[0]])
    if function == "same":
        value = objects[inputs[0]][attribute]
        everything = range(len(objects))
        return [one for one in everything if one != inputs[0] and objects[one][attribute] == value]
    if function == "union":
        return sorted({*inputs[0], *inputs[1]})
    if function == "intersect":
        return sorted({*inputs[0]} & {*inputs[1]})
    if function == "count":
        return len(inputs[0])
    if function == "exist":
        return len(inputs[0]) > 0
    if function == "query":
        return objects[inputs[0]][attribute]
    return inputs[0] == inputs[1]  # equal: of two values
