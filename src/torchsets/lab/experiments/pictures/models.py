"""Networks that predict sets from pictures: a picture network, then a decoder of sets."""

from typing import cast

import torch
from torch import Tensor, nn

from torchsets.decoders import (
    DSPN,
    LSTMDecoder,
    MLPDecoder,
    QueryDecoder,
    SlotAttention,
    TSPNDecoder,
    decode_adaptively,
    find_step_size,
)
from torchsets.encoders import DeepSets, relation_encoder
from torchsets.lab.experiments.objects import matching_error, set_encoder
from torchsets.lab.experiments.picture_networks import FlatVector, Map, token_encoder
from torchsets.lab.experiments.pictures.configs import DESCENTS, READERS, Pictures
from torchsets.lab.experiments.pictures.data import Batch
from torchsets.lab.experiments.poolings import POOLINGS
from torchsets.losses import SetPredictionLoss
from torchsets.padded import SetPrediction

START_SPREAD = 0.1
SIZE_WEIGHT = 0.1  # of TSPN's cross entropy beside the error of its elements
Random = torch.Generator | None


def encode_tokens(config: Pictures, features: int, source: str) -> nn.Module:
    """A set encoder over tokens, (B, M, features) -> (B, latent)."""
    attention = source.endswith("attention")
    return token_encoder(features, config.decoder_hidden, config.latent, attention=attention)


def make_source(config: Pictures, source: str) -> nn.Module:
    """Pictures to vectors."""
    if source in ("flat", "stages"):
        return FlatVector(
            config.network, width=config.width, size=config.size, latent=config.latent
        )
    tokens = Map(config.network, width=config.width)
    return nn.Sequential(tokens, encode_tokens(config, tokens.features, source))


def make_decoder(config: Pictures, pooling: str, *, slots: int, features: int, name: str) -> DSPN:
    """The DSPN, and its set encoder."""
    implicit = name == "implicit"
    if config.set_encoder == "relation":
        encoder = relation_encoder(
            features + 1,
            config.hidden,
            config.latent,
            slots=slots,
            pool=POOLINGS[pooling](config.latent),
        )
    else:
        encoder = set_encoder(
            features + 1, config.hidden, config.latent, slots=slots, pooling=pooling
        )
    return DSPN(
        encoder,
        slots=slots,
        features=features,
        steps=config.inner_steps,
        step_size=config.step_size or 1.0,
        momentum=config.momentum if implicit else 0.0,
        clip=config.clip if implicit else None,
        representation_loss="squared" if implicit else "huber",
        gradient="implicit" if implicit else "unrolled",
    )


class Descent(nn.Module):
    """Pictures to vectors, and a DSPN that decodes them.

    Unrolled, it starts from a learned set, as in the thesis; implicit, from a new random set for
    each picture, as iDSPN. A hybrid starts from what queries on the map of features predict, and
    its vector is that set's own plus a change, at first 0, that is made of the same map.
    """

    centre: Tensor
    spread: Tensor

    def __init__(
        self, config: Pictures, name: str, source: str, pooling: str, *, slots: int, features: int
    ) -> None:
        super().__init__()
        self.decoder = make_decoder(config, pooling, slots=slots, features=features, name=name)
        self.implicit = name == "implicit"
        self.adaptive = False  # True: in tests, steps of Barzilai and Borwein
        self.queries: Reader | None = None
        if source == "hybrid":
            self.queries = Reader(config, "queries", slots=slots, features=features)
            self.source = encode_tokens(config, self.queries.tokens.features, source)
            for parameter in cast(DeepSets, self.source).outer.parameters():
                nn.init.zeros_(parameter)
        else:
            self.source = make_source(config, source)
        if self.implicit:
            with torch.no_grad():  # for find_step_size
                self.decoder.initial_elements.normal_(0, START_SPREAD)
        self.weight, self.standardise = config.representation, config.standardise
        self.register_buffer("centre", torch.zeros(config.latent))
        self.register_buffer("spread", torch.ones(config.latent))
        self.criterion = SetPredictionLoss(
            matching_error,
            supervise="last" if self.implicit or config.supervise == "last" else "all",
        )

    def prepare(self, batch: Batch) -> None:
        """Measure the step size with some sets."""
        vector = self.decoder.encode(batch.elements, batch.mask)
        self.decoder.step_size = find_step_size(self.decoder, vector)

    @torch.no_grad()
    def aim(self, batch: Batch) -> None:
        """Let untrained vectors lie around those of some true sets, as far apart as they are."""
        vectors = self.decoder.encode(batch.elements, batch.mask)
        self.centre.copy_(vectors.mean(dim=0))
        self.spread.copy_(vectors.std(dim=0))

    def forward(
        self, batch: Batch, *, steps: int | None = None, generator: Random = None
    ) -> SetPrediction:
        """Predict sets; the batch brings the start, so nothing is drawn here."""
        vector, initial, _ = self._read(batch)
        if self.adaptive:
            return decode_adaptively(self.decoder, vector, steps=steps, initial=initial)
        prediction: SetPrediction = self.decoder(vector, steps=steps, initial=initial)
        return prediction

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """The set loss, once all is trained together, and the representation loss.

        Implicit gradients lack the step size: it stands before the loss, so that both count.
        """
        vector, initial, start = self._read(batch)
        loss = vector.new_zeros(())
        if batch.joint:
            prediction = self.decoder(vector, steps=batch.steps, initial=initial)
            loss = self.criterion(prediction, batch.elements, batch.mask).mean()
            loss = loss * (self.decoder.step_size if self.implicit else 1)
        if start is not None and self.queries is not None:
            loss = loss + self.queries.criterion(start, batch.elements, batch.mask).mean()
        return {"sets": loss, "vectors": self._distance(vector, batch)}

    def set_half_loss(self, batch: Batch) -> Tensor:
        """How well the decoder restores true sets from their own vectors."""
        vector = self.decoder.encode(batch.elements, batch.mask)
        prediction = self.decoder(vector, steps=batch.steps, initial=self._start(batch))
        loss: Tensor = self.criterion(prediction, batch.elements, batch.mask)
        return loss.mean()

    def _read(
        self, batch: Batch
    ) -> tuple[Tensor, tuple[Tensor, Tensor] | None, SetPrediction | None]:
        """The vectors of pictures, where the descent starts, and what the queries predict."""
        if self.queries is None:
            vector = self.centre + self.spread * self.source(batch.images)
            return vector, self._start(batch), None
        tokens = self.queries.tokens(batch.images)
        start = cast(SetPrediction, self.queries.decoder(tokens))
        initial = (start.elements, start.presence.clamp(0, 1))
        with torch.no_grad():
            own = self.decoder.encoder(torch.cat([initial[0], initial[1].unsqueeze(-1)], dim=-1))
        return own + self.spread * self.source(tokens), initial, start

    def _start(self, batch: Batch) -> tuple[Tensor, Tensor] | None:
        if not self.implicit:
            return None
        return START_SPREAD * batch.noise, torch.full_like(batch.noise[..., 0], 0.5)

    def _distance(self, vector: Tensor, batch: Batch) -> Tensor:
        """The weighted representation loss of the true sets."""
        if not self.standardise:
            found = self.decoder.representation_loss(vector, batch.elements, batch.mask)
            return self.weight * found.mean()
        with torch.no_grad():
            wanted = self.decoder.encode(batch.elements, batch.mask)
            variance = wanted.var(dim=0, correction=0).mean().clamp(min=1e-12)
        return self.weight * (vector - wanted).square().mean() / variance


class Listing(nn.Module):
    """Pictures to vectors, and an MLP or LSTM that predicts the slots as a list."""

    def __init__(
        self, config: Pictures, name: str, source: str, *, slots: int, features: int
    ) -> None:
        super().__init__()
        self.source = make_source(config, source)
        decoder = LSTMDecoder if name == "lstm" else MLPDecoder
        self.decoder = decoder(config.latent, config.decoder_hidden, slots=slots, features=features)
        self.criterion = SetPredictionLoss(matching_error)

    def forward(
        self, batch: Batch, *, steps: int | None = None, generator: Random = None
    ) -> SetPrediction:
        """Predict sets; there are no steps, and nothing is drawn."""
        prediction: SetPrediction = self.decoder(self.source(batch.images))
        return prediction

    def loss(self, batch: Batch) -> Tensor:
        loss: Tensor = self.criterion(self(batch), batch.elements, batch.mask)
        return loss.mean()


class Points(nn.Module):
    """Pictures to vectors, and a TSPN."""

    def __init__(self, config: Pictures, source: str, *, slots: int, features: int) -> None:
        super().__init__()
        self.source = make_source(config, source)
        hidden = max(4, config.decoder_hidden // 4)
        self.decoder = TSPNDecoder(
            features, slots, inputs=config.latent, hidden=hidden, layers=config.layers
        )

    def forward(
        self, batch: Batch, *, steps: int | None = None, generator: Random = None
    ) -> SetPrediction:
        """Predict sets; the generator draws the points."""
        prediction: SetPrediction = self.decoder(self.source(batch.images), generator=generator)
        return prediction

    def loss(self, batch: Batch) -> Tensor:
        """As the paper: the points of the true sizes, and the sizes by classification."""
        vector = self.source(batch.images)
        elements, presence, _ = self.decoder(vector, sizes=batch.mask.sum(dim=1))
        error = matching_error(elements, batch.elements, batch.mask, prediction_mask=presence > 0)
        return (error + SIZE_WEIGHT * self.decoder.size_loss(vector, batch.mask)).mean()


class Reader(nn.Module):
    """Queries or slots that read the map of features."""

    def __init__(self, config: Pictures, name: str, *, slots: int, features: int) -> None:
        super().__init__()
        self.tokens = Map(config.network, width=config.width)
        hidden = max(8, config.decoder_hidden // 4)
        self.decoder: nn.Module
        if name == "queries":
            self.decoder = QueryDecoder(
                self.tokens.features,
                hidden,
                slots=slots,
                features=features,
                layers=config.layers,
                norm_first=True,
            )
        else:
            self.decoder = SlotAttention(
                self.tokens.features, hidden, slots=slots, features=features, rounds=config.rounds
            )
        self.draws = name == "slots"
        self.criterion = SetPredictionLoss(
            matching_error, supervise="last" if self.draws else "all"
        )

    def forward(
        self, batch: Batch, *, steps: int | None = None, generator: Random = None
    ) -> SetPrediction:
        """Predict sets; the generator draws the start of the slots."""
        drawn = {"generator": generator} if self.draws else {}
        prediction: SetPrediction = self.decoder(self.tokens(batch.images), **drawn)
        return prediction

    def loss(self, batch: Batch) -> Tensor:
        loss: Tensor = self.criterion(self(batch), batch.elements, batch.mask)
        return loss.mean()


Predictor = Descent | Listing | Points | Reader


def build(
    config: Pictures, name: str, source: str, pooling: str, *, slots: int, features: int
) -> Predictor:
    """Return an untrained network from pictures to sets."""
    if name in DESCENTS:
        return Descent(config, name, source, pooling, slots=slots, features=features)
    if name in READERS:
        return Reader(config, name, slots=slots, features=features)
    if name == "tspn":
        return Points(config, source, slots=slots, features=features)
    return Listing(config, name, source, slots=slots, features=features)
