"""Residual networks for pictures, under the names of torchvision's weights."""

from collections.abc import Callable
from typing import cast

from torch import Tensor, nn

from torchsets._checks import check_counts, check_floating, check_shape

_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}


class ResNet(nn.Module):
    """ResNet-18 or ResNet-34: a picture to a map of features, a vector, and outputs.

    Parameters have the names and shapes of torchvision's ``resnet18`` and ``resnet34``, so that
    their public weights load with ``load_state_dict``.

    Args:
        layers: 18 or 34.
        outputs: Outputs of the last linear layer, such as the classes. None: no such layer, and
            the network gives the vector.
        channels: Channels of a picture.
        width: Channels of the first stage; the others have 2, 4 and 8 times as many. 64 as
            published, less for a narrow network.
        stem: "large", a 7 x 7 convolution with stride 2 as published, for 64 pixels and up;
            "small", a 3 x 3 convolution with stride 1, for 28 to 32 pixels.
        pool: Set to vector, such as ``FSPool(8 * width)``, called with the places of the map as
            the elements of a set, (B, N, 8 * width). None: their mean, as published.

    Example:
        >>> import torch
        >>> network = ResNet(18, outputs=10, channels=1, width=8, stem="small")
        >>> digits = torch.rand(5, 1, 28, 28)
        >>> network(digits).shape, network.feature_map(digits).shape
        (torch.Size([5, 10]), torch.Size([5, 64, 2, 2]))

    Reference:
        He et al. (2016), "Deep residual learning for image recognition".
        https://arxiv.org/abs/1512.03385
    """

    def __init__(
        self,
        layers: int = 18,
        *,
        outputs: int | None = 1000,
        channels: int = 3,
        width: int = 64,
        stem: str = "large",
        pool: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if layers not in _BLOCKS:
            raise ValueError(f"layers must be 18 or 34, got {layers}")
        check_counts(outputs=1 if outputs is None else outputs, channels=channels, width=width)
        if stem == "large":
            self.conv1 = nn.Conv2d(channels, width, 7, stride=2, padding=3, bias=False)
        elif stem == "small":
            self.conv1 = nn.Conv2d(channels, width, 3, padding=1, bias=False)
        else:
            raise ValueError(f'stem must be "large" or "small", got {stem!r}')
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        blocks = _BLOCKS[layers]
        self.layer1 = _stage(width, width, blocks[0], stride=1)
        self.layer2 = _stage(width, 2 * width, blocks[1], stride=2)
        self.layer3 = _stage(2 * width, 4 * width, blocks[2], stride=2)
        self.layer4 = _stage(4 * width, 8 * width, blocks[3], stride=2)
        self.pool = pool
        self.fc = None if outputs is None else nn.Linear(8 * width, outputs)
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")

    def feature_map(self, images: Tensor) -> Tensor:
        """Map pictures (B, channels, H, W) to features at each place, (B, 8 * width, h, w)."""
        shape = (None, self.conv1.in_channels, None, None)
        check_shape(images, shape, name="images", letters="(B, channels, H, W)")
        check_floating(images, name="images")
        features = self.maxpool(self.bn1(self.conv1(images)).relu_())
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            features = stage(features)
        return cast(Tensor, features)

    def vector(self, images: Tensor) -> Tensor:
        """Map pictures (B, channels, H, W) to one vector each, (B, 8 * width)."""
        features = self.feature_map(images)
        if self.pool is None:
            return features.mean(dim=(2, 3))
        pooled = cast(Callable[[Tensor], Tensor], self.pool)(features.flatten(2).transpose(1, 2))
        shape = (images.shape[0], features.shape[1])
        check_shape(pooled, shape, name="output of pool", letters="(B, 8 * width)")
        return pooled

    def forward(self, images: Tensor) -> Tensor:
        """Map pictures (B, channels, H, W) to outputs (B, outputs), or vectors without them."""
        vector = self.vector(images)
        return vector if self.fc is None else cast(Tensor, self.fc(vector))


class _Block(nn.Module):
    """Two 3 x 3 convolutions, added to what came in."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, features: Tensor) -> Tensor:
        skipped = features if self.downsample is None else self.downsample(features)
        inner = self.bn2(self.conv2(self.bn1(self.conv1(features)).relu_()))
        return cast(Tensor, (inner + skipped).relu_())


def _stage(inputs: int, outputs: int, blocks: int, *, stride: int) -> nn.Sequential:
    rest = [_Block(outputs, outputs, 1) for _ in range(blocks - 1)]
    return nn.Sequential(_Block(inputs, outputs, stride), *rest)
