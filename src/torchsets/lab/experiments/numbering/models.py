"""The models that number elements: one-hot classes (B, N, C) and noise to scores (B, N, N)."""

import math

import torch
from torch import Tensor, nn

from torchsets.decoders import DSPN
from torchsets.encoders import DeepSets, EquivariantLinear
from torchsets.encoders.relu import ReLU
from torchsets.lab.experiments.numbering.configs import Numbering
from torchsets.mlp import MLP
from torchsets.padded import SetPrediction
from torchsets.pooling import FSPool, FSUnpool


class Numberer(nn.Module):
    """What all models have in common.

    Attributes:
        noise: How many standard normal numbers for each element the model wants.
        on_simplex: Whether the scores are numbers that should be 0 and 1, or else logits.
    """

    noise: int = 0
    on_simplex: bool = False


class SetNumberer(Numberer):
    """DSPN or iDSPN: the set of numbers is decoded, with the classes as context of the slots."""

    on_simplex = True

    def __init__(self, config: Numbering, *, implicit: bool) -> None:
        super().__init__()
        size, classes = config.elements, config.classes
        self.noise = size
        self.encoder = _set_encoder(classes, config.hidden, size)
        self.decoder = DSPN(
            _set_encoder(size + classes, config.hidden, size),
            slots=size,
            features=size,
            steps=config.inner_steps,
            step_size=config.step_size,
            momentum=config.momentum if implicit else 0.0,
            clip=config.clip if implicit else None,
            variable_size=False,
            representation_loss="squared",
            gradient="implicit" if implicit else "unrolled",
            project="simplex",
        )
        self.decoder.initial_elements.requires_grad_(False)  # each set has a random start

    def decode(self, inputs: Tensor, noise: Tensor) -> SetPrediction:
        """The set of numbers (B, N, N) after each step."""
        prediction: SetPrediction = self.decoder(
            self.encoder(inputs), initial=0.1 * noise, context=inputs
        )
        return prediction

    def forward(self, inputs: Tensor, noise: Tensor) -> Tensor:
        return self.decode(inputs, noise).elements


class TransformerNumberer(Numberer):
    """Encoder and decoder of two layers each; both read the classes, the decoder also a code.

    Args:
        config: Widths and so on.
        code: "none"; "position", sines of the slot; or "random", drawn for each element.
    """

    def __init__(self, config: Numbering, *, code: str) -> None:
        super().__init__()
        self.code = code
        self.noise = config.width if code == "random" else 0
        self.source = nn.Linear(config.classes, config.width)
        self.target = nn.Linear(config.classes, config.width)
        self.transformer = nn.Transformer(
            config.width, 8, 2, 2, 2 * config.width, dropout=0.0, batch_first=True
        )
        self.last = nn.Linear(config.width, config.elements)
        self.register_buffer("positions", _sines(config.elements, config.width), persistent=False)

    def forward(self, inputs: Tensor, noise: Tensor) -> Tensor:
        target = self.target(inputs)
        if self.code != "none":
            target = target + (noise if self.code == "random" else self.positions)
        scores: Tensor = self.last(self.transformer(self.source(inputs), target))
        return scores


class LSTMNumberer(Numberer):
    """Two layers that read the elements in both directions, in the order of their slots."""

    def __init__(self, config: Numbering) -> None:
        super().__init__()
        self.lstm = nn.LSTM(
            config.classes, config.width, num_layers=2, bidirectional=True, batch_first=True
        )
        self.last = nn.Linear(2 * config.width, config.elements)

    def forward(self, inputs: Tensor, noise: Tensor) -> Tensor:
        scores: Tensor = self.last(self.lstm(inputs)[0])
        return scores


class LayeredNumberer(Numberer):
    """Two equivariant layers with a ReLU after each, and a linear layer on every element."""

    def __init__(self, config: Numbering, *, sort: bool) -> None:
        super().__init__()

        def layer(inputs: int) -> nn.Module:
            if sort:
                return SortLayer(inputs, config.hidden, config.elements)
            return EquivariantLinear(inputs, config.hidden)

        self.first, self.second = layer(config.classes), layer(config.hidden)
        self.last = nn.Linear(config.hidden, config.elements)

    def forward(self, inputs: Tensor, noise: Tensor) -> Tensor:
        scores: Tensor = self.last(self.second(self.first(inputs).relu()).relu())
        return scores


class SortLayer(nn.Module):
    """FSPool to a vector, FSUnpool back in the same order: equal elements get different ranks."""

    def __init__(self, inputs: int, outputs: int, size: int) -> None:
        super().__init__()
        self.own = nn.Linear(inputs, outputs)
        self.pool = FSPool(outputs, pieces=size - 1)
        self.between = nn.Linear(outputs, outputs)
        self.unpool = FSUnpool(outputs, pieces=size - 1)
        with torch.no_grad():
            self.pool.weight.mul_(size**-0.5)

    def forward(self, elements: Tensor) -> Tensor:
        own = self.own(elements)
        pooled, order = self.pool.pool_with_order(own)
        return own + self.unpool(self.between(pooled), order)


def build_numberer(config: Numbering, name: str) -> Numberer:
    """Return an untrained model."""
    if name in ("dspn", "idspn"):
        return SetNumberer(config, implicit=name == "idspn")
    if name == "bilstm":
        return LSTMNumberer(config)
    if name.startswith("transformer"):
        return TransformerNumberer(config, code=name.partition("-")[2] or "none")
    return LayeredNumberer(config, sort=name == "fs-unpool")


def _set_encoder(inputs: int, hidden: int, size: int) -> nn.Module:
    """Two layers on each element, and FSPool with one weight for each rank."""
    pool = FSPool(hidden, pieces=size - 1)
    with torch.no_grad():
        pool.weight.mul_(size**-0.5)
    return DeepSets(MLP(inputs, hidden, hidden, activation=ReLU), pool)


def _sines(size: int, width: int) -> Tensor:
    """The position code of the Transformer: sines and cosines of growing wave length, (N, W)."""
    rates = torch.exp(-math.log(10_000.0) * torch.arange(0, width, 2) / width)
    angles = torch.arange(size).unsqueeze(1) * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
