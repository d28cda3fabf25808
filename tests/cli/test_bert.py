"""From the files of a BERT or DistilBERT to fine-tuning it, as a user types it."""

import pytest
import torch

from pet_fairseq.checkpoints.safe_loading import load_checkpoint
from tests.cli.processes import REPO, run
from tests.cli.shell import sh
from tests.huggingface.bert import write_bert

pytestmark = pytest.mark.slow


def write_distilbert(folder):
    theirs = pytest.importorskip("tests.huggingface.transformers_models")
    theirs.distilbert(folder, head=None, dim=12, n_heads=3)


@pytest.mark.parametrize("write", [write_bert, write_distilbert])
def test_an_imported_bert_is_fine_tuned(write, tmp_path):
    write(tmp_path / "files")
    bert = tmp_path / "bert"
    log = run("pet-fairseq", "import-bert", tmp_path / "files", "--out", bert)
    assert "12" in (bert / "model_options").read_text() and f"wrote {bert}" in log.output
    for name in ("train", "dev", "test"):
        rows = "".join(f"{word} film\t{label}\n" for word, label in (("good", 1), ("bad", 0)) * 4)
        (tmp_path / f"{name}.tsv").write_text("sentence\tlabel\n" + rows)
    expected = tmp_path / "expected"
    expected.write_text("".join(f"{name}.tsv -\n" for name in ("train", "dev", "test")))
    data = tmp_path / "data"
    sh("examples/glue/prepare.sh", "sst2", tmp_path, BERT=bert, OUT=data, EXPECTED=expected)
    run(
        *("fairseq-train", data / "classes", "--user-dir", REPO / "pet_fairseq", "--cpu"),
        *("--task", "sentence_prediction", "--num-classes", "2", "--init-token", "0"),
        *("--separator-token", "2", *(bert / "model_options").read_text().split()),
        *("--finetune-from-model", bert / "checkpoint.pt", "--criterion", "sentence_prediction"),
        *("--optimizer", "adam", "--lr", "0", "--max-update", "2", "--batch-size", "8"),
        *("--required-batch-size-multiple", "1", "--save-dir", tmp_path / "tuned"),
    )
    before = load_checkpoint(str(bert / "checkpoint.pt"), "FILE")["model"]
    after = load_checkpoint(str(tmp_path / "tuned/checkpoint_best.pt"), "FILE")["model"]
    assert any("classification_heads" in name for name in after)
    for name, tensor in before.items():
        assert torch.equal(after[name], tensor), name
    predict = ("pet-fairseq", "predict", tmp_path / "tuned/checkpoint_best.pt", "--input", "-")
    answers = run(*predict, text_in="Good film\nbad films\n").output
    tokenizer = ("--bpe", "tokenizer_json", "--tokenizer-file", bert / "tokenizer.json")
    assert run(*predict, *tokenizer, text_in="Good film\nbad films\n").output == answers
    assert answers.count('"label": ') == 2
    segmented = run(*predict, "--tokenizer", "space", text_in="good film\nbad film ##s\n").output
    assert segmented == answers
