"""The environment of a recipe's commands: threads, and an allocator that keeps what it has."""

import os
import platform
import subprocess
import sys

import pytest

from pet_fairseq.errors import UserError
from pet_fairseq.runner.device import KEEP_MEMORY, command_environment, make_device

# 100 times 20 MB are filled and freed; how many pages the system had to bring
FAULTS = """
import resource
import numpy as np
np.ones(2_500_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    np.ones(2_500_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    for name in (*KEEP_MEMORY, "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="these variables are glibc's")
def test_kept_memory_is_not_faulted_in_again():
    def faults(variables):
        command = [sys.executable, "-c", FAULTS]
        output = subprocess.check_output(command, env={**os.environ, **variables}, text=True)
        return int(output)

    assert faults(command_environment("cpu", 1)) < faults({}) / 20


def test_jobs_share_the_cores(monkeypatch):
    monkeypatch.setattr("pet_fairseq.runner.device.usable_cores", lambda: 8)
    assert "OMP_NUM_THREADS" not in command_environment("cpu", 1)
    assert command_environment("cpu", 3)["OMP_NUM_THREADS"] == "2"
    assert command_environment("cpu", 20)["OMP_NUM_THREADS"] == "1"


def test_what_the_user_has_set_stays(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    monkeypatch.setenv("MALLOC_MMAP_MAX_", "65536")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    variables = command_environment("cpu", 2)
    assert variables.pop("CUDA_VISIBLE_DEVICES") == ""  # or fairseq would compute on a GPU as well
    assert variables.keys() == KEEP_MEMORY.keys() - {"MALLOC_MMAP_MAX_"}


def test_a_gpu_needs_none_of_it():
    assert command_environment("cuda", 4) == {}


@pytest.mark.parametrize(
    "name, precision, program, options",
    [
        ("cpu", "auto", "fairseq-train", ("--cpu",)),
        ("cpu", "fp32", "fairseq-train", ("--cpu",)),
        ("cpu", "bf16", "pet-fairseq train-bf16", ("--cpu",)),
        ("cuda", "auto", "fairseq-train", ("--fp16",)),
        ("cuda", "fp32", "fairseq-train", ()),
        ("cuda", "bf16", "pet-fairseq train-bf16", ()),
    ],
)
def test_precision(name, precision, program, options):
    device = make_device(name, precision, preferred="fp16")
    assert device.train == tuple(program.split()) and device.training_options == options


def test_a_cpu_does_not_train_in_float16():
    with pytest.raises(UserError, match="--precision fp16: needs a GPU"):
        make_device("cpu", "fp16")
