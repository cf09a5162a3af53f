import io
import json
import os
import platform
import random
import signal
import sys
import time

import numpy as np
import pytest
import torch
from torch import nn

from torchsets.lab.records import Recorder, read_run
from torchsets.lab.training import (
    Settings,
    keep_freed_memory,
    linear_decay,
    pick_device,
    seed_everything,
    train,
)

STEPS = 17


class CrashError(Exception):
    pass


def start(folder):
    return Recorder.start(folder, experiment="toy", scale="smoke", config={"seed": 0})


def test_seeds_beyond_those_of_numpy_are_taken():
    seed_everything(2**32 + 5)
    above = np.random.rand()
    seed_everything(5)
    assert np.random.rand() == above


def train_noisy_model(recorder, *, stop_at=None, with_signal=None, optimiser=torch.optim.Adam):
    """Train with all sources of randomness: dropout, numpy, Python, the generator of the data."""
    seed_everything(1)
    model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 1))

    def draw(step, generator):
        if step == stop_at and with_signal:
            os.kill(os.getpid(), with_signal)
        elif step == stop_at:
            raise CrashError
        return torch.rand(4, 2, generator=generator) + np.random.rand() + random.gauss(0, 1)

    settings = Settings(
        STEPS,
        schedule=linear_decay,
        clip=1.0,
        seed=5,
        record_every=4,
        evaluate_every=6,
        checkpoint_every=3,
    )
    with recorder:  # closed also by a crash
        history = train(
            model,
            optimiser(model.parameters(), lr=0.01),
            lambda batch: {"error": model(batch).square().mean(), "size": model[0].weight.norm()},
            draw,
            recorder=recorder,
            task="panel/noisy",
            settings=settings,
            evaluate=lambda: {"score": model(torch.ones(1, 2)).item() + torch.rand(()).item()},
        )
    return model, torch.rand(3), np.random.rand(), random.random(), history.curve("score")


def assert_same(first, second):
    for (name, left), right in zip(
        first[0].state_dict().items(), second[0].state_dict().values(), strict=True
    ):
        assert torch.equal(left, right), name
    assert torch.equal(first[1], second[1])
    assert first[2:] == second[2:]


@pytest.mark.parametrize(
    "optimiser",
    [torch.optim.Adam, torch.optim.SGD, lambda p, lr: torch.optim.Adam(p, lr=lr, fused=True)],
)
@pytest.mark.parametrize("stop_at", [2, 3, 10, 16])
def test_a_crashed_run_ends_bit_for_bit_where_an_uninterrupted_one_ends(
    tmp_path, stop_at, optimiser
):
    whole = train_noisy_model(start(tmp_path / "whole"), optimiser=optimiser)
    with pytest.raises(CrashError):
        train_noisy_model(start(tmp_path / "cut"), stop_at=stop_at, optimiser=optimiser)
    resumed = train_noisy_model(Recorder.resume(tmp_path / "cut"), optimiser=optimiser)
    assert_same(resumed, whole)
    assert metrics(tmp_path / "cut") == metrics(tmp_path / "whole")


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def number(request):
    """A signal that is not ignored, as SIGHUP is by all that nohup starts."""
    before = signal.getsignal(request.param)
    if before == signal.SIG_IGN:
        signal.signal(request.param, signal.SIG_DFL)
    yield request.param
    signal.signal(request.param, before)


def test_ctrl_c_saves_at_the_current_step(tmp_path, number):
    whole = train_noisy_model(start(tmp_path / "whole"))
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt):
        train_noisy_model(start(tmp_path / "cut"), stop_at=7, with_signal=number)
    assert signal.getsignal(number) == before
    saved = tmp_path / "cut" / "checkpoint" / "panel" / "noisy" / "000000008" / "state.json"
    assert json.loads(saved.read_text())["step"] == 8
    assert_same(train_noisy_model(Recorder.resume(tmp_path / "cut")), whole)


def test_the_history_holds_what_was_recorded_before_a_resume(tmp_path):
    with pytest.raises(CrashError):
        train_noisy_model(start(tmp_path / "run"), stop_at=10)
    scores = train_noisy_model(Recorder.resume(tmp_path / "run"))[-1]
    assert [step for step, _ in scores] == [6, 12, 17]
    recorded = [line["score"] for line in metrics(tmp_path / "run") if "score" in line]
    assert [score for _, score in scores] == recorded


def test_a_training_without_a_step_is_refused():
    with pytest.raises(ValueError, match="steps must be at least 1, got -5"):
        Settings(-5)


def test_a_finished_task_is_loaded_and_not_trained(tmp_path):
    whole = train_noisy_model(start(tmp_path / "run"))
    again = train_noisy_model(Recorder.resume(tmp_path / "run"), stop_at=0)
    assert_same(again, whole)
    assert len(list((tmp_path / "run" / "checkpoint" / "panel" / "noisy").iterdir())) == 1


def test_the_curve_holds_means_since_the_last_line_and_evaluations(tmp_path):
    model = nn.Linear(1, 1)
    train(
        model,
        torch.optim.SGD(model.parameters(), lr=0.0),
        lambda batch: 0 * model(batch).sum() + batch.sum(),
        lambda step, generator: torch.full((1, 1), float(step)),
        recorder=start(tmp_path / "run"),
        task="means",
        settings=Settings(5, record_every=2, evaluate_every=3),
        evaluate=lambda: {"training": float(model.training or torch.is_grad_enabled())},
    )
    assert metrics(tmp_path / "run") == [
        {"task": "means", "step": 2, "loss": 0.5},
        {"task": "means", "step": 3, "training": 0.0},
        {"task": "means", "step": 4, "loss": 2.5},
        {"task": "means", "step": 5, "loss": 4.0},
        {"task": "means", "step": 5, "training": 0.0},
    ]
    task = read_run(tmp_path / "run").tasks["means"]
    assert (task.steps, task.parameters) == (5, 2)


def test_the_time_of_drawing_is_recorded_over_all_resumes(tmp_path):
    def slow_training(recorder, *, stop_at=None):
        model = nn.Linear(1, 1)

        def draw(step, generator):
            if step == stop_at:
                raise CrashError
            time.sleep(0.01)
            return torch.ones(1, 1)

        with recorder:
            train(
                model,
                torch.optim.SGD(model.parameters(), lr=0.1),
                lambda batch: model(batch).sum(),
                draw,
                recorder=recorder,
                task="slow",
                settings=Settings(10, checkpoint_every=1),
            )

    with pytest.raises(CrashError):
        slow_training(start(tmp_path / "run"), stop_at=9)
    slow_training(Recorder.resume(tmp_path / "run"))
    task = read_run(tmp_path / "run").tasks["slow"]
    assert 0.1 <= task.data_seconds <= task.seconds


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_in_the_loss_says_where(tmp_path, value):
    model = nn.Linear(1, 1)

    def loss(step):
        good = model(torch.ones(1)).sum()
        return {"good": good, "bad": good * (value if step == 3 else 0)}

    with pytest.raises(
        FloatingPointError,
        match=r"in term 'bad' at step 4 of task 'panel/fragile' of experiment 'toy'",
    ):
        train(
            model,
            torch.optim.SGD(model.parameters(), lr=0.1),
            loss,
            lambda step, generator: step,
            recorder=start(tmp_path / "run"),
            task="panel/fragile",
            settings=Settings(9, checkpoint_every=1),
        )
    assert all(p.isfinite().all() for p in model.parameters())


def test_clipping_bounds_the_step_and_the_schedule_scales_it(tmp_path):
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    train(
        model,
        torch.optim.SGD(model.parameters(), lr=1.0),
        lambda batch: 100 * model(batch).sum(),
        lambda step, generator: torch.ones(1, 1),
        recorder=start(tmp_path / "run"),
        task="clipped",
        settings=Settings(4, clip=0.5, schedule=lambda share: 1 - share),
    )
    assert model.weight.item() == pytest.approx(-0.5 * (1 + 0.75 + 0.5 + 0.25), rel=1e-5)


@pytest.mark.parametrize("task", ["", "../up", "a/b/c", "/root", "c/000000002", "b/writing", "7"])
def test_a_task_has_a_plain_name(tmp_path, task):
    model = nn.Linear(1, 1)
    with pytest.raises(ValueError, match=r"task must (be a name or panel/name|not end with a num)"):
        train(
            model,
            torch.optim.SGD(model.parameters(), lr=1.0),
            model,
            lambda step, generator: torch.ones(1, 1),
            recorder=start(tmp_path / "run"),
            task=task,
            settings=Settings(1),
        )


def test_progress_is_shown_on_a_terminal_only(tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen, pipe = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    train_noisy_model(start(tmp_path / "shown"))
    monkeypatch.setattr(sys, "stderr", pipe)
    train_noisy_model(start(tmp_path / "quiet"))
    assert "panel/noisy" in screen.getvalue()
    assert "steps/s" in screen.getvalue()
    assert pipe.getvalue() == ""


def test_an_unknown_device_is_an_error():
    with pytest.raises(ValueError, match="device 'abacus' is not available"):
        pick_device("abacus")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_glibc_agrees_to_keep_freed_memory():
    assert keep_freed_memory() is True


def metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
