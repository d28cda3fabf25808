"""Marian in CTranslate2: the same probabilities as here."""

import os
import subprocess
import sys
from argparse import Namespace
from functools import partial

import pytest
import torch

from pet_fairseq.errors import UserError
from pet_fairseq.export.ctranslate2 import write_script
from pet_fairseq.export.export import export
from tests.byte_pieces import TEXTS as BYTE_TEXTS
from tests.byte_pieces import train
from tests.cli.processes import in_process
from tests.export.translators import (
    PRE_NORM,
    TEXTS,
    bpe_pieces,
    json_pieces,
    make,
    sentence_pieces,
)
from tests.translation import make_model, make_task, save_state

SIZES = {"embed_dim": 16, "ffn_embed_dim": 24, "layers": 2, "attention_heads": 2}
SHAPE = {f"{stack}_{name}": n for stack in ("encoder", "decoder") for name, n in SIZES.items()}
SOURCES = [[5, 9, 4, 7], [6], [8, 8, 5]]
TARGETS = [[4, 6, 9], [7, 5], [9]]


def save_marian(folder, **options):
    """A Marian with random weights in a file, and the model, its task and the file."""
    task = make_task(folder / "data")
    model, args = make_model(task, "marian", **SHAPE | options)
    args._name = "marian"
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.3)
        model.decoder.output_projection.bias.normal_()
    path = folder / "marian.pt"
    save_state(path, model, args, {**vars(task.cfg), "_name": "translation"})
    return model.eval(), task, path


@torch.no_grad()
def log_probabilities(model, task, source, target):
    """Of each word of a target and of its end, the padding word being impossible."""
    pad, eos = task.target_dictionary.pad(), task.target_dictionary.eos()
    tokens = torch.tensor([[*source, eos]])
    output = model(tokens, torch.tensor([tokens.numel()]), torch.tensor([[eos, *target]]))[0][0]
    output[:, pad] = -torch.inf
    return output.log_softmax(-1)[range(len(target) + 1), [*target, eos]].tolist()


@pytest.mark.parametrize(
    "options",
    [
        {"swish": True, "share_all_embeddings": True},
        {"swish": True, "no_scale_embedding": True},
        {"activation_fn": "gelu", "share_decoder_input_output_embed": True},
    ],
)
def test_probabilities_in_ctranslate2(options, tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2")
    model, task, path = save_marian(tmp_path, **options)
    out = tmp_path / "out"
    export(str(path), task.cfg.data, "ctranslate2", out)
    translator = ctranslate2.Translator(str(out), device="cpu", intra_threads=1)
    words = [
        [[dictionary[token] for token in sentence] for sentence in sentences]
        for dictionary, sentences in (
            (task.source_dictionary, SOURCES),
            (task.target_dictionary, TARGETS),
        )
    ]
    for scores, source, target in zip(translator.score_batch(*words), SOURCES, TARGETS):
        expected = log_probabilities(model, task, source, target)
        assert scores.log_probs == pytest.approx(expected, abs=1e-3)


def test_what_cannot_be_exported_is_named(tmp_path):
    _, task, path = save_marian(tmp_path, swish=True, decoder_attention_heads=4)
    with pytest.raises(UserError, match=r"needs the same --\*-attention-heads in both stacks"):
        export(str(path), task.cfg.data, "ctranslate2", tmp_path / "out")
    with pytest.raises(UserError, match=r"output bias .* give --to ctranslate2"):
        export(str(path), task.cfg.data, "fairseq", tmp_path / "out")
    assert not (tmp_path / "out").exists()


# the last line is longer than the model reads
LINES = [TEXTS[0], "", *TEXTS[1:], " ".join(TEXTS[:3]), " ".join(TEXTS * 40)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "arch, pieces, options",
    [
        ("pet_transformer", sentence_pieces, {"decoder_layers": 2, **PRE_NORM}),
        ("transformer", json_pieces, {"share_all_embeddings": True, **PRE_NORM}),
        ("transformer", partial(json_pieces, kind="bytes", size=300), PRE_NORM),
        (
            "bilingual_transformer",
            json_pieces,
            {"source_prefix": ["t"], "source_end": ["h", "</s>"], "decoder_start": ["</s>", "a"]},
        ),
        (
            "bilingual_transformer",
            sentence_pieces,
            {"source_prefix": ["t"], "source_end": ["h", "</s>"], "decoder_start": ["</s>", "a"]},
        ),
    ],
)
def test_the_script_of_a_folder_translates_the_same(arch, pieces, options, tmp_path):
    """As a process that has neither torch nor fairseq nor this package."""
    pytest.importorskip("ctranslate2")
    made = make(tmp_path / "model", arch, pieces, **options)
    export(made.checkpoint, made.data, "ctranslate2", tmp_path / "out")
    (tmp_path / "in").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    given = ("--input", tmp_path / "in", "--output", tmp_path / "ours", "--long-lines", "cut")
    assert in_process("translate", tmp_path / "out", *given).status == 0
    for name in ("torch", "fairseq", "pet_fairseq"):
        (tmp_path / "none").mkdir(exist_ok=True)
        (tmp_path / "none" / f"{name}.py").write_text("raise SystemExit('not needed')")
    with (tmp_path / "in").open() as text:
        done = subprocess.run(
            [sys.executable, tmp_path / "out" / "translate.py"],
            stdin=text,
            capture_output=True,
            encoding="utf-8",
            env=os.environ | {"PYTHONPATH": str(tmp_path / "none"), "PYTHONUTF8": "1"},
        )
    assert done.returncode == 0, done.stderr
    expected = (tmp_path / "ours").read_text(encoding="utf-8")
    assert done.stdout == expected
    assert expected.splitlines()[1] == "" and len(set(expected.splitlines())) > 4
    text = (tmp_path / "out" / "translate.py").read_text()
    assert len(text.splitlines()) <= 19 and compile(text, "translate.py", "exec")


ECHO = """
class Translator:
    def __init__(self, folder):
        self.hypotheses = None

    def translate_batch(self, lines, **options):
        for line in lines:
            yield type("Result", (), {"hypotheses": [[*line, "<0x0A>"]]})
"""


@pytest.mark.parametrize("model", ["spm.model", "source.spm"])
def test_the_script_joins_pieces_of_bytes(model, tmp_path):
    """With an engine that says what it reads, and an end of a line, which must not end one."""
    options = Namespace(max_source_positions=99, max_target_positions=99)
    for name in {model, model.replace("source", "target")}:
        train(tmp_path / name)
    write_script(tmp_path, str(tmp_path / model), options)
    (tmp_path / "ctranslate2.py").write_text(ECHO)
    done = subprocess.run(
        [sys.executable, tmp_path / "translate.py"],
        input="\n".join(BYTE_TEXTS),
        capture_output=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONUTF8": "1"},
    )
    assert done.stdout.splitlines() == BYTE_TEXTS, done.stderr


def test_no_script_with_codes_of_bpe(tmp_path, capsys):
    pytest.importorskip("ctranslate2")
    made = make(tmp_path / "model", "transformer", bpe_pieces)
    export(made.checkpoint, made.data, "ctranslate2", tmp_path / "out")
    assert "no translate.py: the model's words are divided by neither" in capsys.readouterr().err
    assert not (tmp_path / "out" / "translate.py").exists()
