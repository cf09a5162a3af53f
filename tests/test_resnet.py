import pytest
import torch

from torchsets.pooling import AttentionPool, FSPool, MaxPool
from torchsets.resnet import ResNet


def narrow(**options):
    torch.manual_seed(0)
    settings = {"outputs": 10, "channels": 1, "width": 4, "stem": "small", **options}
    return ResNet(18, **settings).double()


def digits(count, generator, size=28):
    return torch.randn(count, 1, size, size, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize(("layers", "expected"), [(18, 11_689_512), (34, 21_797_672)])
def test_has_the_published_number_of_parameters(layers, expected):
    assert sum(parameter.numel() for parameter in ResNet(layers).parameters()) == expected


@pytest.mark.parametrize(("layers", "blocks"), [(18, (2, 2, 2, 2)), (34, (3, 4, 6, 3))])
def test_has_the_public_names_of_weights(layers, blocks):
    def norm(name):
        parts = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
        return {f"{name}.{part}" for part in parts}

    expected = {"conv1.weight", "fc.weight", "fc.bias", *norm("bn1")}
    for stage, count in enumerate(blocks, start=1):
        for block in range(count):
            prefix = f"layer{stage}.{block}"
            expected |= {f"{prefix}.conv1.weight", f"{prefix}.conv2.weight"}
            expected |= norm(f"{prefix}.bn1") | norm(f"{prefix}.bn2")
            if stage > 1 and block == 0:
                expected |= {f"{prefix}.downsample.0.weight", *norm(f"{prefix}.downsample.1")}
    state = ResNet(layers).state_dict()
    assert set(state) == expected
    assert state["conv1.weight"].shape == (64, 3, 7, 7)
    assert state["layer2.0.downsample.0.weight"].shape == (128, 64, 1, 1)
    assert state["layer4.1.conv2.weight"].shape == (512, 512, 3, 3)
    assert state["fc.weight"].shape == (1000, 512)


def test_agrees_with_the_authors_classifier(golden):
    arrays = golden("mosaic_implicit_eval_2x2")
    network = narrow(width=2).eval()
    weights = {
        name.removeprefix("classifier."): array
        for name, array in arrays.items()
        if name.startswith("classifier.")
    }
    missing, unknown = network.load_state_dict(weights, strict=False)
    assert unknown == []
    assert all(name.endswith("num_batches_tracked") for name in missing)
    logits = network(arrays["picture"])
    torch.testing.assert_close(logits, arrays["logits"], rtol=1e-6, atol=1e-10)
    loss = torch.nn.functional.cross_entropy(logits, arrays["label"])
    torch.testing.assert_close(loss, arrays["loss"], rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize(
    ("stem", "size", "places"), [("small", 28, 2), ("small", 32, 2), ("large", 64, 2)]
)
def test_the_map_has_the_published_size_and_its_mean_is_the_vector(stem, size, places, generator):
    network = narrow(stem=stem).eval()
    images = digits(3, generator, size)
    features = network.feature_map(images)
    assert features.shape == (3, 32, places, places)
    torch.testing.assert_close(network.vector(images), features.mean(dim=(2, 3)))
    torch.testing.assert_close(network(images), network.fc(network.vector(images)))


def test_without_outputs_the_network_gives_the_vector(generator):
    network, images = narrow(outputs=None).eval(), digits(2, generator)
    assert torch.equal(network(images), network.vector(images))
    assert not any(name.startswith("fc") for name in network.state_dict())


def test_a_pooling_takes_the_place_of_the_mean(generator):
    images = digits(3, generator, 32)
    plain = narrow().eval()
    pooled = narrow(pool=FSPool(32, init="ones")).eval()  # starts as the sum, of 4 places here
    torch.testing.assert_close(pooled.vector(images), 4 * plain.vector(images))
    largest = narrow(pool=MaxPool()).eval()
    torch.testing.assert_close(largest.vector(images), plain.feature_map(images).amax(dim=(2, 3)))
    pooled(images).square().sum().backward()
    assert all(torch.isfinite(p.grad).all() and p.grad.any() for p in pooled.parameters())


def test_rejects_a_pooling_to_several_vectors(generator):
    network = narrow(pool=AttentionPool(32, queries=3).double())
    with pytest.raises(ValueError, match=r"output of pool must have shape \(B, 8 \* width\)"):
        network(digits(2, generator, 32))


def test_a_picture_gives_the_same_in_any_batch_in_evaluation_mode(generator):
    network, images = narrow(), digits(6, generator)
    network(images)  # moves the statistics
    network.eval()
    together = network(images)
    torch.testing.assert_close(network(images[2:3]), together[2:3])
    torch.testing.assert_close(network(images.flip(0)), together.flip(0))


def test_initial_weights_are_kaimings():
    network = ResNet(18)
    for convolution in (network.conv1, network.layer3[1].conv2, network.layer2[0].downsample[0]):
        weight = convolution.weight
        fan_out = weight.shape[0] * weight[0, 0].numel()
        assert weight.std().item() == pytest.approx((2 / fan_out) ** 0.5, rel=0.05)
        assert weight.mean().abs() < 0.1 * weight.std()
    assert (network.bn1.weight == 1).all()
    assert (network.bn1.bias == 0).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": 50}, "layers must be 18 or 34, got 50"),
        ({"outputs": 0}, "outputs must be at least 1, got 0"),
        ({"width": -1}, "width must be at least 1, got -1"),
        ({"stem": "tiny"}, 'stem must be "large" or "small", got \'tiny\''),
    ],
)
def test_rejects_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        ResNet(**options)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (torch.zeros(1, 3, 28, 28), r"images must have shape \(B, channels, H, W\) = \(any, 1,"),
        (torch.zeros(1, 28, 28), r"images must have shape \(B, channels, H, W\)"),
        (torch.zeros(1, 1, 28, 28, dtype=torch.uint8), "images must be floating point"),
    ],
)
def test_rejects_bad_images(images, message):
    with pytest.raises(ValueError, match=message):
        narrow().float()(images)
