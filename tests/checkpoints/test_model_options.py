"""The options that build a checkpoint's model again, as a shell puts them into a command."""

import subprocess

from fairseq import options

from pet_fairseq.checkpoints.model_options import model_options
from tests.translation import make_task, save_model
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
