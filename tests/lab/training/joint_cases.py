"""Small trainings that several processes run under torchrun, and one process alone.

Each takes a folder and trains into it; test_processes.py compares what they leave there.
"""

import json
import os
import signal
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from torchsets import SetBatch
from torchsets.data import random_polygons
from torchsets.decoders import DSPN, FSPoolAutoEncoder
from torchsets.encoders import DeepSets
from torchsets.lab.records import Recorder
from torchsets.lab.training import (
    Settings,
    is_first,
    join_processes,
    linear_decay,
    on_first,
    seed_everything,
    train,
)
from torchsets.losses import SetPredictionLoss, chamfer_loss, hungarian_loss
from torchsets.mlp import MLP
from torchsets.permutations import PairwiseCost, PermutationOptimiser
from torchsets.pooling import FSPool, SumPool

STEPS = 50


def open_recorder(folder, *, resume=False):
    """The first process has the real one; a write of another would make a second folder."""
    if not is_first():
        return Recorder.silent(f"{folder}-other")
    if resume:
        return Recorder.resume(folder)
    return Recorder.start(folder, experiment="toy", scale="smoke", config={"seed": 0})


def learn(folder, model, loss, draw, *, steps=STEPS, resume=False, **options):
    model.double()
    with open_recorder(folder, resume=resume) as recorder:
        train(
            model,
            torch.optim.Adam(model.parameters(), lr=0.01),
            loss,
            draw,
            recorder=recorder,
            task="case",
            settings=Settings(steps, record_every=1, **options),
            evaluate=lambda: {"norm": sum(p.square().sum().item() for p in model.parameters())},
        )
    return [p.sum().item() for p in model.parameters()]


def padded_sets(count, generator, *, sizes=None):
    """Sets of 0 to 5 points, nan in the padding, and the class of each."""
    drawn = torch.randint(6, (count,), generator=generator)
    sizes = drawn if sizes is None else sizes
    mask = torch.arange(5) < sizes.unsqueeze(1)
    elements = torch.randn(count, 5, 3, dtype=torch.float64, generator=generator)
    return SetBatch(elements.masked_fill(~mask.unsqueeze(-1), torch.nan), mask), sizes % 3


def classifier(pooling):
    return DeepSets(MLP(3, 8, 8), pooling, MLP(8, 8, 3))


def fspool(folder, *, signal_at=None, **options):
    """An odd number of sets; two terms, one of which does not depend on the sets."""
    model = classifier(FSPool(8))

    def loss(batch):
        sets, labels = batch
        return {
            "classes": cross_entropy(model(*sets), labels),
            "size": 1e-3 * model.inner[0].weight.square().sum(),
        }

    def draw(step, generator):
        if step == signal_at and not is_first():
            os.kill(os.getpid(), signal.SIGTERM)
        return padded_sets(7, generator)

    return learn(folder, model, loss, draw, clip=0.5, schedule=linear_decay, **options)


def fspool_relaxed(folder):
    model = FSPoolAutoEncoder(2, hidden=8, latent=1)
    return learn(
        folder,
        model,
        lambda polygons: (model(polygons) - polygons).square().mean(dim=(1, 2)).mean(),
        lambda step, generator: random_polygons(6, 4, generator=generator).double(),
    )


def dspn(folder, gradient):
    encoder = DeepSets(MLP(3, 16, 16), FSPool(16))
    decoder = DSPN(encoder, slots=4, features=2, steps=5, step_size=1.0, gradient=gradient)
    model = nn.ModuleList([decoder, MLP(2, 16, 16)])
    supervise = "last" if gradient == "implicit" else "all"
    set_loss = hungarian_loss if gradient == "implicit" else chamfer_loss
    criterion = SetPredictionLoss(set_loss, supervise=supervise)

    def loss(batch):
        vectors, targets, mask = batch
        encoded = model[1](vectors)
        representation = decoder.representation_loss(encoded, targets, mask)
        return criterion(decoder(encoded), targets, mask, representation).mean()

    def draw(step, generator):
        sizes = torch.randint(5, (5,), generator=generator)
        vectors = torch.randn(5, 2, dtype=torch.float64, generator=generator)
        targets = torch.rand(5, 4, 2, dtype=torch.float64, generator=generator)
        return vectors, targets, torch.arange(4) < sizes.unsqueeze(1)

    return learn(folder, model, loss, draw)


def permutation(folder):
    model = PermutationOptimiser(PairwiseCost(1, 8), steps=4)
    return learn(
        folder,
        model,
        lambda sets: (model(sets).elements - sets.sort(dim=1).values).square().mean(),
        lambda step, generator: torch.rand(6, 5, 1, dtype=torch.float64, generator=generator),
    )


def empty_sets(folder):
    """The second process has empty sets alone, and its loss does not depend on the model."""
    model = classifier(SumPool())

    def loss(batch):
        (elements, mask), labels = batch
        real = mask.any(dim=1)
        if not real.any():
            return torch.zeros((), dtype=torch.float64)
        return (cross_entropy(model(elements, mask), labels, reduction="none") * real).mean()

    def draw(step, generator):
        return padded_sets(4, generator, sizes=torch.tensor([3, 5, 0, 0]))

    return learn(folder, model, loss, draw, steps=10)


def no_sets(folder):
    """One set for two processes, then none at all."""
    model = classifier(SumPool())

    def loss(batch):
        (elements, mask), labels = batch
        losses = cross_entropy(model(elements, mask), labels, reduction="none")
        return losses.sum() / max(1, len(losses))

    return learn(
        folder, model, loss, lambda step, g: padded_sets(0 if step == 5 else 1, g), steps=10
    )


def unused(folder):
    """A layer that only some sets use: Adam goes on moving it if it gets zeros for a gradient."""
    model = nn.ModuleDict({"always": nn.Linear(3, 1), "seldom": nn.Linear(3, 1)})

    def loss(points):
        losses = model["always"](points).square()
        if (points[:, 0] > 1).any():
            losses = losses + model["seldom"](points).abs() * (points[:, :1] > 1)
        return losses.mean()

    def draw(step, generator):
        return torch.randn(4, 3, dtype=torch.float64, generator=generator)

    return learn(folder, model, loss, draw, steps=20)


CASES = {
    "fspool": fspool,
    "fspool-relaxed": fspool_relaxed,
    "dspn-unrolled": lambda folder: dspn(folder, "unrolled"),
    "dspn-implicit": lambda folder: dspn(folder, "implicit"),
    "permutation": permutation,
    "empty-sets": empty_sets,
    "no-sets": no_sets,
    "unused": unused,
}


def stopped(folder):
    """The second process alone gets a signal; both stop after that step, then go on."""
    try:
        fspool(folder, signal_at=7)
    except KeyboardInterrupt:
        caught = sorted(path.name for path in (folder / "checkpoint" / "case").iterdir())
    seed_everything(0)
    return caught, fspool(folder, resume=True)


def broken(folder):
    """A loss that is nan in the second process only."""
    model = nn.Linear(1, 1)

    def loss(numbers):
        return {"good": model(numbers).mean(), "bad": model(numbers).mean().log() * 0}

    model.weight.data.fill_(1.0)
    model.bias.data.zero_()
    numbers = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    try:
        learn(folder, model, loss, lambda step, generator: numbers)
    except FloatingPointError as error:
        return str(error)


def noisy(folder):
    """Dropout: other masks in each process and step, and the same global chance afterwards."""
    model, masks = nn.Linear(64, 1), []

    def loss(points):
        masks.append(nn.functional.dropout(torch.ones(64)).tolist())
        return model(points).mean()

    learn(folder, model, loss, lambda step, g: torch.ones(2, 64, dtype=torch.float64), steps=2)
    return masks, torch.rand(()).item()


def first_fails():
    def fail():
        raise ValueError(f"seen by {os.environ['RANK']}")

    try:
        on_first(fail)
    except ValueError as error:
        return str(error)


def main(folder):
    facts = {}
    with join_processes():
        for name, case in CASES.items():
            seed_everything(0)
            facts[name] = case(folder / name)
        for name, case in {"stopped": stopped, "broken": broken, "noisy": noisy}.items():
            seed_everything(0)
            facts[name] = case(folder / name)
        facts["first fails"] = first_fails()
        facts["on first"] = on_first(lambda: os.environ["RANK"])
    (folder / f"facts-{os.environ['RANK']}.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
