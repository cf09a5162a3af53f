"""What the experiments on sets that are predicted from pictures are. Needs no torch."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from torchsets.lab.experiments.experiment import (
    Experiment,
    Table,
    check_at_least,
    check_names,
    check_some,
)
from torchsets.lab.typed import Json

DECODERS = {  # rows of the thesis' tables, and more
    "unrolled": "DSPN",
    "implicit": "Implicit DSPN",
    "lstm": "RNN baseline",
    "mlp": "MLP baseline",
    "tspn": "TSPN",
    "queries": "Queries",
    "slots": "Slot attention",
}
DESCENTS = ("unrolled", "implicit")
READERS = ("queries", "slots")  # of the map of features, not of one vector
SOURCES = {
    "flat": "flattened map",
    "fspool": "FSPool over the map",
    "attention": "attention over the map",
    "stages": "two stages",
    "stages-fspool": "two stages, FSPool over the map",
    "stages-attention": "two stages, attention over the map",
    "hybrid": "start from queries",
}
DESCENT_SOURCES = ("stages", "stages-fspool", "stages-attention", "hybrid")
POOLINGS = {"fspool": "FSPool", "sum": "Sum", "max": "Max"}
NETWORKS = (34, 18, 10)
OBJECTS = {"3-10": (3, 10), "3-6": (3, 6)}
PACE = {  # updates in the time of one of the MLP at the settings of cpu, where it is not about 1
    "implicit stages": 1.0,
    "unrolled stages": 1.0,
    "implicit hybrid": 0.9,
    "unrolled hybrid": 0.9,
    "implicit": 0.71,
    "unrolled": 0.56,
}


@dataclass(frozen=True)
class Pictures:
    """The defaults are the thesis' settings (section 6.5.2 and 6.5.3, appendix A.4).

    Attributes:
        dataset: clevr, or rendered: pictures of our own.
        objects: 3-10 or 3-6, the smallest and largest number of objects of a scene.
        size: Pixels along each side of a picture.
        models: Any of unrolled and implicit (DSPN), mlp, lstm, tspn, queries, slots.
        poolings: Any of fspool, sum, max: poolings of the set encoder. The unrolled DSPN is
            trained with each, the other models with the first alone.
        sources: Where the vector comes from, any of flat (the flattened map of features), fspool
            and attention (a set encoder over its positions), and for DSPN alone stages (the set
            half is trained first, then the picture network aims at the vectors of the true sets),
            stages-fspool and stages-attention (so too, not from the flattened map) and hybrid
            (queries give the start, and the picture network what to change in its vector).
            mlp, lstm and tspn then have the same network in one stage. queries and slots read the
            map itself.
        supervise: What the unrolled DSPN is trained for: all sets on the way, or the last.
        steps: Updates.
        equal_time: Whether the models get as many updates as take about the time of the MLP's on
            a CPU, or else the same number.
        set_steps: Updates of the set half alone before, for the sources stages, stages-fspool,
            stages-attention and hybrid.
        joint_from: For these, the share of the updates after which all is trained
            together; before, the picture network aims at vectors.
        batch_size: Pictures per update.
        learning_rate: Of Adam; slots has a fifth of it, and a warm-up.
        decay_from: Share of the updates after which the learning rate decays linearly to 0.
        gradient_clip: Largest norm of the gradient of a DSPN that is trained together with the
            picture network from the start: now and then it is huge. None: no limit.
        network: Layers of the ResNet: 34, 18 or 10.
        width: Channels of its first stage.
        set_encoder: Of the DSPN: relation (all pairs, as the thesis) or elements.
        hidden: Width of the set encoder's hidden layer.
        latent: Size of the vector.
        decoder_hidden: Width of lstm and mlp; tspn, queries and slots have a quarter.
        layers: Of tspn and queries.
        rounds: Of slots.
        inner_steps: Gradient steps on a set in training.
        half_steps: Whether the implicit DSPN takes half of them in the first half of the updates.
        test_steps: Numbers of such steps to test with.
        adaptive_steps: Numbers of steps of Barzilai and Borwein to test with, besides.
        momentum: Of the steps, for the implicit DSPN; unrolled has none.
        clip: Largest norm of a set's gradient in a step, for the implicit DSPN. None: no
            limit. iDSPN has 10, half_steps, 40 inner steps and a momentum of 0.9.
        step_size: Of these steps. None: measured before training, see find_step_size.
        representation: Weight of the representation loss.
        standardise: Whether that loss is divided by the variance of the vectors.
        box_scale: Boxes are learned as this many times their shares of the picture's sides. Of
            shares, differences are so small that presence outweighs them.
        box_centre: The share that they are counted from. With 0.5 they lie around 0, where a DSPN
            starts.
        training_scenes: Scenes to train on. None: all there are.
        missing: Share of the objects that the training does not know of, as with noisy labels.
        test_scenes: Scenes to measure on. None: all there are.
        real_pictures: Whether to measure on the real pictures on disk, too, at the same size.
        seed: Seed of the weights, the rendered scenes, the batches and the starts.
        device: auto, cpu or cuda.
    """

    dataset: str = "clevr"
    objects: str = "3-10"
    size: int = 128
    models: tuple[str, ...] = ("unrolled", "mlp", "lstm")
    poolings: tuple[str, ...] = ("fspool", "sum", "max")
    sources: tuple[str, ...] = ("flat",)
    supervise: str = "all"
    steps: int = 218_700
    equal_time: bool = False
    set_steps: int = 10_000
    joint_from: float = 0.85
    batch_size: int = 32
    learning_rate: float = 3e-4
    decay_from: float = 1.0
    gradient_clip: float | None = None
    network: int = 34
    width: int = 64
    set_encoder: str = "relation"
    hidden: int = 512
    latent: int = 512
    decoder_hidden: int = 512
    layers: int = 2
    rounds: int = 3
    inner_steps: int = 10
    half_steps: bool = False
    test_steps: tuple[int, ...] = (10, 20, 30)
    adaptive_steps: tuple[int, ...] = ()
    momentum: float = 0.5
    clip: float | None = None
    step_size: float | None = 25.0
    representation: float = 0.1
    standardise: bool = False
    box_scale: float = 1.0
    box_centre: float = 0.0
    training_scenes: int | None = None
    missing: float = 0.0
    test_scenes: int | None = None
    real_pictures: bool = False
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        check_names("dataset", (self.dataset,), ("clevr", "rendered"))
        check_names("objects", (self.objects,), OBJECTS)
        check_some(self, "models", "poolings", "sources")
        check_names("models", self.models, DECODERS)
        check_names("poolings", self.poolings, POOLINGS)
        check_names("sources", self.sources, SOURCES)
        check_names("supervise", (self.supervise,), ("last", "all"))
        check_names("set_encoder", (self.set_encoder,), ("relation", "elements"))
        if self.network not in NETWORKS:
            raise ValueError(f"network must be 34, 18 or 10, got {self.network}")
        check_at_least(1, self, "steps", "set_steps", "batch_size", "width", "hidden", "latent")
        check_at_least(1, self, "decoder_hidden", "layers", "rounds", "inner_steps", "test_steps")
        check_at_least(1, self, "training_scenes", "test_scenes")
        check_at_least(32, self, "size")
        check_at_least(0, self, "representation", "decay_from", "joint_from", "missing", "clip")
        check_at_least(0, self, "gradient_clip")
        for name in ("missing", "joint_from", "decay_from"):
            if getattr(self, name) > 1:
                raise ValueError(f"{name} must be at most 1, got {getattr(self, name):g}")
        if not self.box_scale > 0:
            raise ValueError(f"box_scale must be above 0, got {self.box_scale}")
        if self.dataset == "rendered" and None in (self.training_scenes, self.test_scenes):
            raise ValueError("training_scenes and test_scenes must be numbers for rendered scenes")


def poolings_of(model: str, config: Pictures) -> tuple[str, ...]:
    """The poolings that a model is trained with."""
    return config.poolings if model == "unrolled" else config.poolings[:1]


def sources_of(model: str, config: Pictures) -> tuple[str, ...]:
    """Where the vectors come from that a model is trained with."""
    if model in READERS:
        return ("map",)
    if model in DESCENTS:
        return config.sources
    known = [_without_stages(source) for source in config.sources if source != "hybrid"]
    return tuple(dict.fromkeys(known)) or ("flat",)


def _without_stages(source: str) -> str:
    """The same network from pictures to vectors, trained in one stage."""
    return "flat" if source == "stages" else source.removeprefix("stages-")


def updates_of(model: str, source: str, config: Pictures) -> int:
    """How many updates a model gets."""
    kind = source.split("-")[0]
    pace = PACE.get(f"{model} {kind}", PACE.get(model, 1.0))
    return max(1, round(config.steps * pace)) if config.equal_time else config.steps


def _leading_to(source: str, config: Pictures) -> tuple[str, ...]:
    """The one of the sources that a model's own comes from."""
    same = [one for one in config.sources if source in (one, _without_stages(one))]
    return (source,) if source in same else tuple(same[:1]) or config.sources[:1]


def split_pictures(table: str, config: Pictures) -> dict[str, Pictures]:
    """One model each; the thesis' ablation alone has other poolings than the first."""
    if table in THESIS:
        config = replace(config, supervise=THESIS[table])
    if table.endswith("-fspool"):
        config = replace(config, models=("unrolled",))
    else:
        config = replace(config, poolings=config.poolings[:1])
    return {
        " ".join([model, source, pooling][: 3 if model == "unrolled" else 2]): replace(
            config,
            models=(model,),
            sources=_leading_to(source, config),
            poolings=(pooling,),
        )
        for model in DECODERS
        if model in config.models
        for source in sources_of(model, config)
        for pooling in poolings_of(model, config)
    }


THESIS = {
    "dspn/box": "last",
    "dspn/box-fixed1": "last",
    "dspn/box-fixed2": "all",
    "dspn/box-fspool": "last",
    "dspn/state": "last",
    "dspn/state-fixed": "all",
    "dspn/state-fspool": "last",
}
"""The tables of the thesis that are filled, and what their DSPN is trained for."""

_AXES = ("models", "poolings", "supervise", "test_steps", "adaptive_steps", "real_pictures")
_FIXED = tuple(
    name for name in Pictures.__dataclass_fields__ if name not in (*_AXES, "seed", "device")
)
# In our own tables rendered pictures are no variant, and the rows say what the source is.
_OURS = (*(name for name in _FIXED if name not in ("dataset", "sources")), "supervise")

_SCALES: Mapping[str, Mapping[str, Json]] = {
    "smoke": {
        "dataset": "rendered",
        "objects": "3-6",
        "size": 32,
        "models": ("implicit", "unrolled", "mlp", "lstm", "tspn", "queries", "slots"),
        "poolings": ("fspool", "sum"),
        "steps": 2,
        "set_steps": 2,
        "batch_size": 4,
        "learning_rate": 1e-3,
        "network": 10,
        "width": 4,
        "set_encoder": "elements",
        "hidden": 16,
        "latent": 32,
        "decoder_hidden": 32,
        "inner_steps": 2,
        "test_steps": (2, 3),
        "step_size": None,
        "representation": 1.0,
        "standardise": True,
        "training_scenes": 16,
        "test_scenes": 8,
    },
    "cpu": {
        "dataset": "rendered",
        "objects": "3-6",
        "size": 64,
        "models": ("implicit", "unrolled", "mlp", "queries"),
        "sources": ("stages-fspool",),
        "steps": 20_000,
        "set_steps": 2000,
        "equal_time": True,
        "learning_rate": 1.5e-3,
        "decay_from": 0.5,
        "gradient_clip": 0.2,
        "network": 10,
        "width": 24,
        "set_encoder": "elements",
        "hidden": 128,
        "latent": 256,
        "decoder_hidden": 256,
        "inner_steps": 15,
        "test_steps": (15, 30, 60),
        "adaptive_steps": (15, 30),
        "step_size": None,
        "standardise": True,
        "training_scenes": 50_000,
        "test_scenes": 2000,
        "real_pictures": True,
    },
    "full": {},
}
_BOX_SCALES = {**_SCALES, "cpu": {**_SCALES["cpu"], "box_scale": 8.0, "box_centre": 0.5}}


def _tables(*keys: str) -> tuple[Table, ...]:
    return tuple(
        Table(
            key,
            takes={"smoke": "30 s", "cpu": "80 min", "full": "weeks"},
            seeds={"full": 6} if key in THESIS else {},
            fixed=_FIXED if key in THESIS else _OURS,
            thesis=key != "dspn-boxes",
        )
        for key in keys
    )


IMAGES = Experiment(
    "dspn-images",
    "predict the states of objects from pictures: DSPN against MLP, LSTM, queries and slots",
    config=Pictures,
    scales=_SCALES,
    run="torchsets.lab.experiments.pictures.predict:run_states",
    split=split_pictures,
    tables=_tables("dspn/state", "dspn/state-fixed", "dspn/state-fspool", "dspn-images"),
)
BOXES = Experiment(
    "dspn-boxes",
    "predict the boxes of objects from pictures: DSPN against MLP, LSTM, queries and slots",
    config=Pictures,
    scales=_BOX_SCALES,
    run="torchsets.lab.experiments.pictures.predict:run_boxes",
    split=split_pictures,
    tables=_tables(
        "dspn/box", "dspn/box-fixed1", "dspn/box-fixed2", "dspn/box-fspool", "dspn-boxes"
    ),
)

EXPERIMENTS = (IMAGES, BOXES)
