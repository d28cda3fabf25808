"""The criterion `variator_distillation` against sentences that are run one by one."""

import math
from dataclasses import replace

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.logging import metrics
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask
from fairseq.utils import convert_padding_direction
from torch.utils._python_dispatch import TorchDispatchMode

from pet_fairseq.errors import UserError
from pet_fairseq.variator.competitors.fine_tuned import FineTunedConfig
from pet_fairseq.variator.competitors.first_layers import FirstLayersConfig, FirstLayersModel
from pet_fairseq.variator.competitors.narrow_ffn import NarrowModel
from pet_fairseq.variator.competitors.token_pruning import TokenPruningModel
from pet_fairseq.variator.criterion import VariatorDistillationCriterion
from tests.translation import make_batch, make_model, make_task, save_model, save_state, select
from tests.variator.test_model import BACKBONES, make_variator

COMPETITORS = {
    "narrow_ffn": (NarrowModel, FineTunedConfig()),
    "token_pruning": (TokenPruningModel, FineTunedConfig()),
    "first_layers": (FirstLayersModel, FirstLayersConfig(kept_layers=1)),
}
HEAD = "sentence_classification_head"
NORMS = {
    "post-norm": {},
    "pre-norm": {"encoder_normalize_before": True, "decoder_normalize_before": True},
    "pre-norm without the last norm": {
        **{"encoder_normalize_before": True, "decoder_normalize_before": True},
        "no_decoder_final_norm": True,
    },
}
SIZES = {"layers": 2, "attention_heads": 2, "embed_dim": 16, "ffn_embed_dim": 24}
SMALL = {f"{stack}_{name}": n for stack in ("encoder", "decoder") for name, n in SIZES.items()}


@pytest.fixture
def task(tmp_path):
    return make_task(tmp_path / "data")


def make_criterion(task, task_loss_weight=0.0, head=HEAD):
    return VariatorDistillationCriterion(task, False, task_loss_weight, head, False)


def lone_outputs(model, sample):
    """What the encoder and the decoder give for one sentence without padding: T x C each."""
    net_input = sample["net_input"]
    encoder_out = model.encoder(net_input["src_tokens"])
    features, _ = model.decoder(
        net_input["prev_output_tokens"], encoder_out=encoder_out, features_only=True
    )
    return encoder_out["encoder_out"][0][:, 0], features[0]


def distance_by_hand(model, batch, lengths):
    """The mean over positions and width, sentence by sentence, of encoder plus decoder."""
    sums, sizes = [0, 0], [0, 0]
    for i, n in enumerate(lengths):
        sample = select(batch, [i], n)
        with_plugins = lone_outputs(model, sample)
        with torch.no_grad(), model.compression_ratio(1):
            without = lone_outputs(model, sample)
        for s in range(2):
            sums[s] = sums[s] + (with_plugins[s] - without[s]).square().sum()
            sizes[s] += without[s].numel()
    return sums[0] / sizes[0] + sums[1] / sizes[1]


@pytest.mark.parametrize("norms", NORMS)
def test_distance_is_that_of_the_outputs(norms, task, tmp_path):
    """Of what the decoder and the output map read: after the last norm, if there is one."""
    path = save_model(tmp_path / "b.pt", task, **NORMS[norms])
    model = make_variator(task, path, compression_ratio=3).double()
    with torch.no_grad():  # a fresh norm would only scale
        for stack in (model.encoder, model.decoder):
            for parameter in () if stack.layer_norm is None else stack.layer_norm.parameters():
                parameter.requires_grad_(False).add_(torch.randn_like(parameter))
    lengths = [3, 7, 2, 6]
    batch = make_batch(task, lengths)
    expected = distance_by_hand(model, batch, lengths)
    loss, size, log = make_criterion(task)(model, batch)
    assert size == sum(lengths)
    torch.testing.assert_close(log["distance"].item() / size, expected.item(), rtol=1e-5, atol=0)
    plugins = list(model.plugins.parameters())
    wanted = torch.autograd.grad(expected * size, plugins)
    for gradient, by_hand in zip(torch.autograd.grad(loss, plugins), wanted):
        torch.testing.assert_close(gradient, by_hand, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("full_context", [False, True])
def test_distance_around_a_transformer_with_alignments(full_context, task, tmp_path):
    """Its decoder may run once more, for alignments, and see the next words; that counts not."""
    options = {**SMALL, "alignment_layer": 1, "full_context_alignment": full_context}
    path = save_model(tmp_path / "b.pt", task, "transformer_align", **options)
    model = make_variator(task, path, compression_ratio=3).double()
    lengths = [3, 7, 2, 6]
    batch = make_batch(task, lengths)
    expected = distance_by_hand(model, batch, lengths)
    _, size, log = make_criterion(task)(model, batch)
    torch.testing.assert_close(log["distance"].item() / size, expected.item(), rtol=1e-5, atol=0)
    assert "task_loss" in make_criterion(task, task_loss_weight=0.5)(model, batch)[2]


@pytest.mark.parametrize("side", ["left", "right"])
def test_distance_around_a_model_with_language_tokens(side, task, tmp_path):
    """In the encoder they are positions as others; the decoder's are none that is asked for."""
    words = {"source_prefix": "w3 w1", "source_end": "</s> w2", "decoder_start": "</s> w4 w5"}
    options = {**SMALL, **NORMS["pre-norm"], **words}
    path = save_model(tmp_path / "b.pt", task, "bilingual_transformer", **options)
    model = make_variator(task, path, compression_ratio=3).double()
    lengths = [3, 7, 2, 6]
    batch = make_batch(task, lengths)
    expected = distance_by_hand(model, batch, lengths)
    if side == "right":
        tokens, pad = batch["net_input"]["src_tokens"], task.source_dictionary.pad()
        batch["net_input"]["src_tokens"] = convert_padding_direction(
            tokens, pad, left_to_right=True
        )
    _, size, log = make_criterion(task)(model, batch)
    torch.testing.assert_close(log["distance"].item() / size, expected.item(), rtol=1e-5, atol=0)


@pytest.mark.parametrize("kind", ["variator", *COMPETITORS])
@pytest.mark.parametrize("checkpointing", ["checkpoint_activations", "offload_activations"])
def test_a_backbone_with_checkpointed_activations(kind, checkpointing, task, tmp_path):
    """The gradients are those of the same model without that option."""
    plain = save_model(tmp_path / "b.pt", task)
    state = torch.load(plain)
    vars(state["cfg"]["model"]).update({"checkpoint_activations": True, checkpointing: True})
    torch.save(state, tmp_path / "c.pt")
    batch = make_batch(task, [3, 7, 2])
    gradients = []
    for path in (plain, tmp_path / "c.pt"):
        model = make_any(kind, task, path)
        loss, _, _ = make_criterion(task, 0.5)(model, batch)
        loss.backward()
        gradients.append({n: p.grad for n, p in model.named_parameters() if p.requires_grad})
    assert all(gradient is not None for gradient in gradients[0].values())
    torch.testing.assert_close(*gradients)


def make_any(kind, task, path):
    if kind == "variator":
        return make_variator(task, path)
    model, cfg = COMPETITORS[kind]
    return model.build_model(replace(cfg, backbone_path=str(path)), task)


class Waits(TorchDispatchMode):
    """Counts the operations whose result's size or value a device would have to tell."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        is_mask = name in ("index", "index_put_", "_index_put_impl_") and any(
            index is not None and index.dtype == torch.bool for index in args[1]
        )
        if is_mask or name in ("nonzero", "_local_scalar_dense", "masked_select"):
            self.names.append(name)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("kind", ["variator", "token_pruning"])
def test_a_step_waits_once_beside_the_model(kind, task, tmp_path):
    path = save_model(tmp_path / "b.pt", task)
    model = make_any(kind, task, path)
    batch = make_batch(task, [3, 7, 2])
    with Waits() as waits, torch.no_grad(), model.frozen() as frozen:
        frozen(**batch["net_input"])
    alone = len(waits.names)
    with Waits() as waits:
        loss, _, _ = make_criterion(task, 0.5)(model, batch)
        loss.backward()
    assert len(waits.names) <= 2 * alone + 1


# --- classes of sentences -------------------------------------------------------------------------


@pytest.fixture
def class_task(task):
    cfg = SentencePredictionConfig(data="x", num_classes=3, max_positions=64)
    return SentencePredictionTask(cfg, task.source_dictionary, task.source_dictionary)


def save_classifier(path, task, arch, **options):
    model, args = make_model(task, arch, **options)
    model.register_classification_head(HEAD, num_classes=3)
    args._name = arch
    save_state(path, model, args, {"_name": "sentence_prediction"})
    return str(path)


def make_sentences(task, lengths):
    """Sentences that end in </s>, padded on the right, with a class each."""
    tokens = make_batch(task, lengths)["target"]
    net_input = {
        **{"src_tokens": tokens, "src_lengths": torch.tensor(lengths)},
        "prev_output_tokens": tokens.masked_fill(tokens.eq(task.source_dictionary.eos()), 5),
    }
    target = torch.arange(len(lengths))[:, None] % 3
    return {"net_input": net_input, "target": target, "ntokens": sum(lengths)}


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_bart_classifies_by_its_head(weight, class_task, tmp_path):
    arch, options = BACKBONES["bart"]
    path = save_classifier(tmp_path / "b.pt", class_task, arch, **options)
    model = make_variator(class_task, path, compression_ratio=2)
    sample = make_sentences(class_task, [3, 7, 2, 6])
    loss, size, log = make_criterion(class_task, weight)(model, sample)
    logits, _ = model(**sample["net_input"], classification_head_name=HEAD)
    assert logits.shape == (4, 3)
    right = [row.argmax() == label for row, label in zip(logits, sample["target"])]
    losses = [row.logsumexp(0) - row[label] for row, label in zip(logits, sample["target"])]
    assert log["n_correct"] == sum(right) and log["total"] == 4
    task_loss = sum(losses).item() / 4
    assert log["task_loss"].item() / 4 == pytest.approx(task_loss)
    distance = log["distance"].item() / size
    assert loss.item() / size == pytest.approx(distance + weight * task_loss)


def test_the_task_loss_is_a_mean_over_targets_however_they_fall_into_batches():
    logs = [
        {"loss": 6.0, "distance": 6.0, "sample_size": 30, "task_loss": 8.0, "total": 2},
        {"loss": 6.0, "distance": 6.0, "sample_size": 10, "task_loss": 4.0, "total": 6},
        {"loss": 6.0, "distance": 6.0, "sample_size": 10, "task_loss": 0.0, "total": 0},
    ]
    logs = [log | {"n_correct": 0} for log in logs]
    with metrics.aggregate() as meters:
        VariatorDistillationCriterion.reduce_metrics(logs)
        VariatorDistillationCriterion.reduce_metrics(logs[-1:])
    assert meters["task_loss"].avg == pytest.approx(12 / 8 / math.log(2))


def test_refused_by_name(class_task, tmp_path):
    arch, options = BACKBONES["bart"]
    path = save_classifier(tmp_path / "b.pt", class_task, arch, **options)
    model = make_variator(class_task, path)
    sample = make_sentences(class_task, [3, 7])
    for wrong, what in ((-1, "a class that label/dict.txt lacks"), (3, "class number 3")):
        target = torch.tensor([[0], [wrong]])
        with pytest.raises(UserError, match=f"^x: a sentence has {what}, and the model has 3 cl"):
            make_criterion(class_task)(model, sample | {"target": target})
    with pytest.raises(UserError, match=r"name other: .* give one of sentence_cl"):
        make_criterion(class_task, head="other")(model, sample)
    del sample["net_input"]["prev_output_tokens"]
    with pytest.raises(UserError, match="--add-prev-output-tokens: missing"):
        make_criterion(class_task)(model, sample)


@pytest.mark.parametrize(
    ("names", "refused"), [("abc", False), ("xyz", False), ("xbc", False), ("bac", True)]
)
def test_the_classes_are_those_of_the_head(names, refused, task, tmp_path):
    """Plugins leave the head alone: a name may be another one, but not that of another class."""
    labels = {}
    for folder, letters in (("theirs", "abc"), ("ours", names)):
        (tmp_path / folder / "label").mkdir(parents=True)
        file = tmp_path / folder / "label/dict.txt"
        file.write_text("".join(f"{letter} 1\n" for letter in letters))
        labels[folder] = Dictionary.load(str(file))
    cfg = SentencePredictionConfig(data=str(tmp_path / "ours"), num_classes=3, max_positions=64)
    class_task = SentencePredictionTask(cfg, task.source_dictionary, labels["ours"])
    model, args = make_model(class_task, BACKBONES["bart"][0], **BACKBONES["bart"][1])
    model.register_classification_head(HEAD, num_classes=3)
    args._name = BACKBONES["bart"][0]
    trained = {"_name": "sentence_prediction", "data": str(tmp_path / "theirs")}
    save_state(tmp_path / "b.pt", model, args, trained)
    if not refused:
        make_variator(class_task, str(tmp_path / "b.pt"))
        return
    with pytest.raises(UserError, match=r"--backbone-path .*: made with other classes: .*'a' ag"):
        make_variator(class_task, str(tmp_path / "b.pt"))


def test_a_task_loss_needs_logits(task, tmp_path):
    """The distance alone does not: an adaptive softmax stands behind what it compares."""
    path = save_model(tmp_path / "b.pt", task, adaptive_softmax_cutoff="6,12")
    model = make_variator(task, path)
    batch = make_batch(task, [3, 7])
    assert make_criterion(task)(model, batch)[0] > 0
    with pytest.raises(UserError, match=r"--task-loss-weight 0.5: the model has an adaptive softm"):
        make_criterion(task, task_loss_weight=0.5)(model, batch)
