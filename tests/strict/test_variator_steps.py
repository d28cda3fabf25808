"""Variator, its competitors and SelfCP: the CPU's training and validation on another device."""

import pytest
from fairseq.tasks.language_modeling import LanguageModelingTask
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

from pet_fairseq.selfcp.options import LORA_ON
from tests.selfcp.test_model import make_sample, make_selfcp
from tests.selfcp.test_model import task as selfcp_task  # noqa: F401  fixture
from tests.strict.steps import Setup, build_criterion, check_steps
from tests.strict_device import waits_of
from tests.translation import make_batch, make_task, save_model
from tests.variator.test_criterion import HEAD, make_any, make_sentences, save_classifier
from tests.variator.test_decoder_only import make_lm, make_tokens
from tests.variator.test_decoder_only import task as lm_task  # noqa: F401  fixture
from tests.variator.test_low_rank import make as make_low_rank
from tests.variator.test_model import SITES, make_variator

ROBERTA = {
    **{"encoder_layers": 2, "encoder_embed_dim": 16, "encoder_ffn_embed_dim": 24},
    **{"encoder_attention_heads": 2, "max_positions": 64},
}


@pytest.fixture
def task(tmp_path):
    return make_task(tmp_path / "data")


@pytest.mark.parametrize("kind", ["variator", "token_pruning", "narrow_ffn", "first_layers"])
@pytest.mark.parametrize("criterion", ["variator_distillation", "label_smoothed_cross_entropy"])
def test_encoder_decoders(kind, criterion, task, tmp_path):
    path = save_model(tmp_path / "b.pt", task, encoder_embed_dim=16, decoder_embed_dim=16)
    options = {"task_loss_weight": 0.5} if criterion == "variator_distillation" else {}
    options |= {"label_smoothing": 0.1}

    def make():
        batch = make_batch(task, [3, 7, 2])
        return Setup(
            task, build_criterion(criterion, task, **options), make_any(kind, task, path), batch
        )

    waits = check_steps(make)
    assert len(waits_of(waits)) <= 1, waits_of(waits)


def test_low_rank_updates(task, tmp_path):
    path = save_model(tmp_path / "b.pt", task, encoder_embed_dim=16, decoder_embed_dim=16)

    def make():
        criterion = build_criterion("label_smoothed_cross_entropy", task, label_smoothing=0.1)
        return Setup(task, criterion, make_low_rank(task, path), make_batch(task, [3, 7, 2]))

    waits = check_steps(make)
    assert len(waits_of(waits)) <= 1, waits_of(waits)


@pytest.mark.parametrize("criterion", ["variator_distillation", "sentence_prediction"])
def test_encoders_of_sentences(criterion, task, tmp_path):
    cfg = SentencePredictionConfig(data="x", num_classes=3, max_positions=64)
    classes = SentencePredictionTask(cfg, task.source_dictionary, task.source_dictionary)
    path = save_classifier(tmp_path / "b.pt", classes, "roberta", **ROBERTA)
    options = {"classification_head_name": HEAD, "task_loss_weight": 0.5}

    def make():
        sample = make_sentences(classes, [3, 7, 2, 6])
        del sample["net_input"]["prev_output_tokens"]
        model = make_variator(classes, path, compression_ratio=2)
        return Setup(classes, build_criterion(criterion, classes, **options), model, sample)

    waits = check_steps(make)
    assert len(waits_of(waits)) <= 1, waits_of(waits)


@pytest.mark.parametrize(
    "kind, site",
    [("post-norm", "ffn"), *((kind, site) for kind in ("llama", "qwen3") for site in SITES)],
)
def test_language_models(kind, site, lm_task: LanguageModelingTask, tmp_path):  # noqa: F811
    def make():
        text = make_tokens(lm_task, [(5, 4), (3, 3)])
        pad = lm_task.dictionary.pad()
        inputs, target = text[:, :-1], text[:, 1:]
        sample = {
            "net_input": {"src_tokens": inputs, "src_lengths": inputs.ne(pad).sum(dim=1)},
            **{"target": target, "ntokens": int(target.ne(pad).sum())},
        }
        criterion = build_criterion("variator_distillation", lm_task, task_loss_weight=0.5)
        model = make_lm(lm_task, tmp_path, kind, compression_site=site)
        return Setup(lm_task, criterion, model, sample)

    waits = check_steps(make)
    assert len(waits_of(waits)) <= 1, waits_of(waits)


@pytest.mark.parametrize(
    "strategy, more",
    [
        *((strategy, {}) for strategy in ("former", "concat", "recursive")),
        *(("former", {"lora_rank": 2, "lora_on": place}) for place in LORA_ON),
    ],
)
def test_selfcp(strategy, more, selfcp_task, tmp_path):  # noqa: F811
    def make():
        sample = make_sample(selfcp_task, [(2, 5), (0, 9), (1, 14), (3, 23), (2, 0)])
        sample["ntokens"] = int(sample["target"].ne(selfcp_task.dictionary.pad()).sum())
        model = make_selfcp(selfcp_task, tmp_path, prompt_strategy=strategy, **more)
        return Setup(selfcp_task, build_criterion("selfcp_lm", selfcp_task), model, sample)

    lines = waits_of(check_steps(make))
    assert len(lines) == 1, lines  # to split the batch
