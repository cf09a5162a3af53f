"""What the experiments on MNIST as sets of points are. Needs no torch."""

from dataclasses import dataclass, replace

from torchsets.lab.experiments.experiment import Experiment, Table, check_at_least, check_names

ROWS = {"fspool": "FSPool", "sum": "Sum", "mean": "Mean", "max": "Max"}  # of classifiers
STARTS = {"frozen": "Frozen", "unfrozen": "Unfrozen", "random": "Random init"}
AUTO_ENCODERS = {
    "fspool": "FSPool + FSUnpool",
    "sum-mlp": "Sum + MLP",
    "sum-lstm": "Sum + RNN",
    "max-mlp": "Max + MLP",
    "mean-mlp": "Mean + MLP",
    "max-lstm": "Max + RNN",  # this and the next are not in the thesis
    "mean-lstm": "Mean + RNN",
}
RECONSTRUCTION_TABLES = {False: "fspool/mnist1", True: "fspool/mnist1-masked"}  # by mask_feature
ACCURACY_TABLES = {0.05: "fspool/mnist", 0.0: "fspool/mnist2"}  # after 1 and 10 epochs, by sigma
LAST_TABLE = "fspool/mnist-100"  # after 100 epochs, both sigmas
_SIZES, _COUNTS = ("batch_size", "hidden", "latent"), ("epochs", "training_sets", "test_sets")


@dataclass(frozen=True)
class Reconstruct:
    """The defaults are the thesis' settings (section 5.6.2 and appendix A.3.2).

    Attributes:
        dataset: mnist, digits (8x8, embedded), or a folder with idx files named as MNIST's.
        models: Any of fspool, sum-mlp, sum-lstm, max-mlp, max-lstm, mean-mlp, mean-lstm.
        sigmas: Standard deviations of the noise on the input; the target has none.
        mask_feature: Whether each element has a third feature, 1, that must be predicted too.
        epochs: Passes over the training sets.
        training_sets: How many sets to train on. None: all.
        test_sets: How many sets to measure on. None: all.
        bucketed: Whether the sets of a batch have similar sizes: FSPool takes half as long.
        batch_size: Sets per step.
        learning_rate: Of Adam.
        hidden: Width of the layers.
        latent: Size of the latent vector.
        slots: Number of points that the baselines predict, and to which sets are padded.
        seed: Seed of the weights, the batches and the noise.
        device: auto, cpu or cuda.
    """

    dataset: str = "mnist"
    models: tuple[str, ...] = ("fspool", "sum-mlp", "sum-lstm", "max-mlp", "mean-mlp")
    sigmas: tuple[float, ...] = (0.0, 0.01, 0.02, 0.03, 0.04, 0.05)
    mask_feature: bool = False
    epochs: int = 10
    training_sets: int | None = None
    test_sets: int | None = None
    bucketed: bool = False
    batch_size: int = 16
    learning_rate: float = 1e-3
    hidden: int = 32
    latent: int = 16
    slots: int = 342
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        check_names("models", self.models, AUTO_ENCODERS)
        check_at_least(1, self, *_COUNTS, *_SIZES, "slots")
        _check_sigmas(self.sigmas)


@dataclass(frozen=True)
class Classify:
    """The defaults are the thesis' settings (section 5.6.3 and appendix A.3.2).

    Attributes:
        dataset: mnist, digits (8x8, embedded), or a folder with idx files named as MNIST's.
        poolings: Any of fspool, sum, mean, max.
        sigmas: Standard deviations of the noise on the points, in training and test.
        starts: Any of frozen, unfrozen (encoders of auto-encoders) and random.
        encoders: Run folder of mnist-reconstruct with trained encoders. Empty: trained here first.
        encoder_epochs: Epochs of the auto-encoders that are trained here.
        mask_feature: Whether each element has a third feature, 1: as the auto-encoders had.
        epochs: Passes over the training sets. Accuracy is measured after each.
        training_sets: How many sets to train on. None: all.
        test_sets: How many sets to measure on. None: all.
        bucketed: Whether the sets of a batch have similar sizes, which saves time.
        batch_size: Sets per step.
        learning_rate: Of Adam.
        hidden: Width of the layers of the encoder.
        latent: Size of the vector that it makes.
        classifier_hidden: Width of the classifier's hidden layer. The thesis does not state it;
            its 3820 parameters fit 16, but then sum pooling collapses in most of our seeds.
        seed: Seed of the weights, the batches and the noise.
        device: auto, cpu or cuda.
    """

    dataset: str = "mnist"
    poolings: tuple[str, ...] = ("fspool", "sum", "mean", "max")
    sigmas: tuple[float, ...] = (0.05, 0.0)
    starts: tuple[str, ...] = ("frozen", "unfrozen", "random")
    encoders: str = ""
    encoder_epochs: int = 10
    mask_feature: bool = False
    epochs: int = 100
    training_sets: int | None = None
    test_sets: int | None = None
    bucketed: bool = False
    batch_size: int = 16
    learning_rate: float = 1e-3
    hidden: int = 32
    latent: int = 16
    classifier_hidden: int = 32
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        check_names("poolings", self.poolings, ROWS)
        check_names("starts", self.starts, STARTS)
        check_at_least(1, self, *_COUNTS, *_SIZES, "encoder_epochs", "classifier_hidden")
        _check_sigmas(self.sigmas)


@dataclass(frozen=True)
class Sorts:
    """The FSPool classifier of mnist-classify, trained with the relaxed sort.

    Attributes:
        dataset: mnist, digits (8x8, embedded), or a folder with idx files named as MNIST's.
        temperature: Of the sort in training.
        final_temperature: What it falls to, geometrically. None: it stays.
        sigmas: Standard deviations of the noise on the points, in training and test.
        starts: Any of frozen, unfrozen (encoders of auto-encoders) and random.
        epochs: Passes over the training sets.
        training_sets: How many sets to train on. None: all.
        test_sets: How many sets to measure on. None: all.
        bucketed: Whether the sets of a batch have similar sizes, which saves time.
        seed: Seed of the weights, the batches and the noise.
        device: auto, cpu or cuda.
    """

    dataset: str = "mnist"
    temperature: float = 1.0
    final_temperature: float | None = None
    sigmas: tuple[float, ...] = (0.05, 0.0)
    starts: tuple[str, ...] = ("frozen", "random")
    epochs: int = 10
    training_sets: int | None = None
    test_sets: int | None = None
    bucketed: bool = False
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        check_names("starts", self.starts, STARTS)
        check_at_least(1, self, *_COUNTS)
        check_at_least(1e-6, self, "temperature", "final_temperature")  # below, 1 / it overflows
        _check_sigmas(self.sigmas)


@dataclass(frozen=True)
class Large:
    """FSPool with a larger encoder, without noise. The thesis does not state its setting.

    Attributes:
        dataset: mnist, digits (8x8, embedded), or a folder with idx files named as MNIST's.
        two_stages: Whether each element is told what was pooled, and all are pooled again.
        layers: Linear layers before the pooling. Two stages have two each.
        hidden: Width of the layers of the encoder and of the classifier.
        latent: Size of the vector between them.
        augment: Scale of small affine maps of the training sets, drawn anew each time.
        decay: Whether the learning rate decays linearly to 0.
        epochs: Passes over the training sets. Accuracy is measured after each.
        training_sets: How many sets to train on. None: all.
        seed: Seed of the weights, the batches and the affine maps.
        device: auto, cpu or cuda.
    """

    dataset: str = "mnist"
    two_stages: bool = False
    layers: int = 3
    hidden: int = 256
    latent: int = 64
    augment: float = 0.05
    decay: bool = True
    epochs: int = 10
    training_sets: int | None = None
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        check_at_least(1, self, "layers", "hidden", "latent", "epochs", "training_sets")
        check_at_least(0, self, "augment")


def split_reconstruct(table: str, config: Reconstruct) -> dict[str, Reconstruct]:
    """One model at one noise each."""
    config = replace(config, mask_feature=table == RECONSTRUCTION_TABLES[True])
    return {
        f"{model} sigma={sigma:.2f}": replace(config, models=(model,), sigmas=(sigma,))
        for model in config.models
        for sigma in config.sigmas
    }


def split_classify(table: str, config: Classify) -> dict[str, Classify]:
    """One pooling at one noise each; frozen and unfrozen share an auto-encoder."""
    if table == LAST_TABLE:  # at every scale
        config = replace(config, epochs=100)
    trained = tuple(start for start in config.starts if start != "random")
    random = tuple(set(config.starts) & {"random"})
    return {
        f"{pooling} sigma={sigma:.2f} {'+'.join(starts)}": replace(
            config, poolings=(pooling,), sigmas=(sigma,), starts=starts
        )
        for starts in (trained, random)
        for pooling in config.poolings
        for sigma in config.sigmas
        if starts and table in (LAST_TABLE, ACCURACY_TABLES.get(sigma))
    }


def _check_sigmas(sigmas: tuple[float, ...]) -> None:
    """Raise ``ValueError`` where two noises would have one name: names have two decimals."""
    if any(sigma < 0 for sigma in sigmas) or len({f"{one:.2f}" for one in sigmas}) < len(sigmas):
        shown = ", ".join(map(str, sigmas))
        raise ValueError(f"sigmas must be at least 0 and differ in two decimals, got {shown}")


_RUN = "torchsets.lab.experiments.mnist"
_FIXED = ("dataset", "training_sets", "test_sets", "bucketed", "learning_rate", *_SIZES)
_FIXED_CLASSES = (*_FIXED, "classifier_hidden", "mask_feature", "encoders", "encoder_epochs")
_WEEK = {"smoke": "1 min", "cpu": "15 min", "full": "a week"}
_100_EPOCHS = {"smoke": "5 min", "cpu": "3 h", "full": "a week"}
_WEEKS = {"smoke": "1 min", "cpu": "1 h", "full": "two weeks"}
_DAY = {"smoke": "5 s", "cpu": "3 min", "full": "a day"}
_DIGITS = {"dataset": "digits", "epochs": 1, "training_sets": 320}
_DEMO = {"dataset": "digits", "epochs": 20, "sigmas": (0.0,), "starts": ("random",)}
_PART = {"epochs": 2, "training_sets": 6000, "test_sets": 2000, "bucketed": True}
_MODELS, _ENDS = ("fspool", "sum-mlp", "sum-lstm"), (0.0, 0.05)

RECONSTRUCT = Experiment(
    "mnist-reconstruct",
    "denoise MNIST as point sets: FSPool + FSUnpool against MLP and LSTM decoders",
    config=Reconstruct,
    scales={
        "smoke": {**_DIGITS, "models": _MODELS, "sigmas": _ENDS, "test_sets": 32, "slots": 48},
        "cpu": {"models": _MODELS[:2], "sigmas": _ENDS, "epochs": 1, "bucketed": True},
        "full": {},
    },
    run=f"{_RUN}.reconstruct:run",
    split=split_reconstruct,
    data=("mnist",),
    tables=tuple(
        Table(key, takes=_WEEKS, seeds={"full": 6}, fixed=(*_FIXED, "epochs", "slots"))
        for key in RECONSTRUCTION_TABLES.values()  # mask_feature chooses between them
    ),
)

CLASSIFY = Experiment(
    "mnist-classify",
    "classify MNIST as point sets with FSPool, sum, mean and max pooling",
    config=Classify,
    scales={
        "smoke": {**_DIGITS, "poolings": ("fspool", "sum"), "encoder_epochs": 1, "test_sets": 100},
        "demo": {**_DEMO, "poolings": ("fspool", "sum")},
        "cpu": {"starts": ("random",), "epochs": 10},
        "full": {},
    },
    run=f"{_RUN}.classify:run",
    split=split_classify,
    data=("mnist",),
    tables=tuple(
        Table(key, takes=takes, seeds={"full": 6}, fixed=_FIXED_CLASSES)
        for takes, keys in ((_WEEK, ACCURACY_TABLES.values()), (_100_EPOCHS, [LAST_TABLE]))
        for key in keys
    ),
)

SORTS = Experiment(
    "mnist-sorts",
    "train FSPool with the relaxed sort: does the exact sort at test time lower the accuracy?",
    config=Sorts,
    scales={
        "smoke": {**_DIGITS, "starts": ("random",), "test_sets": 100},
        "cpu": {**_PART, "starts": ("random",), "sigmas": (0.0,), "final_temperature": 0.01},
        "full": {},
    },
    run=f"{_RUN}.sorts:run",
    data=("mnist",),
    tables=(Table("mnist/exact-sort", takes=_DAY, thesis=False),),
)

LARGE = Experiment(
    "mnist-large",
    "classify MNIST as point sets with a larger encoder before FSPool",
    config=Large,
    scales={"smoke": _DIGITS, "cpu": {}, "full": {"epochs": 100}},
    run=f"{_RUN}.large:run",
    data=("mnist",),
    tables=(Table("mnist/large", {"smoke": "10 s", "cpu": "25 min", "full": "4 h"}, thesis=False),),
)

EXPERIMENTS = (RECONSTRUCT, CLASSIFY, SORTS, LARGE)
