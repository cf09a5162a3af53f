"""Auto-encoders of object states: a set encoder, a vector, and a decoder that gets it alone."""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from torchsets.decoders import (
    DSPN,
    LSTMDecoder,
    MLPDecoder,
    TSPNDecoder,
    decode_adaptively,
    find_step_size,
)
from torchsets.lab.experiments.objects import matching_error, set_encoder
from torchsets.lab.experiments.scenes.configs import DESCENTS, Scenes, States
from torchsets.losses import SetPredictionLoss, sinkhorn_loss
from torchsets.padded import SetPrediction

FEATURES = 18  # of an object; its presence is one more
START_SPREAD = 0.1
BLUR = 0.05  # of Sinkhorn's divergence; objects that differ in one attribute are 1 apart
SIZE_WEIGHT = 0.1  # of TSPN's cross entropy beside the error of its elements


class Batch(NamedTuple):
    """States of scenes, and where a DSPN starts.

    Attributes:
        states: The objects, (B, slots, 18).
        mask: True at real ones, (B, slots).
        noise: Standard normal numbers, (B, slots, 18).
        steps: Of a DSPN in training. None: as it was constructed.
    """

    states: Tensor
    mask: Tensor
    noise: Tensor
    steps: int | None = None


class DescentAutoEncoder(nn.Module):
    """DSPN that encodes with the encoder that it decodes with.

    Args:
        config: Settings.
        slots: Largest number of objects.
        pooling: Of the set encoder.
        implicit: Whether gradients are implicit, or unrolled.
        supervise: What the unrolled one is trained for: all sets on the way, or the last.
        transport: Whether Sinkhorn's divergence takes the place of the best matching.
        listed_start: Whether an MLP makes the start from the vector. Else it is a new random one
            for each set.
    """

    def __init__(
        self,
        config: Scenes,
        *,
        slots: int,
        pooling: str,
        implicit: bool,
        supervise: str = "last",
        transport: bool = False,
        listed_start: bool = False,
    ) -> None:
        super().__init__()
        self.adaptive = False  # True: in tests, steps of Barzilai and Borwein
        self.decoder = DSPN(
            _encoder(config, slots, pooling),
            slots=slots,
            features=FEATURES,
            steps=config.inner_steps,
            step_size=config.step_size or 1.0,
            momentum=config.momentum if implicit else 0.0,
            representation_loss="squared",
            gradient="implicit" if implicit else "unrolled",
        )
        for start in (self.decoder.initial_elements, self.decoder.initial_presence):
            if start is not None:
                start.requires_grad_(False)
        with torch.no_grad():  # for find_step_size
            self.decoder.initial_elements.normal_(0, START_SPREAD)
        self.start: MLPDecoder | None = None
        if listed_start:
            self.start = MLPDecoder(
                config.latent, config.decoder_hidden, slots=slots, features=FEATURES
            )
        self.criterion = SetPredictionLoss(
            transport_error if transport else matching_error,
            supervise="all" if not implicit and supervise == "all" else "last",
        )

    def prepare(self, batch: Batch) -> None:
        """Measure the step size with some sets."""
        vector = self.decoder.encode(batch.states, batch.mask)
        self.decoder.step_size = find_step_size(self.decoder, vector)

    def forward(
        self,
        batch: Batch,
        *,
        steps: int | None = None,
        generator: torch.Generator | None = None,
    ) -> SetPrediction:
        """Encode and decode sets; the batch brings the start, so nothing is drawn here."""
        return self._predict(batch, steps)[0]

    def loss(self, batch: Batch) -> Tensor:
        """The error of the last set; implicit gradients do not reach a start, so it has its own."""
        prediction, start = self._predict(batch, batch.steps)
        loss: Tensor = self.criterion(prediction, batch.states, batch.mask)
        if start is not None:
            loss = loss + self.criterion(start, batch.states, batch.mask)
        return loss.mean()

    def _predict(
        self, batch: Batch, steps: int | None
    ) -> tuple[SetPrediction, SetPrediction | None]:
        vector = self.decoder.encode(batch.states, batch.mask)
        start: SetPrediction | None = None
        initial = (START_SPREAD * batch.noise, batch.noise.new_full(batch.mask.shape, 0.5))
        if self.start is not None:
            start = self.start(vector)
            initial = (start.elements, start.presence)
        decode = partial(decode_adaptively, self.decoder) if self.adaptive else self.decoder
        return decode(vector, steps=steps, initial=initial), start


class ListAutoEncoder(nn.Module):
    """A set encoder, and an MLP or LSTM that predicts the slots as a list."""

    def __init__(self, config: Scenes, *, slots: int, pooling: str, lstm: bool) -> None:
        super().__init__()
        self.encoder = _encoder(config, slots, pooling)
        decoder = LSTMDecoder if lstm else MLPDecoder
        self.decoder = decoder(config.latent, config.decoder_hidden, slots=slots, features=FEATURES)
        self.criterion = SetPredictionLoss(matching_error)

    def forward(
        self,
        batch: Batch,
        *,
        steps: int | None = None,
        generator: torch.Generator | None = None,
    ) -> SetPrediction:
        """Encode and decode sets; there are no steps, and nothing is drawn."""
        prediction: SetPrediction = self.decoder(self.encoder(with_presence(batch)))
        return prediction

    def loss(self, batch: Batch) -> Tensor:
        loss: Tensor = self.criterion(self(batch), batch.states, batch.mask)
        return loss.mean()


class TSPNAutoEncoder(nn.Module):
    """A set encoder and a TSPN, a quarter as wide as the others: it has three layers of 12 H^2."""

    def __init__(self, config: Scenes, *, slots: int, pooling: str) -> None:
        super().__init__()
        self.encoder = _encoder(config, slots, pooling)
        hidden = max(4, config.decoder_hidden // 4)
        self.decoder = TSPNDecoder(FEATURES, slots, inputs=config.latent, hidden=hidden)

    def forward(
        self,
        batch: Batch,
        *,
        steps: int | None = None,
        generator: torch.Generator | None = None,
    ) -> SetPrediction:
        """Encode and decode sets; the generator draws the points."""
        prediction: SetPrediction = self.decoder(
            self.encoder(with_presence(batch)), generator=generator
        )
        return prediction

    def loss(self, batch: Batch) -> Tensor:
        """As the paper: the points of the true sizes, and the sizes by classification."""
        vector = self.encoder(with_presence(batch))
        elements, presence, _ = self.decoder(vector, sizes=batch.mask.sum(dim=1))
        error = matching_error(elements, batch.states, batch.mask, prediction_mask=presence > 0)
        return (error + SIZE_WEIGHT * self.decoder.size_loss(vector, batch.mask)).mean()


def transport_error(prediction: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """Sinkhorn's divergence in the units of matching_error: Huber, mean over features."""
    loss = sinkhorn_loss(prediction, target, mask, element="huber", epsilon=BLUR)
    return loss / prediction.shape[-1]


AutoEncoder = DescentAutoEncoder | ListAutoEncoder | TSPNAutoEncoder


def build(config: States, name: str, pooling: str, *, slots: int) -> AutoEncoder:
    """Return an untrained auto-encoder of sets of at most so many objects."""
    if name in DESCENTS:
        return DescentAutoEncoder(
            config,
            slots=slots,
            pooling=pooling,
            implicit=name == "implicit",
            supervise=config.supervise,
        )
    if name == "tspn":
        return TSPNAutoEncoder(config, slots=slots, pooling=pooling)
    return ListAutoEncoder(config, slots=slots, pooling=pooling, lstm=name == "lstm")


def _encoder(config: Scenes, slots: int, pooling: str) -> nn.Module:
    return set_encoder(FEATURES + 1, config.hidden, config.latent, slots=slots, pooling=pooling)


def with_presence(batch: Batch) -> Tensor:
    """Slots as the encoders see them: the states, 0 at padding, and the presence, (B, N, 19)."""
    presence = batch.mask.unsqueeze(-1).to(batch.states.dtype)
    return torch.cat([batch.states, presence], dim=-1)
