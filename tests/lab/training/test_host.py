import os

import pytest
import torch

from torchsets.lab.training import use_one_thread


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    before = torch.get_num_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", "2")  # put back what was there before
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_a_cpu_gets_one_thread_and_the_records_see_it(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert use_one_thread(torch.device("cpu"))
    assert torch.get_num_threads() == 1
    assert os.environ["OMP_NUM_THREADS"] == "1"


def test_who_asks_for_threads_gets_them():
    assert not use_one_thread(torch.device("cpu"))
    assert torch.get_num_threads() == 2


def test_a_gpu_leaves_the_threads_of_the_host_alone(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert not use_one_thread(torch.device("cuda"))
    assert torch.get_num_threads() == 2
