"""The models of the experiments on MNIST: one encoder, several poolings and decoders."""

import torch
from torch import Tensor, nn

from torchsets.decoders import FSPoolAutoEncoder, LSTMDecoder, MLPDecoder
from torchsets.encoders import DeepSets, PointNet
from torchsets.lab.experiments.mnist.configs import Classify, Reconstruct
from torchsets.lab.experiments.poolings import POOLINGS
from torchsets.mlp import MLP, glorot_
from torchsets.padded import SetPrediction
from torchsets.pooling import FSPool


class Classifier(nn.Module):
    """An encoder and a two-layer MLP on its vector, with Glorot's initial weights."""

    def __init__(
        self, encoder: DeepSets | PointNet, *, latent: int, hidden: int, classes: int
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = MLP(latent, hidden, classes)
        glorot_(self)

    def forward(self, elements: Tensor, mask: Tensor) -> Tensor:
        """Score the classes of padded sets (B, N, D): (B, classes)."""
        scores: Tensor = self.head(self.encoder(elements, mask))
        return scores

    @property
    def sorts(self) -> list[FSPool]:
        """The poolings that sort."""
        return [pool for pool in self.encoder.modules() if isinstance(pool, FSPool)]

    def set_temperature(self, temperature: float | None) -> None:
        """Relax the sort of FSPool, or sort exactly for None; other poolings do not sort."""
        for pool in self.sorts:
            pool.temperature = temperature


class BaselineAutoEncoder(nn.Module):
    """An encoder with any pooling, and a decoder that predicts all slots from its vector."""

    def __init__(self, encoder: DeepSets, decoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def forward(self, elements: Tensor, mask: Tensor) -> SetPrediction:
        prediction: SetPrediction = self.decoder(self.encoder(elements, mask))
        return prediction


AutoEncoder = FSPoolAutoEncoder | BaselineAutoEncoder


def build_classifier(
    config: Classify, pooling: str, *, classes: int = 10, layers: int = 2, two_stages: bool = False
) -> Classifier:
    """Return an untrained classifier with that many linear layers before the pooling.

    With two stages it is PointNet's, whose layers are fixed: each element is told what was pooled,
    is encoded beside that, and pooled again.
    """
    encoder: DeepSets | PointNet
    if two_stages:
        features, pool = 2 + config.mask_feature, POOLINGS[pooling]
        encoder = PointNet(features, config.latent, hidden=config.hidden, pooling=pool)
    else:
        encoder = _build_encoder(config, pooling, layers=layers)
    hidden = config.classifier_hidden
    return Classifier(encoder, latent=config.latent, hidden=hidden, classes=classes)


def build_auto_encoder(config: Reconstruct, name: str) -> AutoEncoder:
    """Return an untrained auto-encoder: fspool, or a pooling and a decoder such as sum-mlp."""
    if name == "fspool":
        features = 2 + config.mask_feature
        model = FSPoolAutoEncoder(features, hidden=config.hidden, latent=config.latent)
        glorot_(model)
        return model
    pooling, decoder_name = name.split("-")
    encoder = _build_encoder(config, pooling)
    glorot_(encoder)
    decoder: nn.Module
    if decoder_name == "lstm":
        decoder = LSTMDecoder(
            config.latent,
            config.hidden,
            slots=config.slots,
            features=2,
            variable_size=config.mask_feature,
        )
    else:
        decoder = MLPDecoder(
            config.latent,
            config.hidden,
            slots=config.slots,
            features=2,
            layers=2,
            variable_size=config.mask_feature,
        )
    return BaselineAutoEncoder(encoder, decoder)


def encoder_of(auto_encoder: AutoEncoder) -> DeepSets:
    """Return the encoder of an auto-encoder, with the same weights; FSPool sorts exactly."""
    if isinstance(auto_encoder, BaselineAutoEncoder):
        return auto_encoder.encoder
    return DeepSets(auto_encoder.element_encoder, auto_encoder.pool, auto_encoder.vector_encoder)


def predict(
    model: AutoEncoder, noisy: Tensor, mask: Tensor, *, slots: int
) -> tuple[Tensor, Tensor]:
    """Return the predicted features of all slots, (B, slots, D), and which slots are points."""
    features = noisy.shape[2]
    if isinstance(model, FSPoolAutoEncoder):
        elements = pad_to(model(noisy, mask), slots)
        points = nn.functional.pad(mask, (0, slots - mask.shape[1]))
    else:
        prediction = model(noisy, mask)
        elements, points = prediction.elements, prediction.presence > 0
        if features == 3:
            elements = torch.cat([elements, prediction.presence.unsqueeze(-1)], dim=-1)
    if features == 3:
        presence = elements[..., 2]  # at least one: to an empty set every distance is 0
        points = presence >= presence.amax(dim=1, keepdim=True).clamp(max=0.5)
    return elements, points


def pad_to(elements: Tensor, slots: int) -> Tensor:
    """Add zero rows up to that number of slots."""
    return nn.functional.pad(elements, (0, 0, 0, slots - elements.shape[1]))


def _build_encoder(config: Classify | Reconstruct, pooling: str, *, layers: int = 2) -> DeepSets:
    return DeepSets(
        MLP(2 + config.mask_feature, config.hidden, config.hidden, layers=layers),
        POOLINGS[pooling](config.hidden),
        MLP(config.hidden, config.hidden, config.latent),
    )
