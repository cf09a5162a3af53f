import pytest
import torch

from torchsets._catalogue import data_folder
from torchsets.lab.experiments.launch import run_experiment
from torchsets.lab.experiments.pictures.configs import BOXES as BOX_EXPERIMENT
from torchsets.lab.experiments.pictures.configs import DECODERS, DESCENT_SOURCES, IMAGES, SOURCES
from torchsets.lab.experiments.pictures.data import BOXES, STATES, forget, in_shares, load_split
from torchsets.lab.experiments.pictures.figures import draw_precision, draw_worst, grey
from torchsets.lab.experiments.pictures.models import Descent, build
from torchsets.lab.experiments.pictures.predict import SET_RATES, label_of, predict
from torchsets.lab.reports.thesis import thesis_tables
from torchsets.lab.training import adam, train
from torchsets.padded import SetPrediction, Trajectory

SMOKE = IMAGES.config_at("smoke")
ALL = [
    *((name, "flat") for name in DECODERS),
    *(("implicit", source) for source in SOURCES if source != "flat"),
]


@pytest.fixture(scope="module")
def split():
    return load_split(SMOKE, "states", training=True)


def make(name, source="flat", **changes):
    torch.manual_seed(0)
    config = IMAGES.config_at("smoke", **changes)
    return build(config, name, source, "fspool", slots=6, features=18)


@pytest.mark.parametrize("experiment", [IMAGES, BOX_EXPERIMENT], ids=["states", "boxes"])
def test_smoke_run_measures_every_model(experiment, tmp_path):
    config = experiment.config_at("smoke", sources=("stages",), poolings=("fspool",))
    run = run_experiment(experiment.name, config, scale="smoke", folder=tmp_path)
    cells = {(cell.table, cell.model, cell.column): cell.value for cell in run.cells}
    columns = (STATES if experiment is IMAGES else BOXES).columns
    descents = {
        f"{name}, two stages, {steps} steps"
        for name in ("DSPN", "Implicit DSPN")
        for steps in (2, 3)
    }
    lists = {f"{name}, flattened map" for name in ("MLP baseline", "RNN baseline", "TSPN")}
    rows = {*descents, *lists, "Queries", "Slot attention"}
    for table in (experiment.name, f"{experiment.name}/single"):
        assert {row for key, row, _ in cells if key == table} == rows
        assert {column for key, _, column in cells if key == table} == set(columns)
    for row in rows:
        rest = cells.get((f"{experiment.name}/beside", row, "at rest in %"))
        assert (rest is not None) is (row in descents)
    assert run.tasks["sets/implicit stages fspool"].steps == config.set_steps
    assert set(run.figures) == {"precision", "picture 1", "picture 2", "picture 3", "worst"}


@pytest.mark.parametrize("experiment", [IMAGES, BOX_EXPERIMENT], ids=["states", "boxes"])
def test_the_ablation_of_the_thesis_says_that_pictures_are_rendered(experiment, tmp_path):
    config = experiment.config_at(
        "smoke",
        models=("unrolled",),
        poolings=("fspool", "sum"),
        sources=("flat", "stages"),
        supervise="last",
    )
    run = run_experiment(experiment.name, config, scale="smoke", folder=tmp_path)
    table = "dspn/state-fspool" if experiment is IMAGES else "dspn/box-fspool"
    changes = "dataset=rendered, sources=flat,stages"
    named = {cell.model for cell in run.cells if cell.table == f"{table}/variants"}
    assert named == {
        f"DSPN-RN-{pooling} ({steps} iters){source}, {changes}"
        for pooling in ("FSPool", "Sum")
        for steps in (2, 3)
        for source in ("", ", stages")
    }


@pytest.mark.parametrize(
    ("experiment", "supervise", "tables"),
    [
        (IMAGES, "last", {"dspn/state"}),
        (BOX_EXPERIMENT, "last", {"dspn/box", "dspn/box-fixed1"}),
        (BOX_EXPERIMENT, "all", {"dspn/box-fixed2"}),
    ],
)
def test_numbers_stand_beside_the_tables_of_their_supervision(
    experiment, supervise, tables, tmp_path
):
    config = experiment.config_at(
        "smoke", models=("unrolled", "mlp"), poolings=("fspool",), supervise=supervise
    )
    run = run_experiment(experiment.name, config, scale="smoke", folder=tmp_path)
    rows = {
        f"{row}, dataset=rendered" for row in ("MLP baseline", "DSPN (2 iters)", "DSPN (3 iters)")
    }
    compared = {cell.table for cell in run.cells if cell.model in rows}
    assert compared == {f"{table}/variants" for table in tables}
    for table in tables:
        found = [cell for cell in run.cells if cell.table == f"{table}/variants"]
        assert {cell.model for cell in found} == rows
        assert {cell.column for cell in found} == set(thesis_tables()[table].columns)


@pytest.mark.skipif(
    not (data_folder() / "clevr" / "CLEVR_v1.0" / "images").is_dir(),
    reason="needs pictures of CLEVR in TORCHSETS_DATA/clevr",
)
@pytest.mark.parametrize(
    ("experiment", "table"), [(IMAGES, "dspn/state-fixed"), (BOX_EXPERIMENT, "dspn/box-fixed2")]
)
def test_real_pictures_and_the_networks_of_the_thesis(experiment, table, tmp_path):
    config = experiment.config_at(
        "full",
        models=("unrolled",),
        poolings=("fspool",),
        steps=1,
        batch_size=2,
        test_steps=(10,),
        training_scenes=2,
        test_scenes=2,
    )
    run = run_experiment(experiment.name, config, scale="full", folder=tmp_path)
    changes = "steps=1, batch_size=2, training_scenes=2, test_scenes=2"
    found = {cell.model for cell in run.cells if cell.table == f"{table}/variants"}
    assert found == {f"DSPN (10 iters), {changes}"}


@pytest.mark.parametrize(("name", "source"), ALL)
def test_every_model_learns_from_pictures_and_predicts_the_same_again(name, source, split):
    model = make(name, source)
    batch = split.draw(torch.arange(4), torch.Generator().manual_seed(0))
    loss = model.loss(batch)
    sum(loss.values() if isinstance(loss, dict) else [loss]).backward()
    stems = [weight for key, weight in model.named_parameters() if "trunk.conv1" in key]
    assert all(weight.grad is not None and weight.grad.any() for weight in stems)
    model.eval()
    first, second = (predict(model, split, (2, 3)) for _ in range(2))
    assert set(first.after) == ({2, 3} if isinstance(model, Descent) else {0})
    last = max(first.after)
    torch.testing.assert_close(first.after[last].elements, second.after[last].elements)


@pytest.mark.parametrize("source", DESCENT_SOURCES)
def test_before_all_is_trained_together_the_set_half_rests(source, split):
    model = make("implicit", source)
    batch = split.draw(torch.arange(4), torch.Generator(), joint=False)
    loss = model.loss(batch)
    assert (loss["sets"].item() == 0) is (source != "hybrid")  # or else the queries learn
    sum(loss.values()).backward()
    assert all(weight.grad is None for weight in model.decoder.parameters())
    assert all(weight.grad is not None for weight in model.source.parameters())


def test_an_implicit_descent_may_halve_its_first_steps_and_limit_them(tmp_path, monkeypatch):
    config = IMAGES.config_at(
        "smoke", models=("implicit", "unrolled"), inner_steps=4, half_steps=True, clip=0.5, steps=4
    )
    taken = {True: [], False: []}

    def loss(self, batch):
        taken[self.implicit].append(batch.steps)
        return self.source(batch.images).sum()

    monkeypatch.setattr(Descent, "loss", loss)
    run_experiment("dspn-images", config, scale="smoke", folder=tmp_path)
    assert taken == {True: [2, 2, None, None], False: [None] * 8}  # two poolings
    limits = {
        name: build(config, name, "flat", "fspool", slots=6, features=18).decoder.clip
        for name in config.models
    }
    assert limits == {"implicit": 0.5, "unrolled": None}


def test_only_a_descent_that_is_trained_from_the_start_has_limited_gradients(tmp_path, monkeypatch):
    limits = {}

    def noted(*parts, task, settings, **options):
        limits[task] = settings.clip
        return train(*parts, task=task, settings=settings, **options)

    monkeypatch.setattr("torchsets.lab.experiments.pictures.predict.train", noted)
    config = IMAGES.config_at(
        "smoke", models=("implicit", "mlp"), sources=("flat", "stages"), gradient_clip=0.2
    )
    run_experiment("dspn-images", config, scale="smoke", folder=tmp_path)
    assert limits == {
        "pictures/implicit flat fspool": 0.2,
        "sets/implicit stages fspool": None,
        "pictures/implicit stages fspool": None,
        "pictures/mlp flat fspool": None,
    }


@pytest.mark.parametrize("name", SET_RATES)
@pytest.mark.parametrize("source", ["stages", "flat"])
def test_a_set_half_that_is_trained_already_moves_slowly(name, source, tmp_path, monkeypatch):
    rates = []

    def noted(model, rate, **options):
        rates.append(options.get("rates"))
        return adam(model, rate, **options)

    monkeypatch.setattr("torchsets.lab.experiments.pictures.predict.adam", noted)
    config = IMAGES.config_at("smoke", models=(name,), poolings=("fspool",), sources=(source,))
    run_experiment("dspn-images", config, scale="smoke", folder=tmp_path)
    assert rates == ([None, {"decoder": SET_RATES[name]}] if source == "stages" else [None])


def test_a_batch_says_how_many_steps_are_taken(split):
    model = make("implicit", "stages", inner_steps=2)
    batch = split.draw(torch.arange(4), torch.Generator().manual_seed(0))
    few = model.set_half_loss(batch._replace(steps=1))
    assert few.item() != model.set_half_loss(batch).item()
    assert model.loss(batch._replace(steps=1))["sets"] != model.loss(batch)["sets"]


def test_aimed_vectors_have_the_centre_and_spread_of_those_of_true_sets(split):
    model = make("implicit", "stages")
    batch = split.draw(torch.arange(16), torch.Generator())
    model.aim(batch)
    wanted = model.decoder.encode(batch.elements, batch.mask)
    torch.testing.assert_close(model.centre, wanted.mean(dim=0))
    with torch.no_grad():  # a vector of zeros aims at the centre: the loss is the variance, or 1
        for weight in model.source.head[1].parameters():
            weight.zero_()
        loss = model.loss(batch._replace(joint=False))["vectors"]
    assert loss.item() == pytest.approx(1, rel=1e-4)


def test_a_hybrid_starts_at_what_its_queries_predict(split):
    model = make("implicit", "hybrid").eval()
    batch = split.draw(torch.arange(4), torch.Generator())
    with torch.no_grad():
        way, start = model(batch).trajectory, model.queries(batch)
    torch.testing.assert_close(way.elements[0], start.elements)
    # Untrained, its vector is that of the start, which therefore stays.
    torch.testing.assert_close(way.elements[-1], start.elements, rtol=0, atol=1e-4)


@pytest.mark.parametrize("target", [STATES, BOXES], ids=["states", "boxes"])
def test_true_sets_have_full_precision(target):
    split = load_split(SMOKE, target.name, training=False)
    perfect = SetPrediction(split.sets.elements, split.sets.mask.float())
    assert target.precision(perfect, split.sets).tolist() == [100.0] * 5
    assert split.images.dtype == torch.uint8


def test_boxes_in_other_units_are_drawn_at_their_places(tmp_path):
    units = {"box_scale": 8.0, "box_centre": 0.5}
    config = BOX_EXPERIMENT.config_at("smoke", models=("mlp",), **units)
    shares = load_split(BOX_EXPERIMENT.config_at("smoke"), "boxes", training=False).sets
    learned = load_split(config, "boxes", training=False).sets
    real = shares.mask.unsqueeze(-1)
    wanted = (8 * (shares.elements - 0.5)).masked_fill(~real, 0)
    torch.testing.assert_close(learned.elements, wanted)
    torch.testing.assert_close(
        in_shares(learned.elements, config)[shares.mask], shares.to_flat()[0]
    )
    run = run_experiment(BOX_EXPERIMENT.name, config, scale="smoke", folder=tmp_path)
    for index in range(3):
        predicted, true = run.figures[f"picture {index + 1}"].figure.panels
        (drawn,) = true.boxes
        torch.testing.assert_close(torch.tensor(drawn), shares.to_list()[index])
        near = torch.tensor(predicted.boxes).mean()  # untrained: near 0, the middle
        assert 0.4 < near < 0.6


def test_the_worst_pictures_show_their_boxes():
    split = load_split(BOX_EXPERIMENT.config_at("smoke"), "boxes", training=False)
    elements, presence = split.sets.elements.clone(), split.sets.mask.float()
    corner = torch.tensor([0.0, 0.0, 0.125, 0.25])
    elements[5] = corner  # nothing is there
    way = Trajectory(elements[None], presence[None], torch.zeros(0, 8))
    figures = {}

    class Kept:
        def add_figure(self, name, figure, **about):
            figures[name] = figure

    draw_worst(Kept(), "boxes", {"a model": way}, split, BOXES.precision)
    worst = figures["worst"].panels[0]
    assert worst.title.startswith("number 6: ")
    assert worst.boxes == [corner.tolist()] * 6
    assert worst.weights == presence[5].tolist()
    assert worst.picture == grey(split.images[5])
    draw_precision(Kept(), BOXES.columns, {"a model": torch.zeros(1, 5)})
    assert "precision" not in figures  # there are no steps


def test_a_row_names_the_source_and_the_pooling():
    assert label_of("implicit", "stages", "fspool") == "Implicit DSPN, two stages"
    assert label_of("unrolled", "flat", "sum") == "DSPN, flattened map, sum pooling"
    assert label_of("queries", "map", "fspool") == "Queries"


def test_real_pictures_need_files(tmp_path, monkeypatch):
    from torchsets.lab.experiments.pictures.data import real_pictures

    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path))
    assert real_pictures(SMOKE, "states") is None
    with pytest.raises(FileNotFoundError):
        load_split(IMAGES.config_at("full"), "states", training=True)


@pytest.mark.parametrize(
    ("dataset", "splits"), [("rendered", ["train", "val"]), ("clevr", ["val"])]
)
def test_real_pictures_were_not_trained_on(dataset, splits, monkeypatch):
    from torchsets.lab.experiments.pictures import data

    asked = []

    def absent(split, **options):
        asked.append(split)
        raise FileNotFoundError

    monkeypatch.setattr(data, "clevr_pictures", absent)
    config = IMAGES.config_at("smoke", dataset=dataset, real_pictures=True)
    assert data.real_pictures(config, "states") is None
    assert asked == splits


def test_a_share_of_the_objects_is_missing_from_the_training_alone(split):
    few = forget(split.sets, 0.3, seed=0)
    assert 0.5 < few.mask.sum() / split.sets.mask.sum() < 0.9
    assert not (few.mask & ~split.sets.mask).any()
    assert (few.elements[~few.mask] == 0).all()
    assert forget(split.sets, 0.0, seed=0).mask.equal(split.sets.mask)
    noisy = IMAGES.config_at("smoke", missing=0.3)
    assert load_split(noisy, "states", training=True).sets.mask.equal(few.mask)
    test, whole = (load_split(one, "states", training=False) for one in (noisy, SMOKE))
    assert test.sets.mask.equal(whole.sets.mask)
