"""Synthetic questions: answers by a slow loop, pairs, and what must not say anything about them."""

import re

import pytest
import torch

from torchsets.boxes import box_area, box_iou, non_maximum_suppression
from torchsets.counting import Counter
from torchsets.data.vqa import (
    pair_places,
    synthetic_vqa,
    vqa_pairs,
    vqa_pictures,
    vqa_questions,
    write_vqa,
)
from torchsets.data.vqa.synthetic_scenes import COLOURS, LONE, REFERENCE, SHAPES, THEME

PAIRS = 800


@pytest.fixture(scope="module")
def data():
    return synthetic_vqa(PAIRS)


def kinds(data):
    return torch.arange(len(data.questions)) % 5


def correlation(first, second):
    return torch.corrcoef(torch.stack([first.double(), second.double()]))[0, 1].item()


def objects_of(data, scene):
    parts = [part[scene].tolist() for part in data.objects[:4]]
    return [
        (COLOURS[colour], SHAPES[shape], digit)
        for colour, shape, digit, present in zip(*parts, strict=True)
        if present
    ]


def answer(text, objects):
    """Read the question as a person would."""
    words = re.findall(r"[a-z]+", text.lower())
    colours = [word for word in words if word in COLOURS]
    shapes = [word.removesuffix("s") for word in words if word.removesuffix("s") in SHAPES]
    found = [
        one
        for one in objects
        if all(one[0] == c for c in colours) and all(one[1] == s for s in shapes)
    ]
    if words[:2] == ["how", "many"]:
        return str(len(found))
    if words[:2] == ["is", "there"]:
        return "yes" if found else "no"
    (one,) = found
    return one[0] if words[1] == "colour" else str(one[2])


def test_answers_are_those_of_a_slow_loop(data):
    for place in range(1000):
        scene = place // 5
        expected = answer(data.questions.texts[place], objects_of(data, scene))
        assert data.answers[data.truth[place]] == expected


def test_a_pair_has_the_same_words_another_picture_and_another_answer(data):
    places = pair_places(data.pairs, data.questions.question_ids).places
    assert len(places) > 0.97 * 5 * PAIRS
    texts = data.questions.texts
    for first, second in places.tolist():
        assert texts[first] == texts[second]
    assert (data.truth[places[:, 0]] != data.truth[places[:, 1]]).all()
    assert (data.questions.image_ids[places[:, 0]] != data.questions.image_ids[places[:, 1]]).all()


def test_the_theme_is_uniform_and_the_reference_and_the_lone_object_are_alone(data):
    colours, shapes, _, present, _ = data.objects
    planted = present[:, THEME].sum(dim=1)
    shares = planted.bincount(minlength=7) / len(planted)
    assert shares.sub(1 / 7).abs().max() < 0.03
    others = present.clone()
    others[:, REFERENCE] = False
    assert not (others & (shapes == shapes[:, REFERENCE, None])).any()
    classes = colours * len(SHAPES) + shapes
    others = present.clone()
    others[:, LONE] = False
    assert not (others & (classes == classes[:, LONE, None])).any()
    assert (present.view(-1, 2, 12)[:, :, LONE].sum(dim=1) == 1).all()


def test_the_question_alone_says_nothing(data):
    """The best answer to each wording, found on one half, on the other half."""
    kind, chosen = kinds(data), data.truth
    half = len(chosen) // 2
    best = {}
    for place in range(half):
        counts = best.setdefault(data.questions.texts[place], torch.zeros(len(data.answers)))
        counts[chosen[place]] += 1
    right = torch.zeros(len(chosen), dtype=torch.bool)
    for place in range(half, len(chosen)):
        text = data.questions.texts[place]
        right[place] = text in best and int(best[text].argmax()) == int(chosen[place])
    later = torch.arange(len(chosen)) >= half
    chance = {0: 0.25, 2: 0.5, 3: 1 / 6, 4: 0.1}
    for number, level in chance.items():
        assert right[later & (kind == number)].double().mean() < level + 0.06


def test_number_area_and_arrangement_of_proposals_say_nothing(data):
    sizes = data.pictures.features.sizes
    planted = data.objects.present[:, THEME].sum(dim=1)
    boxes, mask = data.pictures.boxes.batch(torch.arange(len(sizes)))
    area = box_area(boxes).where(mask, 0).sum(dim=1)
    left = non_maximum_suppression(boxes, torch.rand(mask.shape), mask, threshold=0.5).sum(dim=1)
    assert (sizes.view(-1, 2)[:, 0] == sizes.view(-1, 2)[:, 1]).all()
    for value in (sizes, area, area / sizes, left):
        assert abs(correlation(value, planted)) < 0.07  # the best place of any size gives 0.1


def test_the_order_of_proposals_says_nothing(data):
    sizes = data.pictures.features.sizes
    rank = torch.cat([torch.arange(n) / n for n in sizes.tolist()])
    relevant = data.sources >= 0
    assert abs(correlation(rank, relevant)) < 0.02
    assert 0.3 < relevant.double().mean() < 0.7


def test_proposals_of_an_object_overlap_as_described(data):
    boxes, mask = data.pictures.boxes.batch(torch.arange(len(data.pictures)))
    sources = torch.full(mask.shape, -1)
    sources[mask] = data.sources
    overlap = box_iou(boxes, mask=mask)
    same = (sources.unsqueeze(1) == sources.unsqueeze(2)) & (sources >= 0).unsqueeze(1)
    found = overlap[same.triu(diagonal=1)]
    assert 0.6 < found.mean() < 0.8
    assert (found > 0.5).double().mean() > 0.9
    present = data.objects.present.sum(dim=1)
    shown = torch.zeros(len(sources), 13).scatter_(1, sources.where(sources >= 0, 12), 1.0)
    assert torch.equal(shown[:, :12].sum(dim=1).long(), present)  # each object has a proposal


def test_perfect_attention_counts_right_without_jitter_and_overlaps():
    data = synthetic_vqa(200, seed=3, jitter=0.0)
    relevant, mask = data.relevant().batch(torch.arange(len(data.questions)))
    boxes, _ = data.pictures.boxes.batch(data.asked[:, 0])
    relevant = relevant.squeeze(2).masked_fill(~mask, 0)
    total = Counter(10).inspect(boxes, relevant, mask).total.round().long()
    chosen = (kinds(data) < 2) & (relevant.sum(dim=1) <= 10)  # the counter keeps ten
    overlap = box_iou(boxes, mask=mask)
    between = (overlap > 0) & (overlap < 1) & (relevant.unsqueeze(1) * relevant.unsqueeze(2) > 0)
    chosen &= ~between.any(dim=2).any(dim=1)
    assert chosen.sum() > 200
    assert torch.equal(total[chosen], data.truth[chosen])


def test_ten_people_mostly_agree(data):
    answers, kind = data.questions.answers, kinds(data)
    strings = [data.answers.index(one) for one in answers.strings]
    given = torch.tensor(strings)[answers.given]
    right = (given == data.truth.unsqueeze(1)).double().mean(dim=1)
    assert abs(right[kind < 2].mean() - 0.85) < 0.01
    assert abs(right[kind >= 2].mean() - 0.95) < 0.01
    off = (given - data.truth.unsqueeze(1))[kind < 2]
    assert off.abs().max() == 1
    assert given[kind == 0].max() <= 10
    names = {3: COLOURS, 2: ("yes", "no"), 4: tuple(map(str, range(10)))}
    for number, allowed in names.items():
        assert {data.answers[one] for one in given[kind == number].unique()} == set(allowed)


def test_a_seed_is_a_split_and_gives_the_same_again():
    first, again, other = synthetic_vqa(3), synthetic_vqa(3), synthetic_vqa(3, seed=1)
    assert first.questions.texts == again.questions.texts
    assert torch.equal(first.pictures.features.values, again.pictures.features.values)
    assert not set(first.pictures.ids.tolist()) & set(other.pictures.ids.tolist())
    assert not torch.isin(other.objects.boxes, first.objects.boxes).any()


def test_files_of_the_four_formats_read_back_equal(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    parts = {"train": synthetic_vqa(20), "val": synthetic_vqa(5, seed=1)}
    for split, data in parts.items():
        write_vqa(tmp_path, split, data.questions, pairs=data.pairs, pictures=data.pictures)
    for split, data in parts.items():
        found = vqa_questions(split)
        assert found.texts == data.questions.texts
        assert found.answers.strings == data.questions.answers.strings
        for name in ("given", "chosen", "types"):
            assert torch.equal(getattr(found.answers, name), getattr(data.questions.answers, name))
        assert torch.equal(found.question_ids, data.questions.question_ids)
        assert torch.equal(found.image_ids, data.questions.image_ids)
        assert torch.equal(vqa_pairs(split), data.pairs)
        pictures = vqa_pictures(split)  # one store for both
        assert len(pictures) == 50
        for ours, theirs in zip(
            pictures.batch(found.image_ids), data.pictures.batch(found.image_ids), strict=True
        ):
            assert torch.equal(ours, theirs)
    write_vqa(tmp_path, "test", parts["val"].questions, pictures=parts["val"].pictures)
    assert vqa_questions("test").answers is None
    assert len(vqa_pictures("test")) == 10


def test_missing_proposals_are_told(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"trainval has no .tsv files: download the bottom"):
        vqa_pictures("val")
    with pytest.raises(ValueError, match="split must be one of train, val, test, test-dev, got"):
        vqa_pictures("all")
    with pytest.raises(ValueError, match='split must be "train" or "val", got \'test\''):
        vqa_pairs("test")


def test_wrong_arguments_are_refused(tmp_path):
    with pytest.raises(ValueError, match="pairs must be at least 1, got 0"):
        synthetic_vqa(0)
    with pytest.raises(ValueError, match="sizes must be two rising numbers of at least 12"):
        synthetic_vqa(2, sizes=(10, 20))
    questions = synthetic_vqa(1).questions
    object.__setattr__(questions, "answers", None)
    with pytest.raises(ValueError, match="questions must have answers, got none"):
        write_vqa(tmp_path, "train", questions)
