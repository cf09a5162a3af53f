"""How well does FSPool classify MNIST with a larger encoder? The thesis says about 99 per cent."""

from functools import partial

from torchsets.lab.experiments.mnist.classify import (
    cases,
    draw_trained,
    shown_epochs,
    train_classifier,
)
from torchsets.lab.experiments.mnist.configs import ROWS, Classify, Large
from torchsets.lab.experiments.mnist.models import build_classifier
from torchsets.lab.experiments.mnist.reconstruct import load_data
from torchsets.lab.records import Cell, Recorder


def run(config: Large, recorder: Recorder) -> None:
    """Train it on augmented sets with a decaying learning rate; measure it after each epoch."""
    recorder.add_table(
        "mnist/large",
        caption="Test accuracy with a larger encoder after 1, 10, 100 and the last epoch",
        unit="%",
        better="higher",
    )
    usual = Classify(
        dataset=config.dataset,
        poolings=("fspool",),
        sigmas=(0.0,),
        starts=("random",),
        epochs=config.epochs,
        training_sets=config.training_sets,
        bucketed=True,
        batch_size=32,
        hidden=config.hidden,
        latent=config.latent,
        classifier_hidden=config.hidden,
        seed=config.seed,
        device=config.device,
    )
    data = load_data(usual, recorder)
    (case,) = cases(usual)
    trained = train_classifier(
        usual,
        recorder,
        case,
        data,
        build=partial(build_classifier, layers=config.layers, two_stages=config.two_stages),
        augment=config.augment,
        decay=config.decay,
    )
    recorder.add_results(
        Cell("mnist/large", ROWS[case.pooling], name, None, value)
        for _, name, value in shown_epochs(trained.curve)
    )
    draw_trained(recorder, {case: trained})
