"""Auto-encoders of point sets, and the two losses that they are trained with."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from torchsets.decoders import DSPN, LSTMDecoder, MLPDecoder, find_step_size
from torchsets.encoders import mlp_encoder
from torchsets.lab.experiments.digits.configs import DESCENTS, Digits
from torchsets.losses import SetPredictionLoss, chamfer_loss, set_size_loss
from torchsets.padded import SetBatch, SetPrediction

POINT = 2  # features; the presence is one more

Criterion = Callable[[SetPrediction, Tensor, Tensor], Tensor]
"""A prediction and the target sets, (B, slots, 2) and (B, slots), to a loss per set, (B,)."""

thesis_chamfer = partial(chamfer_loss, element="huber", reduction="mean")


class DescentAutoEncoder(nn.Module):
    """DSPN that encodes with the encoder that it decodes with.

    Unrolled, it starts from a learned set; implicit, from the random set of its construction.
    """

    def __init__(self, config: Digits, *, implicit: bool) -> None:
        super().__init__()
        self.decoder = DSPN(
            mlp_encoder(POINT + 1, config.hidden, config.latent, slots=config.slots),
            slots=config.slots,
            features=POINT,
            steps=config.inner_steps,
            step_size=config.step_size or 1.0,
            momentum=config.momentum if implicit else 0.0,
            gradient="implicit" if implicit else "unrolled",
        )
        self.criterion = make_criterion(config, supervise="last" if implicit else "all")

    def prepare(self, sets: SetBatch) -> None:
        """Measure the step size with some sets."""
        self.decoder.step_size = find_step_size(self.decoder, self.decoder.encode(*sets))

    def forward(self, sets: SetBatch, *, steps: int | None = None) -> SetPrediction:
        """Encode and decode."""
        prediction: SetPrediction = self.decoder(self.decoder.encode(*sets), steps=steps)
        return prediction

    def loss(self, sets: SetBatch) -> Tensor:
        return self.criterion(self(sets), *sets).mean()


class ListAutoEncoder(nn.Module):
    """The same encoder, and an MLP or LSTM that predicts the points as a list."""

    def __init__(self, config: Digits, *, lstm: bool) -> None:
        super().__init__()
        self.encoder = mlp_encoder(POINT + 1, config.hidden, config.latent, slots=config.slots)
        decoder = LSTMDecoder if lstm else MLPDecoder
        self.decoder = decoder(
            config.latent, config.decoder_hidden, slots=config.slots, features=POINT
        )
        self.criterion = make_criterion(config, supervise="last")

    def forward(self, sets: SetBatch, *, steps: int | None = None) -> SetPrediction:
        """Encode and decode; there are no steps to take."""
        presence = sets.mask.unsqueeze(-1).to(sets.elements.dtype)
        vector = self.encoder(torch.cat([sets.elements, presence], dim=-1))
        prediction: SetPrediction = self.decoder(vector)
        return prediction

    def loss(self, sets: SetBatch) -> Tensor:
        return self.criterion(self(sets), *sets).mean()


AutoEncoder = DescentAutoEncoder | ListAutoEncoder


def build(config: Digits, name: str) -> AutoEncoder:
    """Return an untrained auto-encoder."""
    if name in DESCENTS:
        return DescentAutoEncoder(config, implicit=name == "implicit")
    return ListAutoEncoder(config, lstm=name == "lstm")


def make_criterion(config: Digits, *, supervise: str) -> Criterion:
    """The loss of a prediction: of all sets on the way, or of the last."""
    thesis = SetPredictionLoss(thesis_chamfer, supervise="all" if supervise == "all" else "last")
    if config.loss == "thesis":
        return thesis
    return partial(_size_aware_loss, thesis=thesis, weight=config.size_weight)


def _size_aware_loss(
    prediction: SetPrediction,
    target: Tensor,
    mask: Tensor,
    *,
    thesis: SetPredictionLoss,
    weight: float,
) -> Tensor:
    """The thesis' loss and that of the sizes, of the same sets."""
    presence, way = prediction.presence, prediction.trajectory
    if thesis.supervise == "all" and way is not None:
        presence = way.presence
    sizes = set_size_loss(presence, mask.sum(dim=1))
    loss: Tensor = thesis(prediction, target, mask)
    return loss + weight * (sizes.mean(dim=0) if sizes.ndim == 2 else sizes)
