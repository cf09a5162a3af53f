"""Networks from pictures to a vector, or to the places of a map as tokens."""

import torch
from torch import Tensor, nn

from torchsets.encoders import DeepSets, SetTransformer
from torchsets.mlp import MLP
from torchsets.pooling import FSPool
from torchsets.resnet import ResNet

_WAVES = 3  # frequencies of the position of a token
POSITIONS = 2 + 4 * _WAVES


class Map(nn.Module):
    """A ResNet without its last stage: the places of its map as tokens, with their positions."""

    def __init__(self, layers: int, *, width: int) -> None:
        super().__init__()
        self.trunk = make_trunk(layers, width=width)
        self.trunk.layer4 = nn.Sequential()
        self.features = 4 * width + POSITIONS

    def forward(self, images: Tensor) -> Tensor:
        """Map pictures (B, 3, H, W), uint8, to tokens (B, M, features)."""
        features = self.trunk.feature_map(_scale(images, self.trunk))
        positions = positions_of(*features.shape[2:]).to(features)
        tokens = features.flatten(2).mT
        return torch.cat([tokens, positions.expand(len(tokens), -1, -1)], dim=-1)


class FlatVector(nn.Module):
    """A ResNet whose last map is flattened by the head of the thesis, or that of iDSPN.

    That of the thesis, with 34 layers, starts as there: from Glorot's weights, the ResNet too.
    """

    def __init__(self, layers: int, *, width: int, size: int, latent: int) -> None:
        super().__init__()
        self.trunk = make_trunk(layers, width=width)
        side = size // (16 if layers == 10 else 32)
        self.head = (
            thesis_head(8 * width, latent) if layers == 34 else short_head(8 * width, latent, side)
        )
        if layers == 34:
            for part in self.modules():
                if isinstance(part, nn.Conv2d):
                    nn.init.xavier_uniform_(part.weight)
                    if part.bias is not None:
                        nn.init.zeros_(part.bias)

    def forward(self, images: Tensor) -> Tensor:
        """Map pictures (B, 3, H, W), uint8, to vectors (B, latent)."""
        vector: Tensor = self.head(self.trunk.feature_map(_scale(images, self.trunk)))
        return vector


def make_trunk(layers: int, *, width: int) -> ResNet:
    """A ResNet-34 or 18, or for CPUs and 64 pixels one of 10 layers, without its last layer.

    The small one has one block in each stage, and halves the picture once before them.
    """
    if layers != 10:
        return ResNet(layers, outputs=None, width=width)
    trunk = ResNet(18, outputs=None, width=width, stem="small")
    trunk.conv1 = nn.Conv2d(3, width, 5, stride=2, padding=2, bias=False)
    nn.init.kaiming_normal_(trunk.conv1.weight, mode="fan_out", nonlinearity="relu")
    trunk.add_module("maxpool", nn.Identity())
    for stage in (trunk.layer1, trunk.layer2, trunk.layer3, trunk.layer4):
        del stage[1:]
    return trunk


def thesis_head(channels: int, latent: int) -> nn.Sequential:
    """A linear map of a 4 x 4 map to a vector, as in the thesis: there is no ReLU in it."""
    return nn.Sequential(
        nn.Conv2d(channels, channels, 3, stride=2, padding=1),
        nn.BatchNorm2d(channels),
        nn.Conv2d(channels, latent, 2),
        nn.Flatten(),
    )


def short_head(channels: int, latent: int, side: int) -> nn.Sequential:
    """A convolution of a map to a quarter of its places, flattened, as in iDSPN."""
    places = (side // 2) ** 2
    if places == 0 or latent % places:
        raise ValueError(f"latent must be a multiple of {max(1, places)} places, got {latent}")
    return nn.Sequential(
        nn.BatchNorm2d(channels),
        nn.Conv2d(channels, latent // places, 2, stride=2),
        nn.Flatten(),
    )


def positions_of(rows: int, columns: int) -> Tensor:
    """Where the places of a map are: y and x in [-1, 1], and waves of them, (M, POSITIONS)."""
    centres = [(2 * torch.arange(count) + 1) / count - 1 for count in (rows, columns)]
    places = torch.cartesian_prod(*centres)
    phases = [torch.pi * 2**power * places for power in range(_WAVES)]
    return torch.cat([places, *(wave for one in phases for wave in (one.sin(), one.cos()))], dim=1)


def _scale(images: Tensor, trunk: ResNet) -> Tensor:
    """Map uint8 to [0, 1], channels last: 24 channels take two thirds of the time then.

    Not below 8 channels: without AVX-512, torch 2.13 then writes outside its memory in the
    gradient of a 1 x 1 convolution with stride 2.
    """
    scaled = images / 255
    if trunk.conv1.out_channels < 8:
        return scaled
    return scaled.contiguous(memory_format=torch.channels_last)


def token_encoder(features: int, hidden: int, latent: int, *, attention: bool) -> nn.Module:
    """A set encoder over tokens, (B, M, features) -> (B, latent): attention, or FSPool."""
    if attention:
        return SetTransformer(features, latent, hidden=max(4, hidden // 4), layers=1, seeds=4)
    return DeepSets(MLP(features, hidden, latent), FSPool(latent), nn.Linear(latent, latent))
