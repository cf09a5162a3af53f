"""The models of the experiments on polygons."""

import math
from functools import partial

import torch
from torch import Tensor, nn

from torchsets.data import turned_polygons
from torchsets.decoders import DSPN, FSPoolAutoEncoder, LSTMDecoder, MLPDecoder, find_step_size
from torchsets.encoders import DeepSets
from torchsets.lab.experiments.polygons.configs import AutoEncode, Decode
from torchsets.lab.experiments.poolings import POOLINGS
from torchsets.lab.typed import Json
from torchsets.losses import SetPredictionLoss, hungarian_loss
from torchsets.mlp import MLP, glorot_
from torchsets.padded import SetPrediction
from torchsets.pooling import FSPool

CONTROLS = {"fspool-zeroed": "FSPool, latent zeroed", "fspool-constant": "FSPool, latent constant"}


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


def build_auto_encoder(config: AutoEncode, name: str, size: int) -> nn.Module:
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


class PolygonModel(nn.Module):
    """A network to a vector, and a decoder from the vector to a set.

    Args:
        config: Widths, steps and so on.
        name: One of implicit, unrolled, mlp, lstm.
        task: predict, from the angle, or auto-encode, from the polygon itself.
        size: Number of corners.
    """

    def __init__(self, config: Decode, name: str, task: str, size: int) -> None:
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
        if self.network is None and isinstance(self.decoder, DSPN):
            return self.decoder.encode(inputs)
        vector: Tensor = self.network(inputs) if self.network is not None else inputs
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


def _decoder(config: Decode, name: str, size: int) -> nn.Module:
    shape: dict[str, Json] = {"slots": size, "features": 2, "variable_size": False}
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


def _set_encoder(config: Decode) -> nn.Module:
    """Many more features than coordinates: then the descent is well conditioned."""
    return DeepSets(glorot_(MLP(2, config.hidden, config.latent)), FSPool(config.latent))
