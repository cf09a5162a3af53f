import pytest
import torch

from torchsets.data.questions import ANSWERS, FAMILIES
from torchsets.lab.experiments.clevr.configs import ASK_SCENES, GROUPS, OTHER_ROWS, AskScenes
from torchsets.lab.experiments.clevr.data import best_constant, family_names, load_data
from torchsets.lab.experiments.clevr.questions import _Draw, learning_rate_factor
from torchsets.lab.experiments.launch import run_experiment


@pytest.fixture(autouse=True)
def no_data(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path / "nothing"))


@pytest.fixture(scope="module")
def data():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHSETS_DATA", "/nothing")
        return load_data(ASK_SCENES.config_at("smoke"))


def test_smoke_fills_the_tables_apart_from_the_thesis(tmp_path):
    run = run_experiment("clevr-questions", scale="smoke", folder=tmp_path / "run")
    tables = {cell.table for cell in run.cells}
    assert "fspool/clevr/variants" in tables
    assert "fspool/clevr" not in tables
    rows = {cell.model for cell in run.cells if cell.table == "clevr-questions/accuracy"}
    assert rows == set(OTHER_ROWS.values())
    assert {"weight-functions", "families FSPool", "mistakes RN"} <= set(run.figures)
    caption = run.descriptions["clevr-questions/accuracy"].caption
    assert "Our own questions about scenes, not CLEVR's" in caption
    assert "other sampled scenes" in caption


def test_a_batch_has_the_objects_of_each_questions_scene(data):
    index = torch.tensor([0, 57, 200])
    batch = data.training.batch(index)
    for row, place in enumerate(index.tolist()):
        question = data.training.questions[place]
        scene = data.training.scenes[question.scene]  # sampled scenes are numbered from 0
        real = batch.states[row, batch.mask[row]]
        torch.testing.assert_close(real[:, :3], scene.positions / 3)
        assert ANSWERS[int(batch.answers[row])] == question.answer


def test_training_and_test_scenes_differ(data):
    ours, theirs = data.training.scenes.positions, data.test.scenes.positions
    assert not torch.isin(theirs[:, 0], ours[:, 0]).any()


def test_the_best_constant_answer_is_counted_by_family(data):
    families, answers = data.test.column("families"), data.test.column("answers")
    shares = []
    for family in sorted(set(families.tolist())):
        given = answers[families == family].tolist()
        shares.append(100 * max(given.count(one) for one in given) / len(given))
    assert best_constant(data.test) == pytest.approx(sum(shares) / len(shares))


def test_every_family_has_a_name_of_its_own():
    every = load_data(ASK_SCENES.config_at("smoke", groups=GROUPS, scenes=20, test_scenes=40)).test
    names = family_names(every)
    assert len(names) == len(FAMILIES) == len(set(names.values()))
    places = [place for place, family in enumerate(FAMILIES) if family.hops == (1, 0)]
    assert places
    assert all("hops 1 and 0" in names[place] for place in places)


def test_the_first_groups_come_alone_and_first(data):
    config = ASK_SCENES.config_at("smoke", first_groups=("zero-hop",))
    draw = _Draw(config, data.training, steps=10)
    asked = [data.training.questions.batch(draw.places[draw.first(step)]) for step in range(2)]
    groups = {FAMILIES[family].group for one in asked for family in one.families.tolist()}
    assert groups == {"zero-hop"}
    assert draw.until == 2
    torch.testing.assert_close(draw(0).words, asked[0].tokens)
    torch.testing.assert_close(draw(2).answers, data.training.batch(draw.all(2)).answers)


def test_the_thesis_schedule_doubles_every_20_epochs():
    config = AskScenes()
    epochs = (0, 19, 20, 119, 120, 139, 140, 349)
    found = [
        config.learning_rate * learning_rate_factor(epoch / 350, config=config, steps=1)
        for epoch in epochs
    ]
    assert found == pytest.approx([5e-6, 5e-6, 1e-5, 1.6e-4, 3.2e-4, 3.2e-4, 5e-4, 5e-4], rel=1e-6)


def test_the_warm_schedule_rises_stays_and_falls():
    config = AskScenes(schedule="warm")
    shares = (0, 249 / 10_000, 0.5, 0.7, 0.85, 0.9999)
    found = [learning_rate_factor(share, config=config, steps=10_000) for share in shares]
    assert found == pytest.approx([1 / 500, 0.5, 1, 1, 0.5, 1 / 3000], rel=1e-2)


def test_says_which_files_are_missing():
    with pytest.raises(
        FileNotFoundError, match=r"CLEVR_train_questions\.json is missing: download"
    ):
        load_data(AskScenes())


def test_refuses_unknown_groups():
    with pytest.raises(ValueError, match="groups must be among zero-hop"):
        AskScenes(groups=("four-hop",))
