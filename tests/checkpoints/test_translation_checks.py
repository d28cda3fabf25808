"""Models that translate, but not text of one language pair from left to right: one line each."""

from argparse import Namespace

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, build_model
from omegaconf import DictConfig

from pet_fairseq.checkpoints.backbone import read_backbone
from pet_fairseq.checkpoints.frozen_models import load_frozen_models
from pet_fairseq.checkpoints.loading import load_model, load_transformer
from pet_fairseq.checkpoints.translation_checks import is_multilingual, side_without_words
from pet_fairseq.compress.teacher import read_teacher
from pet_fairseq.errors import UserError
from pet_fairseq.export.export import export
from pet_fairseq.predict.speed.detokenise import find_style
from tests.kinds import KINDS, save_kind
from tests.translation import make_task, save_model, save_state

MULTILINGUAL = "a multilingual model (trained with --task translation_multi_simple_epoch)"
SPEECH = {
    **{"input_feat_per_channel": 8, "input_channels": 1, "max_source_positions": 50},
    **{"encoder_embed_dim": 16, "decoder_embed_dim": 16, "encoder_layers": 1, "decoder_layers": 1},
    **{"encoder_freezing_updates": 0, "load_pretrained_encoder_from": None},
}


@pytest.fixture
def task(tmp_path):
    return make_task(tmp_path / "data")


@pytest.fixture
def read(task, tmp_path):
    """Functions that read a checkpoint for distillation, compress, export and other commands."""
    data = task.cfg.data
    return {
        "--teacher-path": lambda path: load_frozen_models(path, "--teacher-path", task),
        "TEACHER": lambda path: read_teacher(tmp_path / path, tmp_path / "data"),
        "CHECKPOINT": lambda path: export(path, data, "fairseq", tmp_path / "out"),
        "--checkpoint": lambda path: load_transformer(path, "--checkpoint", data),
    }


def with_task(path, **options):
    """A checkpoint in which the task's options are the Namespace that older kinds of tasks have."""
    state = torch.load(path)
    state["cfg"]["task"] = Namespace(**{**state["cfg"]["task"], **options})
    torch.save(state, path)
    return path


def save_speech(path, task):
    args = Namespace(arch="s2t_transformer_s", **SPEECH)
    ARCH_CONFIG_REGISTRY[args.arch](args)
    args._name = args.arch
    save_state(path, build_model(args, task), args, Namespace(data="x", _name="speech_to_text"))
    return str(path)


def assert_refused(read, path, message):
    for option, load in read.items():
        with pytest.raises(UserError) as error:
            load(path)
        text = str(error.value)
        assert text.startswith(f"{option} {path}: ") and message in text, text
        assert "\n" not in text


@pytest.mark.parametrize(
    "name, message",
    [
        (
            "translation_multi_simple_epoch",
            f"{MULTILINGUAL}; make one of a single pair of it first",
        ),
        (
            "multilingual_translation",
            "was trained with --task multilingual_translation; of the multilingual tasks only",
        ),
    ],
)
def test_multilingual_models(name, message, task, read, tmp_path):
    path = with_task(
        save_model(tmp_path / "many.pt", task),
        **{"_name": name, "langs": ["de", "en"]},
        **{"lang_pairs": ["de-en", "en-de"], "source_lang": None, "target_lang": None},
    )
    read["MODEL"] = lambda path: load_model(path, "MODEL", task.cfg.data)
    read["--backbone-path"] = lambda path: read_backbone(path, "--backbone-path")
    assert_refused(read, path, message)


@pytest.mark.parametrize("options", [{"langs": "de,en"}, {"lang_pairs": "de-en,en-de"}])
@pytest.mark.parametrize("kind", [DictConfig, lambda options: Namespace(**options)])
def test_what_makes_a_task_multilingual(kind, options):
    assert is_multilingual(kind({"data": "x", **options}))
    assert not is_multilingual(kind({"data": "x", **dict.fromkeys(options, None)}))
    assert not is_multilingual(kind({"data": "x", "source_lang": "de"}))


@pytest.mark.parametrize(
    "arch",
    [
        *("cmlm_transformer", "levenshtein_transformer", "insertion_transformer"),
        *("nonautoregressive_transformer", "iterative_nonautoregressive_transformer"),
    ],
)
def test_non_autoregressive_models(arch, task, read, tmp_path):
    sizes = {f"{s}_{n}": 16 for s in ("encoder", "decoder") for n in ("embed_dim", "ffn_embed_dim")}
    path = save_model(tmp_path / "nat.pt", task, arch, **sizes)
    assert_refused(read, path, f"{arch} is a non-autoregressive model, which gives no distribution")


def test_speech_models(task, read, tmp_path):
    path = save_speech(tmp_path / "speech.pt", task)
    message = (
        "s2t_transformer_s is a speech model: its source is sound, not words; give one of text"
    )
    assert_refused(read, path, message)


@pytest.mark.parametrize(
    "names, side",
    [
        (["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"], None),
        (["encoder.embed_tokens.weight", "decoder.layers.0.fc1.weight"], None),  # shared
        (["encoder.sentence_encoder.embed_tokens.weight", "decoder.embed_tokens.weight"], None),
        (["encoder.word_embeddings.weight", "decoder.embeddings.weight"], None),
        (["encoder.subsample.0.weight", "decoder.embed_tokens.weight"], "source"),
        (["encoder.embed_positions.weight", "decoder.embed_tokens.weight"], "source"),
        (["encoder.embed_tokens.weight", "decoder.prenet.0.weight"], "target"),
        (["encoder.conv.weight"], None),  # no decoder
        (["decoder.conv.weight"], None),
    ],
)
def test_which_side_has_no_words(names, side):
    assert side_without_words(dict.fromkeys(names)) == side


@pytest.mark.parametrize("kind", ["fconv", "fconv_self_att", "lstm, deep", "bart", "layerdrop"])
def test_others_are_read(kind, task, tmp_path):
    task.cfg.max_source_positions = task.cfg.max_target_positions = 38
    path = save_kind(tmp_path / "kind.pt", task, KINDS[kind])
    load_frozen_models(path, "--teacher-path", task)
    teacher = read_teacher(tmp_path / "kind.pt", tmp_path / "data")
    assert teacher.vocabularies == (16, 16)


def test_a_task_of_an_older_kind_with_one_language_pair(task, read, tmp_path):
    """Its options are a Namespace, which has no `get`."""
    path = with_task(save_model(tmp_path / "old.pt", task), _name="translation")
    _, found = read["--checkpoint"](path)
    assert (found.cfg.source_lang, found.cfg.target_lang) == ("de", "en")
    teacher = read["TEACHER"](path)
    assert find_style(teacher.trained, teacher.task, None, None).tokenizer is None
    read["--teacher-path"](path)
    read["CHECKPOINT"](path)
    state = torch.load(tmp_path / "out" / "model.pt")
    assert state["cfg"]["task"]["source_lang"] == "de"
