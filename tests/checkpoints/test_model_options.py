"""The options that build a checkpoint's model again, as a shell puts them into a command."""

import subprocess
from argparse import Namespace

import pytest
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from torch import nn

from pet_fairseq.checkpoints.model_options import model_options
from tests.translation import make_task, save_model, save_state
from tests.variator.test_flops import CONVOLUTIONS


def test_language_tokens(tmp_path):
    """Several words of one option, and none."""
    task = make_task(tmp_path / "data")
    given = {"source_prefix": ["w1"], "source_end": "", "decoder_start": "</s> w2"}
    path = save_model(tmp_path / "m.pt", task, "bilingual_transformer", **given)
    words = " ".join(model_options(path))
    assert "--source-prefix w1 " in f"{words} " and "--decoder-start </s> w2 " in f"{words} "
    assert "--source-end" not in words


def test_lists(tmp_path):
    """Without blanks, which no quotes would keep together in $(...)."""
    task = make_task(tmp_path / "data")
    path = save_model(tmp_path / "m.pt", task, "lightconv", **CONVOLUTIONS)
    (tmp_path / "options").write_text(" ".join(model_options(path)))
    shell = f"printf '%s\\n' $(cat {tmp_path}/options)"
    words = subprocess.run(["sh", "-c", shell], capture_output=True, text=True).stdout.split("\n")
    args = options.parse_args_and_arch(
        *(options.get_training_parser(), ["data", *words[:-1]]),
        parse_known=False,
    )
    assert args.encoder_kernel_size_list == args.decoder_kernel_size_list == [3, 7]


@pytest.mark.parametrize(
    "given",
    [
        ["--arch", "transformer_lm"],
        "--arch transformer_lm --decoder-embed-dim 16 --decoder-layers 2 --layernorm-embedding "
        "--decoder-layers-to-keep 0,1 --share-decoder-input-output-embed".split(),
        "--arch transformer_lm_gpt2_tiny --decoder-layers 3 --dropout 0.0".split(),
        "--arch lstm_lm --decoder-embed-dim 16".split(),
    ],
)
def test_language_models(given, tmp_path):
    """fairseq reads the same options from the printed words as from those of the training."""
    trained = read_options(given)
    save_state(tmp_path / "lm.pt", nn.Linear(1, 1), trained, Namespace())
    words = model_options(str(tmp_path / "lm.pt"))
    assert read_options(words) == trained
    assert words[: len(given[:2])] == given[:2] and len(words) <= len(given) + 4


def read_options(words):
    """The options of the model that fairseq-train has for a command line."""
    parser = options.get_training_parser()
    command = ["data", "--task", "language_modeling", *words]
    return convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, command)).model
