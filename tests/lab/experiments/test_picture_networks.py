import pytest
import torch

from torchsets.lab.experiments.picture_networks import (
    POSITIONS,
    FlatVector,
    Map,
    make_trunk,
    positions_of,
    short_head,
    thesis_head,
)


@pytest.mark.parametrize("name", ["dspn", "idspn"])
def test_the_heads_are_those_of_the_authors(name, golden):
    arrays = golden(f"image_head_{name}_share")
    features, latent = arrays["x"].shape[1], arrays["out_eval"].shape[1]
    head = thesis_head(features, latent) if name == "dspn" else short_head(features, latent, 4)
    head = head.double()
    head.load_state_dict(
        {key[6:]: value for key, value in arrays.items() if key.startswith("param.")}
    )
    torch.testing.assert_close(head.eval()(arrays["x"]), arrays["out_eval"])
    torch.testing.assert_close(head.train()(arrays["x"]), arrays["out_train"])


def test_the_small_network_halves_pictures_of_64_pixels_to_a_map_of_4():
    images = torch.rand(2, 3, 64, 64)
    assert make_trunk(10, width=4).feature_map(images).shape == (2, 32, 4, 4)


def test_resnet_34_has_as_many_weights_as_counted_in_the_thesis():
    trunk, head = make_trunk(34, width=64), thesis_head(512, 512)
    weights = [sum(one.numel() for one in part.parameters()) for part in (trunk, head)]
    assert weights == [21_284_672, 3_409_920]


def test_the_network_of_the_thesis_starts_from_glorots_weights():
    torch.manual_seed(0)
    network = FlatVector(34, width=8, size=128, latent=16)
    convolutions = [part for part in network.modules() if isinstance(part, torch.nn.Conv2d)]
    assert len(convolutions) == 38  # 33, three that halve the map, two of the head
    for part in convolutions:
        places = part.kernel_size[0] * part.kernel_size[1]
        limit = (6 / (places * (part.in_channels + part.out_channels))) ** 0.5
        assert 0.9 * limit < part.weight.abs().max() <= limit
        assert part.bias is None or not part.bias.any()


def test_tokens_are_the_places_of_the_map_with_their_positions():
    network = Map(10, width=4).eval()
    images = torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8)
    with torch.no_grad():
        tokens = network(images)
    assert tokens.shape == (2, 64, 16 + POSITIONS)
    torch.testing.assert_close(tokens[1, :, 16:], positions_of(8, 8))


def test_positions_tell_every_place_from_every_other():
    positions = positions_of(8, 8)
    assert positions.shape == (64, POSITIONS)
    torch.testing.assert_close(positions[0, :2], torch.tensor([-7 / 8, -7 / 8]))
    torch.testing.assert_close(positions[1, :2], torch.tensor([-7 / 8, -5 / 8]))
    distances = torch.cdist(positions, positions) + 10 * torch.eye(64)
    assert distances.min() > 0.1


def test_a_latent_that_does_not_fit_the_map_is_rejected():
    with pytest.raises(ValueError, match="latent must be a multiple of 4 places, got 30"):
        FlatVector(10, width=4, size=64, latent=30)


@pytest.mark.parametrize(("width", "last"), [(4, False), (8, True), (24, True)])
def test_pictures_are_read_as_the_numbers_0_to_1_with_their_channels_last_if_many(width, last):
    seen: list[torch.Tensor] = []
    network = FlatVector(10, width=width, size=64, latent=32)
    network.trunk.conv1.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    images = torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8)
    network(images)
    torch.testing.assert_close(seen[0], images / 255)
    assert seen[0].is_contiguous(memory_format=torch.channels_last) is last
