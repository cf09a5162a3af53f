"""Auto-encode sets of random points through one vector: which decoder for which set.

A set encoder squeezes n points of N(0, I_d) into a latent vector, and each decoder gets that vector
alone. Random points have no structure to exploit: what is measured is how well a decoder turns a
vector into a set. The error is that of the best matching, so a decoder may return the points in any
order, and all are trained to lower it for their last set; only the auto-encoder that gets the order
needs no matching.
"""

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import smooth_l1_loss

from torchsets.data import Minibatches
from torchsets.decoders import (
    DSPN,
    FSPoolAutoEncoder,
    LSTMDecoder,
    MLPDecoder,
    QueryDecoder,
    SlotAttention,
    TSPNDecoder,
)
from torchsets.encoders import DeepSets
from torchsets.lab.experiments.numbering.configs import (
    CELLS,
    DESCENTS,
    DIRECT,
    ORDERED,
    RandomSets,
)
from torchsets.lab.experiments.numbering.figures import Way, draw_ways
from torchsets.lab.records import Recorder
from torchsets.lab.training import Settings, linear_decay, pick_device, seed_everything, train
from torchsets.lab.typed import Json
from torchsets.losses import hungarian_loss
from torchsets.mlp import MLP
from torchsets.padded import SetPrediction
from torchsets.pooling import FSPool

TABLE, ORDER_TABLE, TIME_TABLE = "random-sets", "random-sets/order", "random-sets/seconds"
TRAINING_SEED, VALIDATION_SEED, START_SEED = 1_000_003, 2_000_003, 3_000_017
TOKENS = 8
_TEST_BATCH = 640
_FOLLOWED_SETS = 256  # whose errors the figure shows after each step

score = partial(hungarian_loss, element="huber", reduction="mean")
"""(prediction (*S, B, N, D), target (B, N, D)) to (*S, B): Huber of the best matching, mean."""


def run(config: RandomSets, recorder: Recorder) -> None:
    """Train every model on every kind of set, then measure and draw them."""
    _describe_tables(config, recorder)
    for cell in config.cells:
        shape = CELLS[cell]
        training = random_sets(config.training_sets, shape, seed=TRAINING_SEED + config.seed)
        validation = random_sets(config.validation_sets, shape, seed=VALIDATION_SEED + config.seed)
        ways: dict[str, Way] = {}
        for name, inner_steps, row in rows(config):
            model, seconds = _train(config, recorder, name, inner_steps, cell, training)
            error = 1000 * evaluate(model, validation)
            table = ORDER_TABLE if name in ORDERED else TABLE
            recorder.add_result(table, model=row, column=column(cell), value=error)
            recorder.add_result(TIME_TABLE, model=row, column=column(cell), value=seconds)
            ways[row] = follow(model, validation[:_FOLLOWED_SETS])
        draw_ways(recorder, column(cell), ways, validation[0])


def random_sets(count: int, shape: tuple[int, int], *, seed: int) -> Tensor:
    """Draw sets of n points of N(0, I_d), (count, n, d)."""
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(seed))


def rows(config: RandomSets) -> list[tuple[str, int, str]]:
    """The model, number of inner steps (0: it does not descend) and label of each row."""
    found = []
    for name in config.models:
        if name not in DESCENTS:
            found.append((name, 0, {**DIRECT, **ORDERED}[name]))
            continue
        gradient, momentum = DESCENTS[name]
        label = "DSPN" if gradient == "unrolled" else "iDSPN"
        label += f", momentum {momentum:g}" if momentum else ""
        choices = config.unrolled_steps if gradient == "unrolled" else config.implicit_steps
        found += [(name, steps, f"{label}, {steps} steps") for steps in choices]
    return found


def column(cell: str) -> str:
    """How the tables name a kind of set."""
    return "n={}, d={}".format(*CELLS[cell])


class VectorAutoEncoder(nn.Module):
    """A set encoder and a decoder that gets its vector alone.

    Args:
        config: Widths and so on.
        name: Of the decoder.
        inner_steps: Of a decoder that descends.
        shape: Number of elements and of features of a set.
    """

    def __init__(
        self, config: RandomSets, name: str, inner_steps: int, shape: tuple[int, int]
    ) -> None:
        super().__init__()
        self.encoder = set_encoder(config, shape)
        self.decoder = make_decoder(config, name, inner_steps, shape)

    def forward(self, sets: Tensor, generator: torch.Generator | None = None) -> SetPrediction:
        """Encode and decode sets (B, n, d); the generator draws random starts."""
        vector = self.encoder(sets)
        prediction: SetPrediction
        if isinstance(self.decoder, SlotAttention):
            prediction = self.decoder(as_tokens(vector), generator=generator)
        elif isinstance(self.decoder, QueryDecoder):
            prediction = self.decoder(as_tokens(vector))
        elif isinstance(self.decoder, TSPNDecoder):
            sizes = torch.full((len(sets),), sets.shape[1], device=sets.device)
            prediction = self.decoder(vector, sizes=sizes, generator=generator)
        else:
            prediction = self.decoder(vector)
        return prediction

    def loss(self, sets: Tensor) -> Tensor:
        return score(self(sets).elements, sets).mean()


class OrderedAutoEncoder(nn.Module):
    """FSPool and FSUnpool, which restores each set in its own order: no matching in training."""

    def __init__(self, config: RandomSets, shape: tuple[int, int]) -> None:
        super().__init__()
        self.auto_encoder = FSPoolAutoEncoder(
            shape[1],
            hidden=config.hidden,
            latent=config.latent,
            pieces=shape[0] - 1,
            temperature=None,
        )

    def forward(self, sets: Tensor, generator: torch.Generator | None = None) -> SetPrediction:
        """Restore sets (B, n, d); nothing is drawn."""
        elements = self.auto_encoder(sets)
        return SetPrediction(elements, elements.new_ones(elements.shape[:2]))

    def loss(self, sets: Tensor) -> Tensor:
        return smooth_l1_loss(self(sets).elements, sets)


def as_tokens(vector: Tensor) -> Tensor:
    """Cut vectors (B, L) into 8 tokens that say which they are, (B, 8, L / 8 + 8)."""
    parts = vector.view(len(vector), TOKENS, -1)
    places = torch.eye(TOKENS, dtype=vector.dtype, device=vector.device)
    return torch.cat([parts, places.expand(len(vector), -1, -1)], dim=-1)


def set_encoder(config: RandomSets, shape: tuple[int, int]) -> nn.Module:
    """Two layers on each element and an FSPool with one weight for each rank."""
    pool = FSPool(config.latent, pieces=shape[0] - 1)
    with torch.no_grad():
        pool.weight.mul_(shape[0] ** -0.5)
    return DeepSets(MLP(shape[1], config.hidden, config.latent), pool)


def make_decoder(
    config: RandomSets, name: str, inner_steps: int, shape: tuple[int, int]
) -> nn.Module:
    """Return an untrained decoder."""
    slots, features = shape
    sizes: dict[str, Json] = {"slots": slots, "features": features, "variable_size": False}
    latent, hidden, token = config.latent, config.hidden, config.latent // TOKENS + TOKENS
    heads: dict[str, Json] = {"layers": config.layers, "heads": 4, "norm_first": True}
    if name == "mlp":
        return MLPDecoder(latent, hidden, **sizes)
    if name == "lstm":
        return LSTMDecoder(latent, hidden, **sizes)
    if name == "slot":
        return SlotAttention(token, hidden, rounds=config.layers, **sizes)
    if name == "query":
        return QueryDecoder(token, hidden, **heads, **sizes)
    if name == "tspn":
        return TSPNDecoder(features, slots, inputs=latent, hidden=hidden, **heads)
    gradient, momentum = DESCENTS[name]
    decoder = DSPN(
        set_encoder(config, shape),  # another one than that of the input
        steps=inner_steps,
        step_size=config.inner_rate,
        momentum=momentum,
        representation_loss="squared",
        gradient=gradient,
        pull=config.pull,
        **sizes,
    )
    nn.init.normal_(decoder.initial_elements)
    return decoder


def build(
    config: RandomSets, name: str, inner_steps: int, shape: tuple[int, int]
) -> VectorAutoEncoder | OrderedAutoEncoder:
    """Return an untrained auto-encoder."""
    if name in ORDERED:
        return OrderedAutoEncoder(config, shape)
    return VectorAutoEncoder(config, name, inner_steps, shape)


def _train(
    config: RandomSets,
    recorder: Recorder,
    name: str,
    inner_steps: int,
    cell: str,
    training: Tensor,
) -> tuple[nn.Module, float]:
    """Return the trained model and how many seconds that took."""
    seed_everything(config.seed)
    model = build(config, name, inner_steps, CELLS[cell]).to(pick_device(config.device))
    learned = [weight for weight in model.parameters() if weight.requires_grad]
    batches = Minibatches(len(training), config.batch_size, seed=config.seed)
    decay = partial(linear_decay, start=config.decay_from)
    history = train(
        model,
        # Implicit gradients are small, because they lack the step size: a smaller eps than usual.
        torch.optim.Adam(learned, lr=config.learning_rate, eps=1e-12, fused=True),
        model.loss,
        lambda step, generator: training[batches(step)],
        recorder=recorder,
        task=f"{cell}/{name}" + f" {inner_steps}" * (inner_steps > 0),
        settings=Settings(
            config.steps, schedule=decay if config.decay_from < 1 else None, seed=config.seed
        ),
    )
    return model, history.seconds


@torch.no_grad()
def evaluate(model: nn.Module, sets: Tensor) -> float:
    """The mean score over sets (S, n, d)."""
    device = next(model.parameters()).device
    generator = torch.Generator().manual_seed(START_SEED)
    scores = []
    for chunk in torch.split(sets, _TEST_BATCH):
        there = chunk.to(device)
        scores.append(score(model(there, generator).elements, there).cpu())
    return torch.cat(scores).mean().item()


@torch.no_grad()
def follow(model: nn.Module, sets: Tensor) -> Way:
    """How a model predicts the first of the sets, and its errors over all, step by step."""
    device = next(model.parameters()).device
    prediction = model(sets.to(device), torch.Generator().manual_seed(START_SEED)).to("cpu")
    trajectory = prediction.trajectory
    steps = prediction.elements[None] if trajectory is None else trajectory.elements
    return Way(steps[:, 0], score(steps, sets).mean(dim=1))


def _describe_tables(config: RandomSets, recorder: Recorder) -> None:
    how = (
        f"of {config.validation_sets} sets of n points of N(0, I_d), after {config.steps} updates "
        f"of {config.batch_size} sets; width {config.hidden}, latent vector {config.latent}, "
        f"inner step size {config.inner_rate:g}"
    )
    recorder.add_table(
        TABLE,
        caption=f"Which decoder for which set: mean error (Huber of the best matching) {how}. "
        "Published: after 20000 updates of 128 sets; width and latent vector 512, inner step size "
        "1; read off the poster's bars",
        unit="thousandths",
        better="lower",
    )
    recorder.add_table(
        ORDER_TABLE,
        caption=f"Below the line, because it gets the order of the elements too: mean error {how}",
        unit="thousandths",
        better="lower",
    )
    recorder.add_table(
        TIME_TABLE,
        caption="Time to train, with one thread, whatever else the machine was doing",
        unit="s",
        better="lower",
    )
