"""Auto-encode rotating regular polygons: the responsibility problem, and FSPool without it.

An MLP decoder must decide which of its outputs produces which corner. Turn a square by 90 degrees
and it is the same set, so somewhere on the way all outputs must jump to the next corner. FSUnpool
puts the corners back into the order they came in, and nothing has to jump.
"""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from torchsets.data import random_polygons, turned_polygons
from torchsets.lab.experiments.polygons.configs import AUTO_ENCODERS, AutoEncode
from torchsets.lab.experiments.polygons.figures import (
    draw_paths,
    draw_reconstructions,
    draw_squares,
    draw_turning,
)
from torchsets.lab.experiments.polygons.models import CONTROLS, build_auto_encoder
from torchsets.lab.experiments.poolings import POOLINGS
from torchsets.lab.records import Cell, Recorder
from torchsets.lab.training import Settings, pick_device, seed_everything, train
from torchsets.losses import chamfer_loss, hungarian_loss

METRICS = ("direct", "chamfer", "hungarian")
TEST_SEED, RANDOM_SEED = 10_007, 20_011
ANGLES = 900  # steps in which a polygon turns onto itself; a tenth of a degree for a square

Reconstruct = Callable[[Tensor], Tensor]


def run(config: AutoEncode, recorder: Recorder) -> None:
    """Train every model at every size, then measure and draw them."""
    trained: dict[tuple[str, int], Reconstruct] = {}
    for size in config.sizes:
        for name, row in _chosen(config).items():
            if name == "random":
                reconstruct: Reconstruct = _random_polygons_like
            else:
                reconstruct = _train(config, recorder, name, size)
            trained[row, size] = reconstruct
            _measure(config, recorder, row, size, reconstruct)
    for size in config.zeroed_sizes:
        for name, row in CONTROLS.items():
            _measure(config, recorder, row, size, _train(config, recorder, name, size))
    for size in config.enlarged_sizes:
        for loss in ("chamfer", "hungarian"):
            for pooling in POOLINGS:
                reconstruct = _train(config, recorder, f"mlp-{loss}-{pooling}-large", size)
                row = f"MLP {config.enlarged_hidden}, {pooling} encoder + {loss.title()}"
                _measure(config, recorder, row, size, reconstruct)
    if not trained:
        return
    shown = {size: turned_polygons(torch.tensor([0.4]), size) for size in config.sizes}
    made = {(row, size): again(shown[size])[0] for (row, size), again in trained.items()}
    draw_reconstructions(recorder, {size: one[0] for size, one in shown.items()}, made)
    turning = _measure_jumps(recorder, trained)
    if turning:
        draw_paths(recorder, turning)
        draw_squares(recorder, turning)
        draw_turning(recorder, turning)


def metric(name: str, prediction: Tensor, target: Tensor) -> Tensor:
    """One loss per set, (B,): squared, the mean over points and coordinates."""
    if name == "direct":
        return (prediction - target).square().mean(dim=(1, 2))
    if name == "chamfer":
        return chamfer_loss(prediction, target, reduction="mean")
    return hungarian_loss(prediction, target, reduction="mean")


def _chosen(config: AutoEncode) -> dict[str, str]:
    return {name: AUTO_ENCODERS[name] for name in config.models}


def _train(config: AutoEncode, recorder: Recorder, name: str, size: int) -> Reconstruct:
    seed_everything(config.seed)
    model = build_auto_encoder(config, name, size).to(pick_device(config.device))
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
    """Apply the model in chunks: the relaxed sort needs 16 N^2 numbers for each set."""
    device = next(model.parameters()).device
    return torch.cat([model(chunk.to(device)).cpu() for chunk in torch.split(polygons, 64)])


def _random_polygons_like(polygons: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(RANDOM_SEED)
    return random_polygons(*polygons.shape[:2], generator=generator)


def _measure(
    config: AutoEncode, recorder: Recorder, row: str, size: int, reconstruct: Reconstruct
) -> None:
    generator = torch.Generator().manual_seed(TEST_SEED + config.seed)
    polygons = random_polygons(config.test_sets, size, generator=generator)
    predicted = reconstruct(polygons)
    losses = {name: metric(name, predicted, polygons).mean().item() for name in METRICS}
    recorder.add_results(
        Cell(f"fspool/polygons-{name}", row, f"n={size}", None, 100 * loss)  # hundredths
        for name, loss in losses.items()
    )


def _measure_jumps(
    recorder: Recorder, trained: dict[tuple[str, int], Reconstruct]
) -> dict[str, Tensor]:
    """Turn each polygon onto itself and follow every output; return those for the square."""
    recorder.add_table(
        "polygons/jumps",
        caption="Largest move of one output while the polygon turns onto itself in "
        f"{ANGLES} equal steps, as a multiple of the move of a corner (1 is perfect; no number "
        "where the outputs are no polygon, but closer to a random one)",
        unit="times",
    )
    turning: dict[str, Tensor] = {}
    for (row, size), reconstruct in trained.items():
        if row == AUTO_ENCODERS["random"]:
            continue
        polygons = turned_polygons(torch.linspace(0, 2 * math.pi / size, ANGLES + 1), size)
        outputs = reconstruct(polygons)
        moves = [(path[1:] - path[:-1]).norm(dim=-1).max() for path in (outputs, polygons)]
        # A collapsed decoder does not jump either: it must not look as good as one that follows.
        losses = [
            metric("chamfer", made, polygons).mean()
            for made in (outputs, _random_polygons_like(polygons))
        ]
        value = (moves[0] / moves[1]).item() if losses[0] < losses[1] / 2 else math.nan
        recorder.add_result("polygons/jumps", model=row, column=f"n={size}", value=value)
        if size == 4:
            turning[row] = outputs
    return turning
