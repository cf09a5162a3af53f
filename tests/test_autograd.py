import ast
from pathlib import Path

import pytest
import torch
from torch import nn

import torchsets
from torchsets._autograd import (
    call_lstm,
    fast_or_plain,
    is_exporting,
    is_traced,
    record_graph,
    relu_backward,
    softmax_backward,
)
from torchsets.decoders import DSPN
from torchsets.encoders import mlp_encoder

ROOT = Path(torchsets.__file__).parent


class Answer(nn.Module):
    """Keeps what a question answers while the module runs."""

    def __init__(self, question):
        super().__init__()
        answers = self.answers = []  # torch.export restores attributes, but not what a closure has
        self.ask = lambda: answers.append(question())

    def forward(self, x):
        self.ask()
        return x + 1


def transforms(module):
    x = torch.zeros(2)
    yield "vmap", lambda: torch.vmap(module)(x)
    yield "grad", lambda: torch.func.grad(lambda x: module(x).sum())(x)
    yield "trace", lambda: torch.jit.trace(module, x, check_trace=False)
    yield "export", lambda: torch.export.export(module, (x,))


@pytest.mark.filterwarnings("ignore:.*torch.jit.*")
@pytest.mark.parametrize("name", ["vmap", "grad", "trace", "export"])
def test_every_recording_is_noticed(name):
    module = Answer(is_traced)
    answers = module.answers
    dict(transforms(module))[name]()
    assert answers
    assert all(answers)


def test_compiling_is_noticed():
    def ask(x):
        return x + 1 if is_traced() else x

    assert torch.compile(ask, backend="eager", fullgraph=True)(torch.zeros(1)).item() == 1


def test_running_is_no_recording():
    module = Answer(is_traced)
    module(torch.zeros(1, requires_grad=True)).backward()
    with torch.no_grad(), torch.inference_mode():
        module(torch.zeros(1))
    assert module.answers == [False, False]


def test_exporting_is_told_from_compiling():
    module = Answer(is_exporting)
    answers = module.answers
    torch.export.export(module, (torch.zeros(2),))
    assert answers
    assert all(answers)

    def ask(x):
        return x + 1 if is_exporting() else x

    assert torch.compile(ask, backend="eager", fullgraph=True)(torch.zeros(1)).item() == 0


def test_a_torch_without_is_exporting(monkeypatch):
    monkeypatch.delattr(torch.compiler, "is_exporting")
    assert not is_exporting()
    decoder = DSPN(mlp_encoder(3, 4, 2, slots=2), slots=2, features=2)
    assert decoder(torch.zeros(1, 2)).elements.isfinite().all()


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient


def test_fast_or_plain():
    def call(x):
        return fast_or_plain(Double, lambda x: 3 * x, x)

    x = torch.ones(2)
    assert call(x).tolist() == [2, 2]
    assert torch.vmap(call)(x).tolist() == [3, 3]


def test_backward_operations(generator):
    inputs = torch.randn(3, 5, dtype=torch.float64, generator=generator, requires_grad=True)
    gradient = torch.randn(3, 5, dtype=torch.float64, generator=generator)
    for forward, backward in ((torch.relu, relu_backward), (_softmax, softmax_backward)):
        outputs = forward(inputs)
        (expected,) = torch.autograd.grad(outputs, inputs, gradient)
        torch.testing.assert_close(backward(gradient, outputs.detach()), expected)
    out = torch.empty_like(gradient)
    assert relu_backward(gradient, inputs.detach(), out=out) is out
    torch.testing.assert_close(out, gradient * (inputs.detach() > 0))


def _softmax(inputs):
    return inputs.softmax(dim=-1)


def test_recorded_gradients(generator):
    def function(x, scale):
        return torch.func.grad(lambda x: (scale["a"] * x.pow(3)).sum())(x)

    x = torch.randn(4, generator=generator)
    graph = record_graph(function, x, {"a": torch.ones(())})
    torch.testing.assert_close(graph(x, {"a": torch.tensor(2.0)}), 6 * x.square())


PRIVATE = ("_C", "_softmax_backward_data", "aten", "make_fx", "_disable_current_modes")


def private_names(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr in PRIVATE:
            yield node.attr
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch."):
            yield from (alias.name for alias in node.names if alias.name in PRIVATE)
            if any(part.startswith("_") for part in node.module.split(".")):
                yield node.module


def test_private_torch_has_one_home():
    found = {path.name: list(private_names(path)) for path in ROOT.rglob("*.py")}
    assert [name for name, names in found.items() if names] == ["_autograd.py"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("layers", [1, 2])
def test_an_lstm_keeps_its_precision_under_autocast(dtype, layers):
    torch.manual_seed(0)
    lstm = nn.LSTM(2, 3, num_layers=layers, batch_first=True)
    inputs, cell = torch.randn(4, 5, 2), torch.randn(layers, 4, 3)
    for start in (None, cell):
        expected = call_lstm(lstm, inputs, cell=start)
        with torch.autocast("cpu", dtype=dtype):
            found = call_lstm(lstm, inputs, cell=start)
        torch.testing.assert_close(found, expected)
        states, (_, cells) = lstm(inputs, None if start is None else (0 * start, start))
        torch.testing.assert_close(expected, (states, cells))
