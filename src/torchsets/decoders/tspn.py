"""The transformer set prediction network: as many random points as there should be elements."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from torchsets._autograd import is_traced
from torchsets._checks import check_counts, check_floating, check_mask, check_shape, check_tensor
from torchsets.decoders.slot_start import GaussianStart, check_initial
from torchsets.mlp import MLP, glorot_
from torchsets.padded import SetPrediction, check_lengths, fill_padding, lengths_to_mask
from torchsets.transformer import TransformerLayer


class TSPNDecoder(nn.Module):
    """Predict a set from one vector: its size first, then that many points, drawn and moved.

    The points are drawn from a learned Gaussian, each is given the vector, and transformer layers
    over them make them the elements. No point is responsible for any element, and permuting the
    points permutes the set. The size is learned by classification: add :meth:`size_loss` to the
    loss of the sets, and give the true sizes in training.

    Args:
        features: Number of features D of an element.
        slots: Largest size of a set, N.
        inputs: Size L of the vector.
        hidden: Size of a point; ``heads`` divides it.
        layers: Number of layers.
        heads: Number of heads of each attention.
        feedforward: Width of the feed-forward parts. None: 4 times ``hidden``.
        norm_first: Whether each layer norm stands before its part, or after the residual sum.

    Example:
        >>> decoder = TSPNDecoder(2, 5, inputs=16, hidden=32)
        >>> prediction = decoder(torch.zeros(2, 16), sizes=torch.tensor([1, 3]))
        >>> [points.shape for points in prediction.to_list()]
        [torch.Size([1, 2]), torch.Size([3, 2])]

    Reference:
        Kosiorek, Kim, Rezende (2020), "Conditional set generation with transformers".
        https://arxiv.org/abs/2006.16841
    """

    def __init__(
        self,
        features: int,
        slots: int,
        *,
        inputs: int,
        hidden: int = 128,
        layers: int = 3,
        heads: int = 4,
        feedforward: int | None = None,
        norm_first: bool = True,
    ) -> None:
        super().__init__()
        check_counts(layers=layers, slots=slots)
        self.inputs, self.hidden, self.slots = inputs, hidden, slots
        self.start = GaussianStart(slots, hidden)
        self.give = nn.Linear(inputs, hidden)
        self.layers = nn.ModuleList(
            TransformerLayer(
                hidden,
                heads,
                hidden=feedforward or 4 * hidden,
                norm_first=norm_first,
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, features)
        self.size = MLP(inputs, hidden, slots + 1)
        glorot_(self)

    def forward(
        self,
        vector: Tensor,
        *,
        sizes: Tensor | None = None,
        initial: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> SetPrediction:
        """Decode vectors into sets.

        Args:
            vector: One vector per set, (B, L), floating point.
            sizes: How many points to draw for each set, (B,), integers from 0 to ``slots``. None:
                the likeliest of :meth:`size_logits`.
            initial: Points to start from, (B or 1, slots, hidden), as :meth:`initial_points` gives
                them; a set then decodes the same alone as in any batch. None: drawn.
            generator: Draws the points. Which numbers a set gets depends on its place in the
                batch, and on nothing else of the other sets.

        Returns:
            The sets: the first slots are drawn and have presence 1, the others have elements and
            presences of 0.

        Raises:
            ValueError: If a shape or dtype differs from the above.
        """
        self._check(vector)
        count = vector.shape[0]
        if sizes is None:
            sizes = self.size_logits(vector).argmax(dim=1)
        check_tensor(sizes, name="sizes")
        if sizes.shape != (count,) or sizes.is_floating_point() or sizes.dtype == torch.bool:
            raise ValueError(
                f"sizes must be {count} integers, one for each vector, got {sizes.dtype} of shape "
                f"{tuple(sizes.shape)}"
            )
        check_lengths(sizes, self.slots, name="sizes")
        drawn = lengths_to_mask(sizes, size=self.slots)
        if initial is None:
            points = self.initial_points(count, generator=generator)
        else:
            points = check_initial(initial, count, self.slots, self.hidden)
        points = points + self.give(vector).unsqueeze(1)
        for layer in self.layers:
            points = layer(points, drawn)
        elements = fill_padding(self.head(self.norm(points)), drawn)
        return SetPrediction(elements, drawn.to(elements.dtype))

    def initial_points(self, sets: int, *, generator: torch.Generator | None = None) -> Tensor:
        """Draw the points of so many sets, (B, slots, hidden)."""
        points: Tensor = self.start(sets, generator)
        return points

    def size_logits(self, vector: Tensor) -> Tensor:
        """Score each size from 0 to ``slots``, (B, slots + 1)."""
        self._check(vector)
        logits: Tensor = self.size(vector)
        return logits

    def size_loss(self, vector: Tensor, target_mask: Tensor) -> Tensor:
        """Return the cross entropy of the sizes of target sets, (B, M) bool, one per set: (B,)."""
        shape = torch.Size((vector.shape[0], target_mask.shape[-1]))
        check_mask(target_mask, shape, name="target_mask", of="vector")
        sizes = target_mask.sum(dim=1)
        # Reading values makes a GPU wait: there torch itself stops at a size that is too large.
        if target_mask.shape[1] > self.slots and sizes.device.type == "cpu" and not is_traced():
            largest = int(sizes.max()) if len(sizes) else 0
            if largest > self.slots:
                raise ValueError(
                    f"target_mask must have at most {self.slots} elements in a set, got {largest}"
                )
        return cross_entropy(self.size_logits(vector), sizes, reduction="none")

    def _check(self, vector: Tensor) -> None:
        check_shape(vector, (None, self.inputs), name="vector", letters="(B, L)")
        check_floating(vector, name="vector")
