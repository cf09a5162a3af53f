"""Objects from pictures of 64 pixels: a training step of each decoder, behind a narrow ResNet.

The first case has the settings of ``dspn-images`` at scale cpu, for 10 objects, and all decoders
of torchsets, the implicit DSPN first. The second has the set encoder of the thesis, 512 units on
all pairs of slots, beside a straightforward implementation of it, which is how the thesis trains.
"""

from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import smooth_l1_loss

from torchsets.lab.benchmarks.dspn import (
    BATCH,
    PLAIN,
    PlainPairs,
    plain_decode,
    plain_hungarian,
)
from torchsets.lab.benchmarks.harness import Case, Step
from torchsets.lab.experiments.picture_networks import FlatVector
from torchsets.lab.experiments.pictures.configs import DECODERS, IMAGES, READERS, Pictures
from torchsets.lab.experiments.pictures.data import Batch
from torchsets.lab.experiments.pictures.models import build

SLOTS, FEATURES = 10, 18
THESIS = {
    "set_encoder": "relation",
    "hidden": 512,
    "latent": 512,
    "inner_steps": 10,
    "step_size": 25.0,
    "supervise": "last",
    "representation": 0.1,
    "standardise": False,
}


def cases() -> list[Case]:
    """One of all decoders, and one of the thesis' DSPN."""
    config, thesis = IMAGES.config_at("cpu"), IMAGES.config_at("cpu", **THESIS)
    others = {label: name for name, label in DECODERS.items() if name != "implicit"}
    return [
        Case(
            "implicit DSPN beside other decoders: training step",
            {
                "torchsets": partial(_prepare, config, "implicit"),
                **{label: partial(_prepare, config, name) for label, name in others.items()},
            },
        ),
        Case(
            "DSPN as in the thesis: training step",
            {
                "torchsets": partial(_prepare, thesis, "unrolled"),
                PLAIN: partial(_prepare_plain, thesis),
            },
        ),
    ]


def _prepare(config: Pictures, name: str) -> Step:
    batch = _batch(config)
    source = "map" if name in READERS else "flat"
    model = build(config, name, source, "fspool", slots=SLOTS, features=FEATURES)

    def step() -> None:
        model.zero_grad()
        loss = model.loss(batch)
        total = sum(loss.values()) if isinstance(loss, dict) else loss
        torch.as_tensor(total).backward()  # type: ignore[no-untyped-call]  # torch's is untyped

    return step


def _prepare_plain(config: Pictures) -> Step:
    batch = _batch(config)
    truth = torch.cat([batch.elements, batch.mask.unsqueeze(-1).float()], dim=-1)
    network = FlatVector(config.network, width=config.width, size=config.size, latent=config.latent)
    encoder = PlainPairs(FEATURES + 1)
    start = torch.rand(1, SLOTS, FEATURES, requires_grad=True)
    presence = torch.full((1, SLOTS, 1), 0.5, requires_grad=True)
    weights: list[Tensor] = [*network.parameters(), *encoder.parameters(), start, presence]

    def step() -> None:
        vector = network(batch.images)
        loss = plain_hungarian(plain_decode(encoder, vector, start, presence)[-1], truth)
        loss = loss + config.representation * smooth_l1_loss(encoder(truth), vector)
        torch.autograd.grad(loss, weights)

    return step


def _batch(config: Pictures) -> Batch:
    torch.manual_seed(0)
    side = config.size
    mask = torch.arange(SLOTS) < torch.randint(3, SLOTS + 1, (BATCH, 1))
    elements = torch.rand(BATCH, SLOTS, FEATURES).masked_fill(~mask.unsqueeze(-1), 0)
    images = torch.randint(0, 256, (BATCH, 3, side, side), dtype=torch.uint8)
    return Batch(images, elements, mask, torch.randn_like(elements))
