"""Models that predict sets: what they read, a decoder by name, and the loss."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from torchsets.decoders import (
    DSPN,
    LSTMDecoder,
    MLPDecoder,
    QueryDecoder,
    SlotAttention,
    TSPNDecoder,
    find_step_size,
)
from torchsets.encoders import mlp_encoder
from torchsets.losses import SetPredictionLoss, hungarian_loss, present_chamfer_loss
from torchsets.mlp import MLP
from torchsets.padded import SetPrediction, fill_padding

VECTOR_DECODERS = ("dspn", "mlp", "lstm", "tspn")
TOKEN_DECODERS = ("query", "slot-attention")
MATCHINGS = ("hungarian", "chamfer")
_SIZE_WEIGHT = 0.1  # of TSPN's cross entropy of sizes beside the error of its elements

_matched = partial(hungarian_loss, element="huber", reduction="mean")


class SetModel(nn.Module):
    """Read sets, predict sets.

    Args:
        encoder: Sets to vectors (B, latent); with a decoder of tokens also an :class:`MLP` on
            each element.
        decoder: Vectors, or tokens, to sets.
        matching: "hungarian" or "chamfer".
    """

    def __init__(self, encoder: nn.Module, decoder: nn.Module, *, matching: str) -> None:
        super().__init__()
        self.encoder, self.decoder, self.matching = encoder, decoder, matching

    def encode(self, elements: Tensor, mask: Tensor) -> tuple[Tensor, Tensor | None]:
        """What the decoder gets: vectors (B, L), or tokens (B, M, L) with their mask."""
        if isinstance(self.encoder, MLP):
            return self.encoder(fill_padding(elements, mask)), mask
        vector: Tensor = self.encoder(elements, mask)
        if isinstance(self.decoder, QueryDecoder | SlotAttention):
            return vector.unsqueeze(1), None  # one token
        return vector, None

    def decode(self, code: Tensor, mask: Tensor | None = None) -> SetPrediction:
        """Predict sets, the same for a vector alone as in any batch."""
        if isinstance(self.decoder, QueryDecoder | SlotAttention):
            prediction: SetPrediction = self.decoder(code, mask)
        elif isinstance(self.decoder, TSPNDecoder):
            generator = torch.Generator(code.device).manual_seed(0)
            initial = self.decoder.initial_points(1, generator=generator)
            prediction = self.decoder(code, initial=initial)
        else:
            prediction = self.decoder(code)
        return prediction

    def forward(self, elements: Tensor, mask: Tensor) -> Tensor:
        """Predict slots with their presences last, (B, slots, D + 1)."""
        prediction = self.decode(*self.encode(elements, mask))
        return torch.cat([prediction.elements, prediction.presence.unsqueeze(-1)], dim=-1)

    def losses(self, elements: Tensor, mask: Tensor, target: Tensor, wanted: Tensor) -> Tensor:
        """The loss of each set, (B,), given target sets and their mask."""
        code, code_mask = self.encode(elements, mask)
        if isinstance(self.decoder, TSPNDecoder):
            sizes = wanted.sum(dim=1)
            points, presence, _ = self.decoder(code, sizes=sizes)
            error = _matched(points, target, wanted, prediction_mask=presence > 0)
            return error + _SIZE_WEIGHT * self.decoder.size_loss(code, wanted)
        prediction = self.decode(code, code_mask)
        if self.matching == "chamfer":
            return present_chamfer_loss(prediction.elements, prediction.presence, target, wanted)
        loss: Tensor = SetPredictionLoss(_matched)(
            prediction,
            target,
            wanted,
            representation=self.decoder.representation_loss(code, target, wanted)
            if isinstance(self.decoder, DSPN)
            else None,
        )
        return loss

    def prepare(self, elements: Tensor, mask: Tensor) -> None:
        """Measure the step size of a DSPN with some inputs."""
        if isinstance(self.decoder, DSPN):
            with torch.no_grad():
                vector, _ = self.encode(elements, mask)
            self.decoder.step_size = find_step_size(self.decoder, vector)


def make_decoder(name: str, inputs: int, *, hidden: int, slots: int, features: int) -> nn.Module:
    """Return an untrained decoder of vectors or tokens with ``inputs`` features."""
    if name == "dspn":
        encoder = mlp_encoder(features + 1, hidden, inputs, slots=slots)
        return DSPN(encoder, slots=slots, features=features)
    if name == "tspn":
        return TSPNDecoder(features, slots, inputs=inputs, hidden=hidden)
    if name == "slot-attention":
        return SlotAttention(inputs, hidden, slots=slots, features=features, start="learned")
    kinds: dict[str, Callable[..., nn.Module]] = {
        "mlp": MLPDecoder,
        "lstm": LSTMDecoder,
        "query": QueryDecoder,
    }
    return kinds[name](inputs, hidden, slots=slots, features=features)


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise ``ValueError`` unless the value is one of the names."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")


def check_slots(slots: int | None, largest: int, name: str) -> int:
    """The number of slots; None: the size of the largest set."""
    if slots is None:
        return max(1, largest)
    if slots < max(1, largest):
        raise ValueError(
            f"slots must be at least the largest set of {name}, {largest}, got {slots}"
        )
    return int(slots)
