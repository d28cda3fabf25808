"""Every test starts from the same random state, on one thread."""

import random

import numpy as np
import pytest
import torch

import pet_fairseq

pet_fairseq.register()  # as --user-dir does
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def seed():
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
