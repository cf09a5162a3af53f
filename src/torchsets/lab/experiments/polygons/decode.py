"""Predict the corners of a polygon from its angle: DSPN against decoders that predict lists.

The input (cos n*angle, sin n*angle) goes once around a circle while the polygon turns onto itself.
An MLP that follows the corners must end with its outputs at other corners than it began with, so
it has to jump. A DSPN descends anew for every angle. In the second task the input is the polygon
itself, squeezed through a permutation-invariant vector: nothing passes by that vector.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from torchsets.data import turned_polygons
from torchsets.decoders import DSPN, LSTMDecoder, MLPDecoder, find_step_size
from torchsets.encoders import DeepSets
from torchsets.lab.experiments.polygons.figures import draw_descent, draw_errors, draw_steps
from torchsets.losses import SetPredictionLoss, hungarian_loss
from torchsets.matching import assign
from torchsets.mlp import MLP, glorot_
from torchsets.padded import SetPrediction
from torchsets.pooling import FSPool
from torchsets.lab.records import Recorder
from torchsets.lab.training import Settings, linear_decay, pick_device, seed_everything, train

ROWS = {
    "implicit": "DSPN, implicit",
    "unrolled": "DSPN, unrolled",
    "mlp": "MLP",
    "lstm": "LSTM",
}
TEST_SEED = 10_007
TASKS = {"predict": "from the angle", "auto-encode": "from the polygon"}


@dataclass(frozen=True)
class Config:
    """Polygons with all models trained alike: the same batches, loss, optimiser and updates.

    Attributes:
        sizes: Numbers of corners.
        models: Any of implicit, unrolled, mlp, lstm.
        tasks: Any of predict, auto-encode.
        steps: Updates of each model.
        batch_size: Polygons per update.
        learning_rate: Of Adam; it falls linearly to 0.
        hidden: Width of the layers.
        latent: Size of the vector that is decoded.
        inner_steps: Steps of gradient descent on the set in training, from a random start.
        test_steps: The same in the test.
        test_starts: How often at most to start in the test; see ``PolygonModel.predict``.
        momentum: Of these steps.
        angles: Angles of the test, evenly spaced until the polygon is the first one again.
        seed: Seed of the weights, of the start of the descent and of the angles.
        device: auto, cpu or cuda.
    """

    sizes: tuple[int, ...] = (4, 8, 16)
    models: tuple[str, ...] = ("implicit", "unrolled", "mlp", "lstm")
    tasks: tuple[str, ...] = ("predict", "auto-encode")
    steps: int = 2000
    batch_size: int = 32
    learning_rate: float = 1e-3
    hidden: int = 64
    latent: int = 256
    inner_steps: int = 10
    test_steps: int = 40
    test_starts: int = 5
    momentum: float = 0.5
    angles: int = 4001
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        for name, known in (("models", ROWS), ("tasks", TASKS)):
            unknown = set(getattr(self, name)) - set(known)
            if unknown:
                raise ValueError(
                    f"{name} must be among {', '.join(known)}, got {', '.join(unknown)}"
                )


SCALES: dict[str, dict[str, Any]] = {
    "smoke": {
        "sizes": (4,),
        "steps": 10,
        "angles": 41,
        "latent": 32,
        "test_steps": 10,
        "test_starts": 2,
    },
    "cpu": {"steps": 1500},
    "full": {"sizes": (4, 8, 16, 32), "steps": 10_000},
}


class Outcome(NamedTuple):
    """What a trained model makes of the turning polygon.

    Attributes:
        angles: The angles of the test, (A,).
        errors: The distance of each predicted corner from the true one, (A, N).
        prediction: The prediction for one angle, with all its steps.
        polygon: The polygon at that angle, (N, 2).
    """

    angles: Tensor
    errors: Tensor
    prediction: SetPrediction
    polygon: Tensor


class PolygonModel(nn.Module):
    """A network to a vector, and a decoder from the vector to a set."""

    def __init__(self, config: Config, name: str, task: str, size: int) -> None:
        super().__init__()
        self.task, self.size = task, size
        self.decoder = _decoder(config, name, size)
        self.network: nn.Module | None = None  # a DSPN encodes polygons with its own encoder
        if task == "predict":
            self.network = glorot_(MLP(2, config.hidden, config.latent, layers=3))
        elif not isinstance(self.decoder, DSPN):
            self.network = _set_encoder(config)
        self.criterion = SetPredictionLoss(
            partial(hungarian_loss, element="huber", reduction="mean"),
            presence=False,
            supervise="last",
        )

    def vector(self, angles: Tensor) -> Tensor:
        """What is decoded, (B, L)."""
        if self.task == "predict":
            turns = self.size * angles
            inputs = torch.stack([turns.cos(), turns.sin()], dim=-1)
        else:
            inputs = turned_polygons(angles, self.size)
        encode = self.decoder.encode if self.network is None else self.network
        vector: Tensor = encode(inputs)  # type: ignore[operator]
        return vector

    def loss(self, batch: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        """The Hungarian loss, and for a DSPN from the angle also how the polygon is encoded."""
        angles, starts = batch
        polygons = turned_polygons(angles, self.size)
        vector = self.vector(angles)
        if not isinstance(self.decoder, DSPN):
            return {"set loss": self.criterion(self.decoder(vector), polygons).mean()}
        prediction = self.decoder(vector, initial=starts)
        terms = {"set loss": self.criterion(prediction, polygons).mean()}
        if self.task == "predict":
            representation = self.decoder.representation_loss(vector, polygons).mean()
            terms["representation loss"] = self.criterion.weight * representation
        return terms

    def predict(self, angles: Tensor, *, starts: Tensor, steps: int) -> SetPrediction:
        """Predict the polygons; a DSPN tries again where it is not content.

        It starts at ``starts[0]``. Sets whose representation loss ends above twice the median start
        again, at each further of the starts (S, N, 2), and keep the result of the lowest loss. The
        true polygons are not asked.
        """
        vector = self.vector(angles)
        if not isinstance(self.decoder, DSPN):
            prediction: SetPrediction = self.decoder(vector)
            return prediction
        best = self.decoder(vector, initial=starts[:1], steps=steps).elements
        loss = self.decoder.representation_loss(vector, best)
        again = (loss > 2 * loss.median()).nonzero().squeeze(1)
        for start in starts[1:]:
            tried = self.decoder(vector[again], initial=start[None], steps=steps).elements
            tried_loss = self.decoder.representation_loss(vector[again], tried)
            better = tried_loss < loss[again]
            best[again[better]], loss[again[better]] = tried[better], tried_loss[better]
        return SetPrediction(best, best.new_ones(best.shape[:2]))


def run(config: Config, recorder: Recorder) -> None:
    """Train every model for every task and size, then measure and draw them."""
    for task in config.tasks:
        _add_tables(config, recorder, task)
        outcomes: dict[tuple[str, int], Outcome] = {}
        for size in config.sizes:
            for name in config.models:
                model = _train(config, recorder, name, task, size)
                outcomes[ROWS[name], size] = outcome = _test(config, model)
                column = f"n={size}"
                for table, value in (
                    ("worst", outcome.errors.max()),
                    ("mean", outcome.errors.mean()),
                ):
                    recorder.add_result(
                        f"dspn-polygons/{task}-{table}",
                        model=ROWS[name],
                        column=column,
                        value=value.item(),
                    )
        draw_errors(recorder, task, TASKS[task], outcomes)
        draw_steps(recorder, task, TASKS[task], outcomes)
        draw_descent(recorder, task, TASKS[task], outcomes)


def pieces(table: str, config: Config) -> list[Config]:
    """One size of one task with all its models each."""
    del table
    return [
        replace(config, sizes=(size,), tasks=(task,))
        for size in sorted(config.sizes, reverse=True)
        for task in config.tasks
    ]


def corner_errors(predicted: Tensor, polygons: Tensor) -> Tensor:
    """The distance of each predicted corner from the true one in the best matching, (B, N)."""
    distances = torch.cdist(
        predicted, polygons, compute_mode="donot_use_mm_for_euclid_dist"
    )  # (B, N, N)
    return distances.gather(2, assign(distances).unsqueeze(-1)).squeeze(-1)


def _decoder(config: Config, name: str, size: int) -> nn.Module:
    shape: dict[str, Any] = {"slots": size, "features": 2, "variable_size": False}
    if name == "mlp":
        return MLPDecoder(config.latent, config.hidden, **shape)
    if name == "lstm":
        return LSTMDecoder(config.latent, config.hidden, **shape)
    decoder = DSPN(
        _set_encoder(config),
        steps=config.inner_steps,
        momentum=config.momentum,
        representation_loss="squared",
        gradient=name,
        **shape,
    )
    nn.init.normal_(decoder.initial_elements)  # as all starts
    angles = torch.linspace(0, 2 * math.pi / size, 257)[:-1]
    with torch.no_grad():
        vectors = decoder.encode(turned_polygons(angles, size))
    decoder.step_size = find_step_size(decoder, vectors)
    return decoder


def _set_encoder(config: Config) -> nn.Module:
    """Many more features than coordinates: then the descent is well conditioned."""
    return DeepSets(glorot_(MLP(2, config.hidden, config.latent)), FSPool(config.latent))


def _train(config: Config, recorder: Recorder, name: str, task: str, size: int) -> PolygonModel:
    seed_everything(config.seed)
    model = PolygonModel(config, name, task, size).to(pick_device(config.device))
    learned = [weight for weight in model.parameters() if weight.requires_grad]
    train(
        model,
        # Implicit gradients are small, because they lack the step size: a smaller eps than usual.
        torch.optim.Adam(learned, lr=config.learning_rate, eps=1e-12, fused=True),
        model.loss,
        partial(_draw, config.batch_size, size),
        recorder=recorder,
        task=f"{task} n={size}/{name}",
        settings=Settings(
            config.steps, schedule=partial(linear_decay, start=0.3), seed=config.seed
        ),
    )
    return model


def _draw(count: int, size: int, step: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Angles, and starts for the descent."""
    angles = 2 * math.pi * torch.rand(count, generator=generator)
    return angles, torch.randn(count, size, 2, generator=generator)


@torch.no_grad()
def _test(config: Config, model: PolygonModel) -> Outcome:
    device = next(model.parameters()).device
    generator = torch.Generator().manual_seed(TEST_SEED + config.seed)
    starts = torch.randn(config.test_starts, model.size, 2, generator=generator).to(device)
    angles = torch.linspace(0, 2 * math.pi / model.size, config.angles)
    predicted = model.predict(angles.to(device), starts=starts, steps=config.test_steps)
    errors = corner_errors(predicted.elements.cpu(), turned_polygons(angles, model.size))
    shown = angles[len(angles) // 3 :][:1]
    options = {"initial": starts[:1], "steps": config.test_steps}
    one = model.decoder(
        model.vector(shown.to(device)), **(options if isinstance(model.decoder, DSPN) else {})
    )
    return Outcome(angles, errors, one, turned_polygons(shown, model.size)[0])


def _add_tables(config: Config, recorder: Recorder, task: str) -> None:
    how = f"of a predicted corner from the polygon, over {config.angles} angles, {TASKS[task]}"
    recorder.add_table(
        f"dspn-polygons/{task}-worst",
        caption=f"Largest distance {how}",
        unit="radii",
        better="lower",
    )
    recorder.add_table(
        f"dspn-polygons/{task}-mean", caption=f"Mean distance {how}", unit="radii", better="lower"
    )
