"""Every criterion for translation models, with every model: the CPU's results on another device."""

import pytest
from fairseq.data import FairseqDataset

from pet_fairseq.quantisation.optimizer import QuantisedAdam, QuantisedAdamConfig
from tests.strict.steps import Setup, build_criterion, check_steps, check_validation
from tests.strict_device import waits_of
from tests.translation import make_batch, make_model, make_task, save_model

TINY = dict(encoder_embed_dim=16, decoder_embed_dim=16, encoder_layers=2, decoder_layers=2)
TINY |= dict(encoder_ffn_embed_dim=24, decoder_ffn_embed_dim=24)
TINY |= dict(encoder_attention_heads=2, decoder_attention_heads=2)
STUDENTS = {
    "pet": ("pet_transformer_tiny", TINY),
    "can": ("can_transformer", TINY),
    "deep_shallow": ("deep_shallow_12_1", TINY | dict(encoder_layers=3, decoder_layers=1)),
}
# the criterion, its options, and how often a training step waits beside fairseq's own waits
CRITERIONS = {
    "distillation": ("pet_distillation", {}, 1),
    "distillation, all options": (
        "pet_distillation",
        dict(distillation_temperature=2.0, ignore_prefix_size=1, report_accuracy=True),
        1,
    ),
    "patient": ("patient_kd", {}, 2),
    "patient with maps": ("patient_kd", {}, 2),
    "simplified": ("pet_simplified_task", {}, 1),
    "simplified, project": ("pet_simplified_task", dict(simplified_head="project"), 1),
    "simplified, replace": ("pet_simplified_task", dict(simplified_head="replace"), 1),
    "fairseq's": (
        "label_smoothed_cross_entropy",
        dict(label_smoothing=0.1, report_accuracy=True),
        0,
    ),
}
PAIRS = [("pet", criterion) for criterion in CRITERIONS]
for student in ("can", "deep_shallow"):
    PAIRS += [(student, c) for c in ("distillation", "patient with maps", "fairseq's")]


class OneBatch(FairseqDataset):
    """A training set, for the thresholds of the simplified task."""

    def __init__(self, batch):
        self.batch = batch

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return index

    def size(self, index):
        return 7, 7

    def num_tokens(self, index):
        return 7

    def collater(self, indices):
        return self.batch


def ragged_batch(task):
    batch = make_batch(task, [2, 6, 5])
    source = make_batch(task, [7, 3, 4], seed=1)["net_input"]
    batch["net_input"] |= {name: source[name] for name in ("src_tokens", "src_lengths")}
    return batch


def make_setup(tmp_path, student: str, criterion: str) -> Setup:
    arch, sizes = STUDENTS[student]
    name, options, _ = CRITERIONS[criterion]
    task = make_task(tmp_path / "data")
    batch = ragged_batch(task)
    task.datasets["train"] = OneBatch(batch)
    if name != "label_smoothed_cross_entropy":
        teacher = dict(sizes, encoder_layers=3)
        if criterion == "patient with maps":
            teacher |= dict(encoder_embed_dim=12, decoder_embed_dim=20)
        options = options | {"teacher_path": save_model(tmp_path / "t.pt", task, **teacher)}
    if name == "pet_simplified_task":
        options = {"decoder_output_dim": 16, "confident_wrong": "auto", **options}
    if name == "patient_kd":
        options = options | {k: v for k, v in sizes.items() if "embed" in k or "layers" in k}
    model, _ = make_model(task, arch, **sizes)
    return Setup(task, build_criterion(name, task, **options), model, batch)


@pytest.mark.parametrize(("student", "criterion"), PAIRS)
def test_steps(student, criterion, tmp_path):
    waits = check_steps(lambda: make_setup(tmp_path, student, criterion))
    assert len(waits_of(waits)) == CRITERIONS[criterion][2], waits_of(waits)


def test_quantised_steps(tmp_path):
    """Two updates, of which the second begins on the grid."""
    waits = check_steps(lambda: make_setup(tmp_path, "pet", "fairseq's"), quantised_adam)
    assert waits_of(waits) == []


def quantised_adam(parameters):
    off = {"fp16": False, "bf16": False, "use_bmuf": False}
    cfg = QuantisedAdamConfig(lr=[1e-3], adam_betas="(0.9, 0.98)", quantised_bits=4, **off)
    return QuantisedAdam(cfg, parameters)


@pytest.mark.parametrize("criterion", ["patient with maps", "simplified, project"])
def test_fairseq_validate_leaves_the_criterion_where_it_is(criterion, tmp_path):
    """It moves the model and halves it; what a criterion trains beside it follows."""
    check_validation(lambda: make_setup(tmp_path, "pet", criterion))
