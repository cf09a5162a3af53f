"""Questions with the objects of their scenes, ready for training."""

import hashlib
from typing import NamedTuple

import torch
from torch import Tensor

from torchsets.data import Scenes, clevr_scenes, sample_scenes, scene_states
from torchsets.data.questions import (
    ANSWERS,
    FAMILIES,
    TYPES,
    Questions,
    clevr_questions,
    generate_questions,
)
from torchsets.lab.experiments.clevr.configs import AskScenes
from torchsets.lab.experiments.clevr.models import Batch
from torchsets.padded import SetBatch

TEST_SEED = 10_007  # of sampled scenes to test on; those to train on have seed 0
_PER_SCENE = 10
_PER_TEST_SCENE = 20


class Asked(NamedTuple):
    """Questions, and the scenes that they are about.

    Attributes:
        questions: All of them.
        scenes: Their scenes.
        states: The objects of each scene, padded.
        place: The row of a scene, by its number.
    """

    questions: Questions
    scenes: Scenes
    states: SetBatch
    place: Tensor

    def batch(self, index: Tensor) -> Batch:
        """Some questions, each with its objects."""
        tokens, lengths, answers, scenes, _ = self.questions.batch(index)
        rows = self.place[scenes]
        elements, mask = self.states.elements[rows], self.states.mask[rows]
        widest = int(mask.sum(dim=1).max()) if len(mask) else 0
        return Batch(elements[:, :widest], mask[:, :widest], tokens, lengths, answers)

    def column(self, name: str) -> Tensor:
        """A column of the questions, such as families, (questions,), long."""
        return self.questions.columns[name].long()

    def digest(self) -> str:
        """A short fingerprint of questions, answers and objects."""
        digest = hashlib.sha256()
        for part in (*self.questions.columns.values(), self.states.elements):
            digest.update(part.contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]


class Data(NamedTuple):
    """What to train and to test on; whether the test scenes are CLEVR's own."""

    training: Asked
    test: Asked
    real: bool


def load_data(config: AskScenes) -> Data:
    """Load CLEVR's questions, or ask our own about sampled scenes."""
    if config.dataset == "clevr":
        training = _join(config, clevr_questions("train"), clevr_scenes("train"))
        test = clevr_questions("val").with_vocabulary(training.questions.vocabulary)
        return Data(training, _join(config, test, clevr_scenes("val")), real=True)
    families = [place for place, one in enumerate(FAMILIES) if one.group in config.groups]
    scenes = sample_scenes(config.scenes)
    training = _join(config, _ask(scenes, families, _PER_SCENE), scenes)
    try:
        scenes, real = clevr_scenes("val"), True
        scenes = scenes[: config.test_scenes]
    except FileNotFoundError:
        scenes, real = sample_scenes(config.test_scenes, seed=TEST_SEED), False
    test = _ask(scenes, families, _PER_TEST_SCENE).with_vocabulary(training.questions.vocabulary)
    return Data(training, _join(config, test, scenes), real=real)


def type_of(asked: Asked) -> dict[str, Tensor]:
    """Which questions are of each type, by its name: (questions,), bool."""
    column = asked.column("types")
    return {name: column == place for place, name in enumerate(TYPES) if (column == place).any()}


def family_names(asked: Asked) -> dict[int, str]:
    """What the families of the questions are called, by their number."""
    numbers = sorted(set(asked.column("families").tolist()))
    names = asked.questions.family_names
    if names:
        return {number: names[number] for number in numbers}
    return {number: _name(number) for number in numbers}


def best_constant(asked: Asked) -> float:
    """Accuracy in per cent, mean over families, of the most frequent answer of each."""
    families, answers = asked.column("families"), asked.column("answers")
    shares = []
    for number in set(families.tolist()):
        counts = answers[families == number].bincount(minlength=len(ANSWERS))
        shares.append(100 * counts.max().item() / counts.sum().item())
    return sum(shares) / len(shares)


def _name(number: int) -> str:
    family = FAMILIES[number]
    parts = [family.group, family.kind, family.attribute or "", family.same or ""]
    if len(family.hops) > 1:
        parts.append("hops " + " and ".join(map(str, family.hops)))
    return " ".join([*filter(None, parts), *([] if family.filtered else ["all"])])


def _ask(scenes: Scenes, families: list[int], per_scene: int) -> Questions:
    count = min(per_scene, len(families))
    return Questions.from_list(generate_questions(scenes, per_scene=count, families=families))


def _join(config: AskScenes, questions: Questions, scenes: Scenes) -> Asked:
    place = torch.full((int(scenes.numbers.max()) + 1,), -1)
    place[scenes.numbers] = torch.arange(len(scenes))
    wanted = questions.columns["scenes"].long()
    if int(wanted.max()) >= len(place) or bool((place[wanted] < 0).any()):
        raise ValueError("questions must be about scenes of the same split, got one without scene")
    return Asked(questions, scenes, scene_states(scenes, coding=config.coding), place)
