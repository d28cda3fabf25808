"""BERT as fairseq's `roberta`."""

import random

import pytest
import torch
from safetensors.torch import load_file, save_file

from pet_fairseq.checkpoints.loading import load_model
from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.importer import import_model
from tests.huggingface.bert import PIECES, features, write_bert

FAIRSEQ = {"<s>": "[CLS]", "<pad>": "[PAD]", "</s>": "[SEP]", "<unk>": "[UNK]", "<mask>": "[MASK]"}


def numbers_in_bert(dictionary):
    """For every word of fairseq's dictionary its number in BERT."""
    return [PIECES.index(FAIRSEQ.get(word, word)) for word in dictionary.symbols]


@pytest.mark.parametrize("head", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_computes_what_bert_computes(head, seed, tmp_path):
    weights = write_bert(tmp_path / "bert", head, seed)
    said = import_model(tmp_path / "bert", tmp_path / "out")
    assert ("without the head" in said) == (not head)
    model, task = load_model(str(tmp_path / "out/checkpoint.pt"), "FILE")
    model.double()
    words = task.source_dictionary
    number = numbers_in_bert(words)
    assert sorted(number) == list(range(len(PIECES))) and words.symbols[-1] == "<mask>"
    draw = random.Random(seed)
    sentences = [
        [words.bos(), *draw.choices(range(4, len(words)), k=n), words.eos()] for n in (14, 3, 0)
    ]
    sentences[1] += [*draw.choices(range(4, len(words)), k=6), words.eos()]  # a pair
    batch = torch.full((3, 16), words.pad())
    for row, ids in zip(batch, sentences):
        row[: len(ids)] = torch.tensor(ids)
    with torch.no_grad():
        found, _ = model(batch, features_only=not head)
    for row, ids in zip(found, sentences):
        first = ids.index(words.eos()) + 1
        types = [0] * first + [1] * (len(ids) - first)
        expected = features(weights, [number[i] for i in ids], types)
        expected = expected[:, number] if head else expected
        assert torch.allclose(row[: len(ids)], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("piece", ["<s>", "</s>", "<mask>"])
def test_a_piece_of_the_name_of_one_of_fairseqs_words(piece, tmp_path):
    weights = write_bert(tmp_path / "bert", pieces=[*PIECES[:-1], piece])
    import_model(tmp_path / "bert", tmp_path / "out")
    model, task = load_model(str(tmp_path / "out/checkpoint.pt"), "FILE")
    words = task.source_dictionary
    vectors = model.encoder.sentence_encoder.embed_tokens.weight
    theirs = weights["embeddings.word_embeddings.weight"]
    for word, special in FAIRSEQ.items():
        assert torch.equal(vectors[words.index(word)], theirs[PIECES.index(special)])
    assert torch.equal(vectors[words.index("madeupword0014")], theirs[-1])


def change_weights(folder, change):
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model_type": "opt"}, "type opt, which is not supported; supported are bert, distilbert"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'"),
        ({"hidden_act": "silu"}, "hidden_act is 'silu'"),
        ({"num_hidden_layers": 3}, "has no encoder.layer.2.attention.self.query.weight"),
        ({"intermediate_size": 24}, "other sizes than in config.json"),
        ({"num_attention_heads": 5}, "hidden_size is 12, no multiple of num_attention_heads, 5"),
        ({"pieces": PIECES[:3] + PIECES[4:]}, "has no [CLS]"),
    ],
)
def test_another_model_is_refused(options, message, tmp_path):
    write_bert(tmp_path / "bert", **options)
    with pytest.raises(UserError) as error:
        import_model(tmp_path / "bert", tmp_path / "out")
    assert message in str(error.value) and "\n" not in str(error.value)
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_files_that_are_missing_or_damaged(name, tmp_path):
    folder = tmp_path / "bert"
    write_bert(folder)
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=f"{name}: not readable"):
        import_model(folder, tmp_path / "out")
    (folder / name).unlink()
    with pytest.raises(UserError, match=f"{name}: no such file"):
        import_model(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_old_files_are_not_overwritten(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError, match="is there already"):
        import_model(tmp_path, tmp_path / "out")


def test_half_precision_is_read_too(tmp_path):
    write_bert(tmp_path / "bert")

    def halve(weights):
        for name, tensor in weights.items():
            weights[name] = tensor.half()

    change_weights(tmp_path / "bert", halve)
    import_model(tmp_path / "bert", tmp_path / "out")
    model, _ = load_model(str(tmp_path / "out/checkpoint.pt"), "FILE")
    assert {p.dtype for p in model.parameters()} == {torch.float32}
