"""From other libraries' files to text and perplexity, as a user types it."""

import math
import pickle
import re

import pytest
import torch

from tests.checkpoints.written import Malicious
from tests.cli.processes import REPO, run
from tests.huggingface.llama import CONFIG, PIECES, logits, write_llama

END = CONFIG["eos_token_id"]
PET = ("--user-dir", REPO / "pet_fairseq")


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


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "t5"}, "of type t5, which is not supported; supported are bert"),
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
