"""From other libraries' files to text and perplexity, as a user types it."""

import math
import pickle
import re

import pytest
import torch

from tests.checkpoints.written import Malicious
from tests.cli.processes import REPO, preprocess, run, train, write_text
from tests.huggingface.llama import CONFIG, PIECES, logits, write_llama

END = CONFIG["eos_token_id"]
PET = ("--user-dir", REPO / "pet_fairseq")
DRY = ("--rate", "60", "--dry-run")
SIDES = (("src", "source"), ("tgt", "target"))  # fairseq-preprocess's name, and the import's


def greedy(weights, ids, length):
    """The pieces that the model says after some, without those that fairseq's words repeat."""
    while len(ids) < length:
        following = logits(weights, ids)[-1]
        ids = [*ids, int(following.argmax())]
        if ids[-1] == END:
            break
    return " ".join(PIECES[i] for i in ids if i != END)


def loss(weights, lines):
    """Bits per word of lines of pieces; each line begins behind the end of one and ends itself."""
    bits = []
    for line in lines:
        ids = [END, *(PIECES.index(piece) for piece in line.split()), END]
        shares = logits(weights, ids[:-1]).log_softmax(-1)
        bits += [-shares[t, word].item() / math.log(2) for t, word in enumerate(ids[1:])]
    return sum(bits) / len(bits)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_a_llama(kind, tmp_path):
    torch.manual_seed(3)
    weights = write_llama(tmp_path / "hf", model_type=kind)
    out = tmp_path / "llama"
    log = run("pet-fairseq", "import-hf", tmp_path / "hf", "--out", out)
    assert re.fullmatch(rf"wrote {out}: --arch llama .*; \d+ s, at most \d+ MB .*\n", log.output)
    task = (out / "task_options").read_text().split()
    words = ("--bpe", "tokenizer_json", "--tokenizer-file", out / "tokenizer.json")
    length = ("--max-len-b", "9", "--tokenizer-newline", "/")
    model = ("--path", out / "checkpoint.pt", "--cpu")

    spoken = run(
        *("fairseq-interactive", out, *PET, *task, *model, *words, *length, "--beam", "1"),
        text_in="ab/ a\nc\n",
    )
    (_, _, first), (_, _, second) = spoken.printed("H")
    start = [END, *(PIECES.index(piece) for piece in "ab Ċ Ġa".split())]
    assert first == greedy(weights, start, 10)
    assert second == greedy(weights, [END, PIECES.index("c")], 10)

    lines = ["ab c d", "e Ġa b <|start|> f", "d"]
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in lines))
    prefixes = [f"--{split}pref={tmp_path / 'text'}" for split in ("train", "valid", "test")]
    data = tmp_path / "data"
    dictionary = ("--srcdict", out / "dict.txt")
    run("fairseq-preprocess", "--only-source", *dictionary, *prefixes, f"--destdir={data}")
    measured = run(
        *("fairseq-eval-lm", data, *PET, *model, "--sample-break-mode", "eos"),
        *("--batch-size", "2", "--gen-subset", "test", "--num-workers", "0"),
    )
    found = float(re.search(r"Loss \(base 2\): ([\d.]+)", measured.output)[1])
    assert abs(found - loss(weights, lines)) < 1e-3

    beams = run(
        *("fairseq-interactive", out, *PET, *task, *model, *words, *length),
        *("--beam", "4", "--nbest", "4"),
        text_in="ab/ a\n",
    )
    scores = [float(fields[1]) for fields in beams.printed("H")]
    assert len(scores) == 4 and scores == sorted(scores, reverse=True)


def import_t5(folder):
    """An imported T5 and binary data with its words."""
    transformers = pytest.importorskip("tests.huggingface.transformers_models")
    transformers.t5(folder / "hf", feed_forward_proj="gated-gelu")
    out = folder / "t5"
    log = run("pet-fairseq", "import-hf", folder / "hf", "--out", out)
    assert f"wrote {out}: --arch t5" in log.output
    write_text(folder / "raw", {"train": 40, "valid": 8, "test": 8}, words=19)
    for file in (folder / "raw").iterdir():  # their words are those of the model
        file.write_text(re.sub("[ab](?=[0-9])", "w", file.read_text()))
    dictionaries = [f"--{side}dict={out}/dict.{name}.txt" for side, name in SIDES]
    return out, preprocess(folder / "raw", folder / "data", *dictionaries)


@pytest.mark.slow
def test_a_t5(tmp_path):
    """Imported, fine-tuned, trained further where it stopped, and asked by both beam searches."""
    out, data = import_t5(tmp_path)
    (tmp_path / "questions").write_text("w3 <extra_id_0> w5\nw1\n")
    files = ("--input", tmp_path / "questions", "--output", tmp_path / "answers")
    run("pet-fairseq", "translate", out, *files, "--beam", "1")
    assert len((tmp_path / "answers").read_text().splitlines()) == 2

    options = (out / "model_options").read_text().split()
    words = (data, tmp_path / "tuned", "--finetune-from-model", out / "checkpoint.pt", *options)
    words += ("--criterion", "cross_entropy", "--max-tokens", "40", "--dropout", "0")
    words += ("--attention-dropout", "0", "--activation-dropout", "0")
    first = train(*words, "--max-update", "2")
    second = train(*words, "--max-update", "4")  # of the first epoch, whose batches stay
    assert "loading pretrained model from" in first.output.lower()
    assert "@ 2 updates)" in second.output
    whole = train(data, tmp_path / "whole", *words[2:], "--max-update", "4")
    assert second.values("loss", "valid")[-1] == whole.values("loss", "valid")[-1]

    said = [
        run(
            *("fairseq-generate", data, *PET, "--task", "pet_translation", "--cpu"),
            *("--path", tmp_path / "tuned/checkpoint_last.pt", "--beam", "3", "--max-len-b", "9"),
            *("--decoding", decoding),
        ).printed("H")
        for decoding in ("fast", "fairseq")
    ]
    assert len(said[0]) == 8
    assert [line[::2] for line in said[0]] == [line[::2] for line in said[1]]

    teacher = tmp_path / "tuned/checkpoint_best.pt"
    student = ("--arch", "pet_transformer_tiny", "--criterion", "pet_distillation")
    log = train(data, tmp_path / "s", *student, "--teacher-path", teacher, "--max-epoch", "1")
    assert log.values("kl", "valid")[0] > 0
    plan = run("pet-fairseq", "compress", teacher, "--data", data, "--out", tmp_path / "c", *DRY)
    assert "pet_distillation" in plan.output


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "opt"}, "of type opt, which is not supported; supported are bert"),
        ({"hidden_size": 10}, "other sizes than in config.json: decoder.embed_tokens.weight is"),
    ],
)
def test_what_cannot_be_imported(config, message, tmp_path):
    write_llama(tmp_path / "hf", **config)
    refuses_in_one_line(tmp_path, message)


def test_a_pickle_with_code(tmp_path):
    write_llama(tmp_path / "hf")
    (tmp_path / "hf/model.safetensors").unlink()
    code = pickle.dumps(Malicious(tmp_path / "harm"))
    (tmp_path / "hf/pytorch_model.bin").write_bytes(code)
    refuses_in_one_line(tmp_path, "pytorch_model.bin: refused")
    assert not (tmp_path / "harm").exists()
    pickle.loads(code)  # it is real
    assert (tmp_path / "harm").exists()


def refuses_in_one_line(folder, message):
    """Nothing else is printed, be it by torch or by fairseq."""
    result = run("pet-fairseq", "import-hf", folder / "hf", "--out", folder / "out", check=False)
    (line,) = result.output.splitlines()
    assert result.status == 1 and message in line
    assert not list(folder.glob("*out*"))
