"""The models of the experiments on MNIST: one encoder, several poolings and decoders."""

from collections.abc import Mapping

from torch import Tensor, nn

from torchsets._checks import check_padded_sets
from torchsets.decoders import FSPoolAutoEncoder, LSTMDecoder, MLPDecoder
from torchsets.lab.experiments.poolings import POOLINGS
from torchsets.mlp import MLP, glorot_
from torchsets.padded import SetPrediction, fill_padding
from torchsets.pooling import FSPool

_ENCODER = ("element_encoder", "pool", "vector_encoder")


class SetEncoder(nn.Module):
    """The encoder half of :class:`FSPoolAutoEncoder`, with any pooling.

    Args:
        features: Number of features of an element.
        pooling: One of fspool, sum, mean, max.
        hidden: Width of the layers and of the pooled vector.
        latent: Size of the encoded vector.
        layers: Linear layers before the pooling.
    """

    def __init__(
        self, features: int, *, pooling: str, hidden: int, latent: int, layers: int = 2
    ) -> None:
        super().__init__()
        self.element_encoder = MLP(features, hidden, hidden, layers=layers)
        self.pool = POOLINGS[pooling](hidden)
        self.vector_encoder = MLP(hidden, hidden, latent)

    def forward(
        self, elements: Tensor, mask: Tensor, *, temperature: float | None = None
    ) -> Tensor:
        """Encode padded sets (B, N, D) to (B, L); a temperature relaxes the sort of FSPool."""
        check_padded_sets(elements, mask)
        hidden = self.element_encoder(fill_padding(elements, mask))
        if temperature is not None and isinstance(self.pool, FSPool):
            pooled, _ = self.pool.pool_with_order(hidden, mask, temperature=temperature)
        else:
            pooled = self.pool(hidden, mask)
        encoded: Tensor = self.vector_encoder(pooled)
        return encoded


class Classifier(nn.Module):
    """An encoder and a two-layer MLP on its vector, with Glorot's initial weights."""

    def __init__(self, encoder: SetEncoder, *, latent: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = MLP(latent, hidden, classes)
        glorot_(self)

    def forward(
        self, elements: Tensor, mask: Tensor, *, temperature: float | None = None
    ) -> Tensor:
        scores: Tensor = self.head(self.encoder(elements, mask, temperature=temperature))
        return scores


class BaselineAutoEncoder(nn.Module):
    """An encoder with any pooling, and a decoder that predicts all slots from its vector."""

    def __init__(self, encoder: SetEncoder, decoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def forward(self, elements: Tensor, mask: Tensor) -> SetPrediction:
        prediction: SetPrediction = self.decoder(self.encoder(elements, mask))
        return prediction


def build_auto_encoder(
    name: str, *, hidden: int, latent: int, slots: int, mask_feature: bool
) -> nn.Module:
    """Return an untrained auto-encoder: fspool, or a pooling and a decoder such as sum-mlp."""
    features = 2 + mask_feature
    if name == "fspool":
        return glorot_(FSPoolAutoEncoder(features, hidden=hidden, latent=latent))
    pooling, decoder_name = name.split("-")
    encoder = SetEncoder(features, pooling=pooling, hidden=hidden, latent=latent)
    glorot_(encoder)
    decoder: nn.Module
    if decoder_name == "lstm":
        decoder = LSTMDecoder(latent, hidden, slots=slots, features=2, variable_size=mask_feature)
    else:
        decoder = MLPDecoder(
            latent, hidden, slots=slots, features=2, layers=2, variable_size=mask_feature
        )
    return BaselineAutoEncoder(encoder, decoder)


def encoder_weights(auto_encoder: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Pick the weights of the encoder out of the state of an auto-encoder."""
    bare = {name.removeprefix("encoder."): value for name, value in auto_encoder.items()}
    return {name: value for name, value in bare.items() if name.split(".")[0] in _ENCODER}
