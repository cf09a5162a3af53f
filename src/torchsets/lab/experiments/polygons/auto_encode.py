"""Auto-encode rotating regular polygons: the responsibility problem, and FSPool without it.

An MLP decoder must decide which of its outputs produces which corner. Turn a square by 90 degrees
and it is the same set, so somewhere on the way all outputs must jump to the next corner. FSUnpool
puts the corners back into the order they came in, and nothing has to jump.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from torchsets.data import random_polygons, turned_polygons
from torchsets.decoders import FSPoolAutoEncoder
from torchsets.encoders import DeepSets
from torchsets.lab.experiments.polygons.frames import draw_turning
from torchsets.lab.experiments.poolings import POOLINGS
from torchsets.losses import chamfer_loss, hungarian_loss
from torchsets.mlp import MLP, glorot_
from torchsets.lab.records import Recorder
from torchsets.lab.training import Settings, pick_device, seed_everything, train

ROWS = {  # the name of each model in the thesis' tables, or ours where the thesis has no row
    "fspool": "FSPool",
    "mlp-chamfer": "MLP + Chamfer",
    "mlp-hungarian": "MLP + Hungarian",
    "random": "Random",
}
CONTROLS = {"fspool-zeroed": "FSPool, latent zeroed", "fspool-constant": "FSPool, latent constant"}
METRICS = ("direct", "chamfer", "hungarian")
TEST_SEED, RANDOM_SEED = 10_007, 20_011
ANGLES = 900  # steps in which a polygon turns onto itself; a tenth of a degree for a square

Reconstruct = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Config:
    """The defaults are the thesis' settings (lines 5537-5545).

    Attributes:
        sizes: Numbers of corners.
        models: Any of fspool, mlp-chamfer, mlp-hungarian, random.
        zeroed_sizes: Numbers of corners for two controls: FSPool with its latent vector set to 0,
            as in the thesis, and set to 1. At 0 and with zero biases every ReLU of the decoder is
            at its kink and almost nothing gets a gradient; at 1 it can learn all but the latent.
        enlarged_sizes: Numbers of corners for the enlarged baselines: MLP decoders with large
            layers after FSPool, sum, mean and max encoders, with both losses.
        enlarged_hidden: Width and latent size of the enlarged baselines.
        steps: Optimiser steps of each model.
        batch_size: Polygons per step.
        learning_rate: Of Adam.
        hidden: Width of the layers.
        latent: Size of the latent vector: one number can hold the rotation.
        test_sets: Polygons that the models are measured on.
        seed: Seed of the weights and of the polygons.
        device: auto, cpu or cuda.
    """

    sizes: tuple[int, ...] = (2, 4, 8, 16, 32, 64, 128)
    models: tuple[str, ...] = ("fspool", "mlp-chamfer", "mlp-hungarian", "random")
    zeroed_sizes: tuple[int, ...] = (4,)
    enlarged_sizes: tuple[int, ...] = (16,)
    enlarged_hidden: int = 128
    steps: int = 10240
    batch_size: int = 16
    learning_rate: float = 1e-3
    hidden: int = 16
    latent: int = 1
    test_sets: int = 1024
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        unknown = set(self.models) - set(ROWS)
        if unknown:
            raise ValueError(f"models must be among {', '.join(ROWS)}, got {', '.join(unknown)}")


SCALES: dict[str, dict[str, Any]] = {
    "smoke": {"sizes": (4,), "enlarged_sizes": (), "steps": 50, "test_sets": 64},
    "cpu": {"sizes": (2, 4, 8, 16, 32)},
    "full": {},
}


def run(config: Config, recorder: Recorder) -> None:
    """Train every model at every size, then measure and draw them."""
    trained: dict[tuple[str, int], Reconstruct] = {}
    for size in config.sizes:
        for name in config.models:
            if name == "random":
                trained[name, size] = _random_polygons_like
            else:
                trained[name, size] = _train(config, recorder, name, size)
            _measure(config, recorder, ROWS[name], size, trained[name, size])
    for size in config.zeroed_sizes:
        for name, row in CONTROLS.items():
            _measure(config, recorder, row, size, _train(config, recorder, name, size))
    for size in config.enlarged_sizes:
        for loss in ("chamfer", "hungarian"):
            for pooling in POOLINGS:
                reconstruct = _train(config, recorder, f"mlp-{loss}-{pooling}-large", size)
                row = f"MLP {config.enlarged_hidden}, {pooling} encoder + {loss.title()}"
                _measure(config, recorder, row, size, reconstruct)
    if trained:
        _draw_reconstructions(recorder, trained)
        _draw_responsibility(recorder, trained)


def pieces(table: str, config: Config) -> list[Config]:
    """One size with all its models each, so that figures still compare them; no controls."""
    del table  # one run fills all three
    return [
        replace(config, sizes=(size,), zeroed_sizes=(), enlarged_sizes=())
        for size in sorted(config.sizes, reverse=True)
    ]


class MLPAutoEncoder(nn.Module):
    """The baseline: a set encoder, and an MLP whose outputs are the coordinates of all points."""

    def __init__(self, size: int, *, pooling: str, hidden: int, latent: int) -> None:
        super().__init__()
        self.size = size
        self.encoder = DeepSets(
            MLP(2, hidden, hidden), POOLINGS[pooling](hidden), MLP(hidden, hidden, latent)
        )
        self.decoder = MLP(latent, hidden, size * 2)

    def forward(self, elements: Tensor) -> Tensor:
        points: Tensor = self.decoder(self.encoder(elements))
        return points.view(-1, self.size, 2)


class FixedLatent(nn.Module):
    """A control: nothing passes through the latent vector, only the order of the elements."""

    def __init__(self, auto_encoder: FSPoolAutoEncoder, value: float) -> None:
        super().__init__()
        self.auto_encoder = auto_encoder
        self.value = value

    def forward(self, elements: Tensor) -> Tensor:
        latent, order = self.auto_encoder.encode(elements)
        return self.auto_encoder.decode(torch.full_like(latent, self.value), order)


def build_model(config: Config, name: str, size: int) -> nn.Module:
    """Return an untrained model with Glorot's initial weights."""
    model: nn.Module
    if name == "fspool":
        model = FSPoolAutoEncoder(2, hidden=config.hidden, latent=config.latent)
    elif name in CONTROLS:
        inner = FSPoolAutoEncoder(2, hidden=config.hidden, latent=config.latent)
        model = FixedLatent(inner, 0.0 if name == "fspool-zeroed" else 1.0)
    elif name.endswith("-large"):
        large = config.enlarged_hidden
        model = MLPAutoEncoder(size, pooling=name.split("-")[2], hidden=large, latent=large)
    else:
        model = MLPAutoEncoder(size, pooling="fspool", hidden=config.hidden, latent=config.latent)
    return glorot_(model)


def metric(name: str, prediction: Tensor, target: Tensor) -> Tensor:
    """One loss per set, (B,): squared, the mean over points and coordinates."""
    if name == "direct":
        return (prediction - target).square().mean(dim=(1, 2))
    if name == "chamfer":
        return chamfer_loss(prediction, target, reduction="mean")
    return hungarian_loss(prediction, target, reduction="mean")


def _train(config: Config, recorder: Recorder, name: str, size: int) -> Reconstruct:
    seed_everything(config.seed)
    model = build_model(config, name, size).to(pick_device(config.device))
    loss_name = "direct" if name.startswith("fspool") else name.split("-")[1]
    train(
        model,
        torch.optim.Adam(model.parameters(), lr=config.learning_rate, fused=True),
        lambda polygons: metric(loss_name, model(polygons), polygons).mean(),
        lambda step, generator: random_polygons(config.batch_size, size, generator=generator),
        recorder=recorder,
        task=f"n={size}/{name}",
        settings=Settings(config.steps, seed=config.seed),
    )
    return partial(_reconstruct, model)


@torch.no_grad()
def _reconstruct(model: nn.Module, polygons: Tensor) -> Tensor:
    """Apply the model in pieces: the relaxed sort needs 16 N^2 numbers for each set."""
    device = next(model.parameters()).device
    return torch.cat([model(piece.to(device)).cpu() for piece in torch.split(polygons, 64)])


def _random_polygons_like(polygons: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(RANDOM_SEED)
    return random_polygons(*polygons.shape[:2], generator=generator)


def _measure(
    config: Config, recorder: Recorder, row: str, size: int, reconstruct: Reconstruct
) -> None:
    generator = torch.Generator().manual_seed(TEST_SEED + config.seed)
    polygons = random_polygons(config.test_sets, size, generator=generator)
    predicted = reconstruct(polygons)
    for name in METRICS:
        hundredths = 100 * metric(name, predicted, polygons).mean().item()
        table = f"fspool/polygons-{name}"
        recorder.add_result(table, model=row, column=f"n={size}", value=hundredths)


def _draw_reconstructions(recorder: Recorder, trained: dict[tuple[str, int], Reconstruct]) -> None:
    """One polygon of each size, and what each model makes of it."""
    panels = []
    for (name, size), reconstruct in trained.items():
        polygon = turned_polygons(torch.tensor([0.4]), size)
        panels.append(
            {
                "title": f"{ROWS[name]}, n={size}",
                "points": reconstruct(polygon)[0].tolist(),
                "target": polygon[0].tolist(),
            }
        )
    recorder.add_figure(
        "reconstructions",
        kind="points",
        title="Polygons and their reconstructions",
        caption="Rings: the corners of the polygon. Dots: what the model returns for it. Not "
        "chosen: the polygon is turned by 0.4 radians in every panel.",
        alt="Grid of scatter plots, one row for each number of corners and one column for each "
        "model; FSPool's dots lie inside the rings.",
        data={"panels": panels, "columns": len({name for name, _ in trained}), "limit": 1.25},
    )


def _draw_responsibility(recorder: Recorder, trained: dict[tuple[str, int], Reconstruct]) -> None:
    """Turn each polygon onto itself and follow every output of every decoder."""
    recorder.add_table(
        "polygons/jumps",
        caption="Largest move of one output while the polygon turns onto itself in "
        f"{ANGLES} equal steps, as a multiple of the move of a corner (1 is perfect, far below "
        "1 ignores the rotation)",
        unit="times",
    )
    turning: dict[str, Tensor] = {}
    for (name, size), reconstruct in trained.items():
        if name == "random":
            continue
        polygons = turned_polygons(torch.linspace(0, 2 * math.pi / size, ANGLES + 1), size)
        outputs = reconstruct(polygons)
        moves = [(path[1:] - path[:-1]).norm(dim=-1).max() for path in (outputs, polygons)]
        value = (moves[0] / moves[1]).item()
        recorder.add_result("polygons/jumps", model=ROWS[name], column=f"n={size}", value=value)
        if size == 4:
            turning[name] = outputs
    if turning:
        _draw_paths(recorder, turning)
        _draw_turning_square(recorder, turning)
        draw_turning(recorder, {ROWS[name]: outputs for name, outputs in turning.items()})


def _draw_paths(recorder: Recorder, turning: dict[str, Tensor]) -> None:
    shown = range(0, ANGLES + 1, 3)  # more cannot be seen
    degrees = [round(90 * step / ANGLES, 2) for step in shown]
    panels = [
        {
            "title": f"{ROWS[name]}: {axis} of each output",
            "x_label": "rotation of the square in degrees",
            "y_range": [-1.3, 1.3],
            "lines": [
                {
                    "label": f"output {slot + 1}",
                    "x": degrees,
                    "y": [round(value, 4) for value in outputs[shown, slot, index].tolist()],
                }
                for slot in range(4)
            ],
        }
        for name, outputs in turning.items()
        for index, axis in enumerate("xy")
    ]
    recorder.add_figure(
        "responsibility-paths",
        kind="lines",
        title="The responsibility problem: a square turns by 90 degrees",
        caption="After 90 degrees the square is the same set as at 0. An MLP decoder must then "
        "return the same list too, so on the way its outputs have to jump from corner to corner, "
        "all at once. With FSUnpool each output follows its own corner and nothing jumps.",
        alt="Coordinates of the four outputs of each decoder against the angle of the square: "
        "FSPool's follow the corners smoothly, those of the MLPs start and end at equal values.",
        data={"panels": panels, "columns": 2},
    )


def _draw_turning_square(recorder: Recorder, turning: dict[str, Tensor]) -> None:
    shown = [ANGLES * part // 6 for part in range(7)]
    degrees = [90 * index / ANGLES for index in shown]
    squares = turned_polygons(torch.tensor(degrees).deg2rad(), 4).tolist()
    panels = [
        {
            "title": f"{ROWS[name]}, {angle:.0f}°",
            "points": outputs[index].tolist(),
            "slots": list(range(4)),
            "target": square,
        }
        for name, outputs in turning.items()
        for index, angle, square in zip(shown, degrees, squares, strict=True)
    ]
    recorder.add_figure(
        "responsibility-squares",
        kind="points",
        title="Which output makes which corner",
        caption="One colour for each output of the decoder; rings are the true corners. The last "
        "square is the first one again, so an MLP ends with the colours it began with.",
        alt="Seven squares for each decoder, turned from 0 to 90 degrees, corners coloured by "
        "the output that makes them.",
        data={"panels": panels, "columns": len(shown), "limit": 1.25},
    )
