"""The author's numbers. There the step is divided by the batch size, and losses are batch means."""

import pytest
import torch
from torch import nn

from torchsets.decoders import DSPN
from torchsets.encoders import mlp_encoder, relation_encoder
from torchsets.losses import chamfer_loss, hungarian_loss

CLOSE = {"rtol": 1e-6, "atol": 1e-10}  # the author's float64 runs


def load_encoder(arrays, prefix, *, slots):
    """An encoder with the author's weights, and the author's name of each parameter."""
    first = arrays[f"{prefix}conv.0.weight"].flatten(1)
    latent, hidden = len(arrays[f"{prefix}pool.weight"]), len(first)
    if f"{prefix}conv.4.weight" in arrays:
        encoder = mlp_encoder(first.shape[1], hidden, latent, slots=slots)
        names = {f"inner.{layer}": f"conv.{layer}" for layer in (0, 2, 4)}
    else:
        encoder = relation_encoder(first.shape[1] // 2, hidden, latent, slots=slots)
        names = {"first": "conv.0", "inner": "conv.2"}
    names["pool"] = "pool"
    state = {
        key: arrays[prefix + names[key.rpartition(".")[0]] + "." + key.rpartition(".")[2]]
        for key in encoder.state_dict()
    }
    encoder = encoder.double()
    encoder.load_state_dict(
        {key: value.reshape(encoder.state_dict()[key].shape) for key, value in state.items()}
    )
    parameters = {
        names[key.rpartition(".")[0]] + "." + key.rpartition(".")[2]: parameter
        for key, parameter in encoder.named_parameters()
    }
    return encoder, parameters


def load_dspn(arrays, **options):
    batch, _, slots = arrays["target_set"].shape
    encoder, parameters = load_encoder(arrays, "param.encoder.", slots=slots)
    decoder = DSPN(
        encoder,
        slots=slots,
        features=arrays["target_set"].shape[1],
        steps=int(arrays["T"]),
        step_size=float(arrays["lr"]) / batch,
        **options,
    ).double()
    with torch.no_grad():
        decoder.initial_elements.copy_(arrays["param.starting_set"][0].T)
        decoder.initial_presence.copy_(arrays["param.starting_mask"][0])
    parameters = {f"encoder.{name}": parameter for name, parameter in parameters.items()}
    return decoder, parameters


def assert_gradients(decoder, parameters, arrays, prefix):
    for name, parameter in parameters.items():
        expected = arrays[f"{prefix}.{name}"].reshape(parameter.shape)
        torch.testing.assert_close(parameter.grad, expected, **CLOSE)
    expected = arrays[f"{prefix}.starting_set"][0].T
    torch.testing.assert_close(decoder.initial_elements.grad, expected, **CLOSE)
    expected = arrays[f"{prefix}.starting_mask"][0]
    torch.testing.assert_close(decoder.initial_presence.grad, expected, **CLOSE)


def target(arrays):
    return arrays["target_set"].transpose(1, 2), arrays["target_mask"]


def with_presence(elements, presence):
    return torch.cat([elements, presence.unsqueeze(-1)], dim=-1)


FILES = ["dspn_fs_small", "dspn_fs_huber", "dspn_rnfs_small"]


@pytest.mark.parametrize("name", ["dspn_enc_FSEncoder", "dspn_enc_RNFSEncoder"])
def test_encoders_agree(golden, name):
    arrays = golden(name)
    encoder, parameters = load_encoder(arrays, "param.", slots=arrays["mask"].shape[1])
    sets = with_presence(arrays["set"].transpose(1, 2), arrays["mask"]).requires_grad_()
    encoded = encoder(sets)
    torch.testing.assert_close(encoded, arrays["out"], **CLOSE)
    (encoded * arrays["cot"]).sum().backward()
    torch.testing.assert_close(sets.grad[..., :-1].transpose(1, 2), arrays["grad_set"], **CLOSE)
    torch.testing.assert_close(sets.grad[..., -1], arrays["grad_mask"], **CLOSE)
    for key, parameter in parameters.items():
        expected = arrays[f"grad.{key}"].reshape(parameter.shape)
        torch.testing.assert_close(parameter.grad, expected, **CLOSE)


@pytest.mark.parametrize("name", FILES)
def test_trajectories_agree(golden, name):
    arrays = golden(name)
    decoder, _ = load_dspn(arrays)
    trajectory = decoder(arrays["z"]).trajectory
    torch.testing.assert_close(trajectory.elements.transpose(2, 3), arrays["sets"], **CLOSE)
    torch.testing.assert_close(trajectory.presence, arrays["masks"], **CLOSE)
    torch.testing.assert_close(trajectory.loss.mean(dim=1), arrays["repr_losses"], **CLOSE)


@pytest.mark.parametrize("name", FILES)
def test_gradients_through_all_steps_agree(golden, name):
    arrays = golden(name)
    decoder, parameters = load_dspn(arrays)
    vector = arrays["z"].clone().requires_grad_()
    prediction = decoder(vector)
    through_elements = (prediction.elements.transpose(1, 2) * arrays["cot_set"]).sum()
    (through_elements + (prediction.presence * arrays["cot_mask"]).sum()).backward()
    torch.testing.assert_close(vector.grad, arrays["grad.z"], **CLOSE)
    assert_gradients(decoder, parameters, arrays, "grad")


@pytest.mark.parametrize("name", ["dspn_fs_small", "dspn_fs_huber"])
def test_auto_encoder_agrees(golden, name):
    arrays = golden(name)
    decoder, parameters = load_dspn(arrays)
    elements, presence = target(arrays)
    vector = decoder.encode(elements, presence.bool())
    torch.testing.assert_close(vector, arrays["enc_target"], **CLOSE)
    trajectory = decoder(vector).trajectory
    sets = with_presence(trajectory.elements, trajectory.presence)
    loss = chamfer_loss(
        sets, with_presence(elements, presence), element="huber", reduction="mean"
    ).mean()
    torch.testing.assert_close(loss, arrays["ae_loss"], **CLOSE)
    loss.backward()
    assert_gradients(decoder, parameters, arrays, "grad_ae")


@pytest.mark.parametrize(
    ("steps", "prefix", "expected"),
    [
        (slice(-1, None), "grad_sup", "loss_supervised"),
        (slice(None), "grad_supall", "loss_supervised_allsteps"),
    ],
)
def test_supervised_training_agrees(golden, steps, prefix, expected):
    arrays = golden("dspn_rnfs_small")
    decoder, parameters = load_dspn(arrays)
    vector = arrays["z"].clone().requires_grad_()
    trajectory = decoder(vector).trajectory
    elements, presence = target(arrays)
    truth = with_presence(elements, presence)
    sets = with_presence(trajectory.elements, trajectory.presence)[steps]
    set_loss = hungarian_loss(sets, truth, element="huber", reduction="mean").mean()
    representation = decoder.representation_loss(vector, elements, presence.bool()).mean()
    torch.testing.assert_close(representation, arrays["repr_term"], **CLOSE)
    loss = set_loss + 0.1 * representation
    torch.testing.assert_close(loss, arrays[expected], **CLOSE)
    loss.backward()
    torch.testing.assert_close(vector.grad, arrays[f"{prefix}.z"], **CLOSE)
    assert_gradients(decoder, parameters, arrays, prefix)


class AscendingEncoder(nn.Module):
    """The later encoder: an ascending sort with one weight per rank, no division."""

    def __init__(self, arrays):
        super().__init__()
        self.weights = nn.ParameterDict(
            {
                key.removeprefix("param.").replace(".", "_"): nn.Parameter(value)
                for key, value in arrays.items()
                if key.startswith("param.")
            }
        )

    def forward(self, sets):
        weights = self.weights
        hidden = nn.functional.linear(sets, weights["mlp_0_weight"], weights["mlp_0_bias"]).relu()
        features = nn.functional.linear(hidden, weights["mlp_2_weight"], weights["mlp_2_bias"])
        return (features.sort(dim=1).values * weights["pool_weight"]).sum(dim=1)


@pytest.mark.parametrize("gradient", ["implicit", "unrolled"])
@pytest.mark.parametrize("name", ["idspn_fs", "idspn_fs_nomomentum"])
def test_later_version_agrees(golden, name, gradient):
    arrays = golden(name)
    decoder = DSPN(
        AscendingEncoder(arrays),
        slots=arrays["set_0"].shape[1],
        features=arrays["set_0"].shape[2],
        steps=int(arrays["iters"]),
        step_size=float(arrays["lr"]),
        momentum=float(arrays["momentum"]),
        variable_size=False,
        representation_loss="squared",
        gradient=gradient,
    ).double()
    vector = arrays["z"].clone().requires_grad_()
    prediction = decoder(vector, initial=arrays["set_0"])
    torch.testing.assert_close(prediction.trajectory.elements, arrays["iterates"], **CLOSE)
    losses = prediction.trajectory.loss.sum(dim=1)
    torch.testing.assert_close(losses, arrays["objective"][:-1], **CLOSE)
    torch.testing.assert_close(prediction.elements, arrays["out"], **CLOSE)
    (prediction.elements * arrays["cot"]).sum().backward()
    prefix = "grad" if gradient == "implicit" else "unrolled_grad"
    torch.testing.assert_close(vector.grad, arrays[f"{prefix}.z"], **CLOSE)
    for key, parameter in decoder.encoder.weights.items():
        part, layer, *rest = key.split("_")
        expected = arrays[f"{prefix}." + ".".join([part, layer, *rest])]
        torch.testing.assert_close(parameter.grad, expected, **CLOSE)
