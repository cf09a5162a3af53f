"""Synthetic questions about generated scenes, in the form of VQA v2 with bottom-up proposals."""

from dataclasses import dataclass

import torch
from torch import Tensor

from torchsets._checks import check_counts
from torchsets.data.vqa.features import FeatureStore
from torchsets.data.vqa.files import ANSWER_TYPES, PEOPLE, VQAAnswers, VQAQuestions
from torchsets.data.vqa.synthetic_scenes import (
    COLOURS,
    LONE,
    OBJECTS,
    REFERENCE,
    SHAPES,
    SceneObjects,
    SceneProposals,
    draw_objects,
    draw_proposals,
)
from torchsets.sets import Sets

LARGEST = 10
"""The largest answer to a question how many there are."""
PER_SCENE = 5
WIDTH, HEIGHT = 640, 480
_ANSWERS = (*map(str, range(LARGEST + 1)), "yes", "no", *COLOURS)
_YES = _ANSWERS.index("yes")
_COLOUR = _ANSWERS.index(COLOURS[0])
_ANY = -1  # colour or shape
_FORMS = (0.5, 0.2, 0.2, 0.1)  # shares of: red cubes, cubes, red things, things
_AGREE_ON_COUNTS, _AGREE = 0.85, 0.95
_IDS = 1_000_000  # images of a seed
_COUNT, _EXISTS, _WHICH_COLOUR, _WHICH_DIGIT = 0, 2, 3, 4  # first of the questions of a kind


@dataclass(frozen=True)
class SyntheticVQA:
    """Questions and the scenes that they are about.

    Attributes:
        questions: With the answers of ten people each.
        pairs: The ids of two questions with the same words and other answers, (P, 2), long.
        pictures: The proposals of all scenes.
        objects: What there really is in each scene, in the order of the pictures.
        sources: The object that each proposal shows, -1 for background, (total,), long.
        asked: The place of the scene, and the colour and the shape that a question asks about, -1
            for any, (Q, 3), long.
        truth: The true answers, (Q,), long: places in ``answers``.
        answers: All answers that there are.
    """

    questions: VQAQuestions
    pairs: Tensor
    pictures: FeatureStore
    objects: SceneObjects
    sources: Tensor
    asked: Tensor
    truth: Tensor
    answers: tuple[str, ...] = _ANSWERS

    def relevant(self) -> Sets:
        """Whether each proposal shows an object that a question asks about: (n, 1) a question."""
        scenes = self.asked[:, 0]
        matching = matching_objects(self.objects, self.asked)
        objects = Sets(self.sources.unsqueeze(1).float(), self.pictures.features.sizes)[scenes]
        rows = torch.arange(len(scenes)).repeat_interleave(objects.sizes)
        source = objects.values.squeeze(1).long()
        shown = matching[rows, source.clamp(min=0)] & (source >= 0)
        return Sets(shown.unsqueeze(1).float(), objects.sizes)


def synthetic_vqa(
    pairs: int,
    *,
    seed: int = 0,
    sizes: tuple[int, int] = (20, 40),
    features: int = 64,
    noise: float = 1.0,
    jitter: float = 0.08,
) -> SyntheticVQA:
    """Draw pairs of scenes and ask five questions about both scenes of each.

    Twice how many objects of a class there are (0 to 10), and whether there is one, what colour an
    object has and what number is on it. The answer differs between the scenes, with few exceptions,
    so the question alone says nothing; a pair is listed if it does.

    Args:
        pairs: Pairs of scenes.
        seed: Another one gives other scenes and questions, with other numbers.
        sizes: Smallest and largest number of proposals of a scene.
        features: Of a proposal.
        noise: How much features differ from those of their class.
        jitter: Standard deviation of the corners of a proposal, as a share of its sides.

    Raises:
        ValueError: If the smallest size is below 12, the number of objects that there may be, or
            there is no pair.

    Example:
        >>> data = synthetic_vqa(2)
        >>> data.questions
        VQAQuestions(20 questions, 4 pictures, with answers)
        >>> data.questions.texts[0], data.answers[data.truth[0]], data.answers[data.truth[5]]
        ('How many green spheres are there?', '4', '3')
    """
    if not OBJECTS <= sizes[0] <= sizes[1]:
        raise ValueError(f"sizes must be two rising numbers of at least {OBJECTS}, got {sizes}")
    check_counts(pairs=pairs)
    generator = torch.Generator().manual_seed(seed)
    objects = draw_objects(pairs, generator)
    proposals = draw_proposals(
        objects, generator, sizes=sizes, features=features, noise=noise, jitter=jitter
    )
    asked = _ask(objects, generator)
    truth = _answer(objects, asked)
    ids = seed * _IDS + torch.arange(2 * pairs)
    question_ids = (ids.unsqueeze(1) * 1000 + torch.arange(PER_SCENE)).flatten()
    texts = tuple(
        _text(number % PER_SCENE, *row) for number, row in enumerate(asked[:, 1:].tolist())
    )
    answers = _people(truth, generator)
    questions = VQAQuestions(texts, question_ids, ids.repeat_interleave(PER_SCENE), answers)
    twins = question_ids.view(pairs, 2, PER_SCENE).transpose(1, 2).flatten(0, 1)
    by_pair = truth.view(pairs, 2, PER_SCENE).transpose(1, 2).flatten(0, 1)
    return SyntheticVQA(
        questions,
        twins[by_pair[:, 0] != by_pair[:, 1]],
        _store(ids, proposals),
        objects,
        proposals.sources[proposals.mask],
        asked,
        truth,
    )


def matching_objects(objects: SceneObjects, asked: Tensor) -> Tensor:
    """Which objects of their scenes questions (Q, 3) ask about, (Q, 12), bool."""
    scene, colour, shape = asked.unsqueeze(2).unbind(dim=1)
    scene = scene.squeeze(1)
    of_colour = (objects.colours[scene] == colour) | (colour == _ANY)
    return objects.present[scene] & of_colour & ((objects.shapes[scene] == shape) | (shape == _ANY))


def _ask(objects: SceneObjects, generator: torch.Generator) -> Tensor:
    """Scene, colour and shape of each question, (5 S, 3); those of a pair ask the same."""
    first = SceneObjects(*(part[::2] for part in objects))
    pairs = len(first.colours)
    form = torch.multinomial(torch.tensor(_FORMS), 2 * pairs, True, generator=generator)
    form = form.view(pairs, 2)
    colour, shape = first.colours[:, :1], first.shapes[:, :1]
    asked = torch.full((pairs, PER_SCENE, 3), _ANY)
    asked[:, :2, 1] = torch.where((form == 0) | (form == 2), colour, _ANY)
    asked[:, :2, 2] = torch.where((form == 0) | (form == 1), shape, _ANY)
    asked[:, _EXISTS, 1], asked[:, _EXISTS, 2] = first.colours[:, LONE], first.shapes[:, LONE]
    asked[:, _WHICH_COLOUR:, 2] = first.shapes[:, REFERENCE].unsqueeze(1)
    asked = asked.repeat_interleave(2, dim=0)
    asked[..., 0] = torch.arange(2 * pairs).unsqueeze(1)
    counts = matching_objects(objects, asked.flatten(0, 1)).sum(dim=1).view(pairs, 2, PER_SCENE)
    too_many = (counts[..., :2] > LARGEST).any(dim=1).repeat_interleave(2, dim=0)
    asked[:, :2, 1] = asked[:, :2, 1].where(~too_many, colour.repeat_interleave(2, dim=0))
    asked[:, :2, 2] = asked[:, :2, 2].where(~too_many, shape.repeat_interleave(2, dim=0))
    return asked.flatten(0, 1)


def _answer(objects: SceneObjects, asked: Tensor) -> Tensor:
    """The true answer of each question, (Q,)."""
    matching = matching_objects(objects, asked)
    answer = matching.sum(dim=1)
    which = matching.int().argmax(dim=1)
    kind = torch.arange(len(asked)) % PER_SCENE
    answer = torch.where(kind == _EXISTS, torch.where(answer > 0, _YES, _YES + 1), answer)
    scene = asked[:, 0]
    colour = _COLOUR + objects.colours[scene, which]
    answer = torch.where(kind == _WHICH_COLOUR, colour, answer)
    return torch.where(kind == _WHICH_DIGIT, objects.digits[scene, which], answer)


def _people(truth: Tensor, generator: torch.Generator) -> VQAAnswers:
    """Ten answers to each question, most of them true, numbered as a reader of files does."""
    kind = torch.arange(len(truth)) % PER_SCENE
    shape = (len(truth), PEOPLE)
    counts, true = (kind < _EXISTS).unsqueeze(1), truth.unsqueeze(1)
    beside = 2 * torch.randint(2, shape, generator=generator) - 1
    beside = torch.where(true == 0, 1, torch.where(true == LARGEST, -1, beside))
    # Another answer of the same kind, such as another colour.
    first, size = torch.zeros_like(truth), torch.full_like(truth, LARGEST)
    first[kind == _EXISTS], size[kind == _EXISTS] = _YES, 2
    first[kind == _WHICH_COLOUR], size[kind == _WHICH_COLOUR] = _COLOUR, len(COLOURS)
    first, size = first.unsqueeze(1), size.unsqueeze(1)
    drawn = (torch.rand(shape, generator=generator) * (size - 1)).long()
    other = first + (true - first + 1 + drawn) % size
    agree = torch.where(counts, _AGREE_ON_COUNTS, _AGREE)
    agrees = torch.rand(shape, generator=generator) < agree
    given = torch.where(agrees, true, torch.where(counts, true + beside, other))

    votes = torch.zeros(len(truth), len(_ANSWERS)).scatter_add_(1, given, torch.ones(shape))
    votes = votes.scatter_add_(1, true, torch.full((len(truth), 1), 0.5))  # decides a tie
    names = list(dict.fromkeys(given.flatten().tolist()))  # in order of appearance
    table = torch.zeros(len(_ANSWERS), dtype=torch.long)
    table[names] = torch.arange(len(names))
    types = torch.full_like(truth, ANSWER_TYPES.index("number"))
    types[kind == _EXISTS] = ANSWER_TYPES.index("yes/no")
    types[kind == _WHICH_COLOUR] = ANSWER_TYPES.index("other")
    strings = tuple(_ANSWERS[name] for name in names)
    return VQAAnswers(strings, table[given], table[votes.argmax(dim=1)], types)


def _text(number: int, colour: int, shape: int) -> str:
    which = [COLOURS[colour]] if colour != _ANY else []
    name = "thing" if shape == _ANY else SHAPES[shape]
    if number < _EXISTS:
        return f"How many {' '.join([*which, f'{name}s'])} are there?"
    if number == _EXISTS:
        return f"Is there a {' '.join([*which, name])}?"
    return f"What {'colour is' if number == _WHICH_COLOUR else 'number is on'} the {name}?"


def _store(ids: Tensor, proposals: SceneProposals) -> FeatureStore:
    scale = torch.tensor([WIDTH, HEIGHT, WIDTH, HEIGHT], dtype=torch.float32)
    sizes, mask = proposals.mask.sum(dim=1), proposals.mask
    shapes = torch.tensor([WIDTH, HEIGHT]).repeat(len(ids), 1)
    features, boxes = Sets(proposals.features[mask], sizes), proposals.boxes * scale
    return FeatureStore(ids, shapes, features, Sets(boxes[mask], sizes))
