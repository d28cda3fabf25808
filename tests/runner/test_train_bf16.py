"""What pet-fairseq train-bf16 does beside fairseq's own training."""

from argparse import Namespace

import pytest
import torch
import torch.nn.functional as F

from pet_fairseq.runner.train_bf16 import attention_kernel

SENTENCES = {"source_lang": "de"}, {"num_classes": 2}


def fused() -> bool:
    return torch.backends.cuda.flash_sdp_enabled()  # the switch of the CPU's kernel, too


@pytest.mark.parametrize("task", SENTENCES)
def test_sentences_have_plain_attention_on_a_cpu(task):
    assert fused()
    with attention_kernel(Namespace(cpu=True, **task)):
        assert not fused()
    assert fused()


@pytest.mark.parametrize("cpu, task", [(True, {}), *((False, task) for task in SENTENCES)])
def test_long_texts_and_gpus_have_what_torch_chooses(cpu, task):
    with attention_kernel(Namespace(cpu=cpu, **task)):
        assert fused()


@pytest.mark.parametrize("seed", range(3))
def test_both_kernels_compute_the_same(seed):
    """Against attention written out in float64, as far as bfloat16's digits go."""
    torch.manual_seed(seed)
    q, k, v = (torch.randn(3, 2, 7, 10) for _ in range(3))
    padding = torch.arange(7) >= torch.tensor([[7], [4], [2]])
    mask = torch.zeros(3, 1, 1, 7).masked_fill(padding[:, None, None], -torch.inf)
    scores = (q.double() @ k.double().transpose(2, 3)) / 10**0.5 + mask.double()
    expected = scores.softmax(dim=-1) @ v.double()
    for args in (Namespace(cpu=True, source_lang="de"), Namespace(cpu=True)):
        with attention_kernel(args):
            found = F.scaled_dot_product_attention(
                *(x.bfloat16() for x in (q, k, v)), attn_mask=mask.bfloat16()
            )
        torch.testing.assert_close(found.double(), expected, rtol=0.03, atol=0.03)
