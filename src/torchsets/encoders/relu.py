"""A rectifier that is cheap to differentiate twice."""

import torch
from torch import Tensor, nn

from torchsets._autograd import Context, apply, fast_or_plain, relu_backward


class ReLU(nn.Module):
    """max(x, 0). Its second derivative is zero, and here no time is spent on adding the zeros.

    torch fills a tensor with them and adds it, in every backward pass through a gradient: a tenth
    of the time of an unrolled DSPN.

    Example:
        >>> ReLU()(torch.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """

    def forward(self, inputs: Tensor) -> Tensor:
        return fast_or_plain(_Rectify, torch.relu, inputs)


class _Rectify(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, inputs: Tensor) -> Tensor:
        outputs = inputs.relu()
        ctx.save_for_backward(outputs)
        return outputs

    @staticmethod
    def backward(ctx: Context, gradient: Tensor) -> Tensor:
        return _where_positive(gradient, *ctx.saved_tensors)


class _WherePositive(torch.autograd.Function):
    """Keep the gradient where the outputs are positive; linear in the gradient."""

    @staticmethod
    def forward(ctx: Context, gradient: Tensor, outputs: Tensor) -> Tensor:
        ctx.save_for_backward(outputs)
        return relu_backward(gradient, outputs)

    @staticmethod
    def backward(ctx: Context, gradient: Tensor) -> tuple[Tensor, None]:
        return _where_positive(gradient, *ctx.saved_tensors), None


def _where_positive(gradient: Tensor, outputs: Tensor) -> Tensor:
    if torch.is_grad_enabled():
        return apply(_WherePositive, gradient, outputs)
    return relu_backward(gradient, outputs)
