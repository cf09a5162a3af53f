"""The one home of private torch: what it is doing right now, and operations without a public name.

A faster path with its own backward pass stands beside plain operations in several places. torch
must see the plain ones whenever it records what is computed. All that torch may change between two
releases is called from here.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import torch
from torch import SymInt, Tensor, nn
from torch._guards import tracing
from torch.autograd import Function
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import _register_namedtuple, tree_leaves, tree_map

Context: TypeAlias = Any
"""What autograd hands from forward to backward: functions hang on it what they keep."""


def is_traced() -> bool:
    """Whether torch records or transforms this code instead of only running it.

    That is torch.compile, torch.export, torch.jit.trace (and with it the older ONNX exporter), or
    a torch.func transform. Numbers taken out of a tensor then would be frozen or unavailable.
    """
    return (
        torch.compiler.is_compiling()
        or torch._C._is_tracing()
        or torch._C._are_functorch_transforms_active()
    )


def inside_transform() -> bool:
    """Whether a torch.func transform runs this code, such as ``torch.func.grad``."""
    return torch._C._are_functorch_transforms_active()


def is_vectorised(gradient: Tensor) -> bool:
    """Whether it stands for many gradients at once: ``is_grads_batched``, ``vectorize=True``."""
    return torch._C._functorch.is_legacy_batchedtensor(gradient)


def is_exporting() -> bool:
    """Whether torch.export runs this code; a torch without that question never does."""
    ask = getattr(torch.compiler, "is_exporting", None)  # new in torch 2.7
    return ask is not None and bool(ask())


def becomes_program() -> bool:
    """Whether this is recorded to run later, with other sizes: by torch.export or torch.jit.trace.

    A branch on a size would then be decided once and for all by the example.
    """
    if torch.compiler.is_compiling():  # torch.compile itself cannot ask the second question
        return is_exporting()
    return torch._C._is_tracing()


def refuse_recording(what: str) -> None:
    """Raise ``RuntimeError`` where a program is recorded, for what depends on values it reads."""
    if becomes_program():
        raise RuntimeError(
            f"{what} cannot be exported or traced: what it does next depends on the values it "
            "reads, and those of the example would be frozen; call it after the exported model"
        )


def fast_or_plain(fast: type[Function], plain: Callable[..., Tensor], *arguments: Any) -> Tensor:
    """Call the plain function where torch records what is computed, else the fast one."""
    return plain(*arguments) if is_traced() else apply(fast, *arguments)


def apply(function: type[Function], *arguments: Any) -> Tensor:
    """``function.apply``, whose result torch does not declare."""
    result: Tensor = function.apply(*arguments)  # type: ignore[no-untyped-call]  # torch gives it no type
    return result


def differentiate_plainly(
    ctx: Context, plain: Callable[..., Tensor], cotangent: Tensor, *, inputs: int
) -> tuple[Tensor | None, ...]:
    """The backward pass of the first saved tensors through the plain form of a function.

    Slow, differentiable again where autograd records, and as safe as the plain form. An input that
    the result does not depend on gets zeros.
    """
    given = list(ctx.saved_tensors[:inputs])
    wanted = [index for index in range(inputs) if ctx.needs_input_grad[index]]
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        if not again:
            for index in wanted:
                given[index] = given[index].detach().requires_grad_()
        found = torch.autograd.grad(
            plain(*given),
            [given[index] for index in wanted],
            cotangent,
            create_graph=again,
            materialize_grads=True,
        )
    gradients: list[Tensor | None] = [None] * inputs
    for index, gradient in zip(wanted, found, strict=True):
        gradients[index] = gradient
    return tuple(gradients)


def without_autocast(tensor: Tensor) -> AbstractContextManager[None]:
    """Full precision for what follows on the device of a tensor; the meta device has no other."""
    kind = tensor.device.type
    return nullcontext() if kind == "meta" else torch.autocast(kind, enabled=False)


def once_differentiable(tensor: Tensor, what: str) -> Tensor:
    """The same tensor; ``RuntimeError`` where the gradient of ``what`` is differentiated again.

    For gradients that hold something constant which is not. A compiled program has no second ones.
    """
    if is_traced() and not inside_transform():
        return tensor
    return apply(_OnceDifferentiable, tensor, what, 1)


class _OnceDifferentiable(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(tensor: Tensor, what: str, times: int) -> Tensor:
        return tensor.view_as(tensor)

    @staticmethod
    def setup_context(ctx: Context, inputs: tuple[Tensor, str, int], output: Tensor) -> None:
        _, ctx.what, ctx.times = inputs

    @staticmethod
    def backward(ctx: Context, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _OnceDifferentiable._derive(ctx, gradient), None, None

    @staticmethod
    def jvp(ctx: Context, tangent: Tensor, *_: None) -> Tensor:
        return _OnceDifferentiable._derive(ctx, tangent)

    @staticmethod
    def _derive(ctx: Context, gradient: Tensor) -> Tensor:
        if ctx.times == 0:
            raise RuntimeError(f"{ctx.what} has no second derivatives")
        return apply(_OnceDifferentiable, gradient, ctx.what, ctx.times - 1)


def softmax_backward(gradient: Tensor, outputs: Tensor) -> Tensor:
    """The gradient at the inputs of a softmax over the last axis; itself differentiable."""
    return torch._softmax_backward_data(gradient, outputs, -1, gradient.dtype)


def relu_backward(gradient: Tensor, outputs: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The gradient where the outputs (or inputs) of a rectifier are positive, 0 elsewhere."""
    operation = torch.ops.aten.threshold_backward
    result: Tensor = (
        operation(gradient, outputs, 0)
        if out is None
        else operation.grad_input(gradient, outputs, 0, grad_input=out)
    )
    return result


def run_lstm(
    lstm: nn.LSTM, inputs: Tensor, weights: list[Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    """All states (B, N, hidden) of an LSTM of one layer that reads (B, N, D), and its last cell.

    It starts from zero; ``weights`` take the place of its own. torch.export takes an LSTM apart,
    step by step. If the number of steps is open, it gets a loop, or the LSTM of ONNX, for which
    torch would otherwise fix that number without a word.
    """
    if not (is_exporting() and isinstance(inputs.shape[1], SymInt)):
        states, cells = call_lstm(lstm, inputs, weights)
        return states, cells.squeeze(0)
    zeros = inputs.new_zeros(1, inputs.shape[0], lstm.hidden_size)
    weights = lstm_weights(lstm) if weights is None else weights
    steps = inputs.transpose(0, 1).contiguous()  # (N, B, D)
    if torch.onnx.is_in_onnx_export():
        states, cell = _onnx_lstm(lstm, steps, weights)
    else:
        from torch.export._patches import lstm_while_loop_impl

        states, _, cell = lstm_while_loop_impl(
            steps, [zeros, zeros], weights, lstm.bias, 1, 0.0, False, False, False
        )
    return states.transpose(0, 1), cell.squeeze(0)


def lstm_weights(lstm: nn.LSTM) -> list[Tensor]:
    """Its weights as they are now: the list that torch keeps misses what stands in for them.

    torch.func.functional_call and parametrisations exchange attributes alone.
    """
    return [getattr(lstm, name) for name in lstm._flat_weights_names]


def call_lstm(
    lstm: nn.LSTM,
    inputs: Tensor,
    weights: list[Tensor] | None = None,
    *,
    cell: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """All states (B, N, hidden) of an LSTM that reads (B, N, D), and its last cells.

    ``weights`` take the place of its own, and ``cell`` (layers, B, hidden) of a start from zero.
    Under autocast on a CPU it keeps the dtype of its weights, as torch's GRU does: without AVX-512
    torch has no LSTM of less precision, but calls it.
    """
    own = inputs.device.type == "cpu" and torch.is_autocast_enabled("cpu")
    if own:
        dtype = next(lstm.parameters()).dtype
        inputs, cell = inputs.to(dtype), None if cell is None else cell.to(dtype)
    zeros = inputs.new_zeros(lstm.num_layers, inputs.shape[0], lstm.hidden_size)
    with torch.autocast("cpu", enabled=False) if own else nullcontext():
        if weights is None:
            states, (_, cells) = lstm(inputs, None if cell is None else (zeros, cell))
        else:
            start = [zeros, zeros if cell is None else cell]
            states, _, cells = torch.lstm(
                inputs, start, weights, lstm.bias, 1, 0.0, lstm.training, False, True
            )
    return states, cells


def _onnx_lstm(lstm: nn.LSTM, steps: Tensor, weights: list[Tensor]) -> tuple[Tensor, Tensor]:
    """The operator LSTM of ONNX: (N, B, D) -> (N, B, hidden), and the last cell, (1, B, hidden)."""

    def reorder(weight: Tensor) -> Tensor:
        into, forget, cell, out = weight.chunk(4)
        return torch.cat([into, out, forget, cell]).unsqueeze(0)  # as ONNX has the gates

    from_input, from_state, *biases = (reorder(x) for x in weights)
    last = (1, steps.shape[1], lstm.hidden_size)
    states, _, cell = torch.onnx.ops.symbolic_multi_out(
        "LSTM",
        (steps, from_input, from_state, torch.cat(biases, dim=1)),
        {"hidden_size": lstm.hidden_size},
        dtypes=(steps.dtype, steps.dtype, steps.dtype),
        shapes=((steps.shape[0], *last), last, last),
    )
    return states.squeeze(1), cell


def name_for_export(*kinds: type) -> None:
    """Give named tuples the names that torch.export.save writes: ``torchsets.SetBatch``."""
    for kind in kinds:
        _register_namedtuple(kind, serialized_type_name=f"torchsets.{kind.__name__}")


def record_graph(function: Callable[..., Any], *arguments: Any) -> GraphModule:
    """Record the operations of a function, gradients included, apart from any other recording.

    The arguments are tensors, or containers of them. Only their shapes matter: zeros stand in. The
    graph reads all sizes from its inputs, so those that are not known yet stay open.
    """
    known = [
        size for x in tree_leaves(arguments) for size in x.shape if not isinstance(size, SymInt)
    ]
    other = 1 + max(known, default=1)  # like no other size, or torch would take them for the same

    def zeros_like(tensor: Tensor) -> Tensor:
        shape = [other if isinstance(size, SymInt) else size for size in tensor.shape]
        return torch.zeros(shape, dtype=tensor.dtype, device=tensor.device)

    with tracing(None), _disable_current_modes(), torch._C.DisableTorchFunction():
        return make_fx(function, tracing_mode="symbolic")(*tree_map(zeros_like, arguments))
