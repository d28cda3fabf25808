"""Models in GGUF: tensors, positions and tokenizers."""

import io
import math
import random
import struct
from argparse import Namespace

import pytest
import sentencepiece
import torch

from pet_fairseq.checkpoints.loading import load_model
from pet_fairseq.huggingface.bpe import TokenizerJson
from pet_fairseq.huggingface.gguf_file import read_gguf
from pet_fairseq.huggingface.importer import import_model
from tests.huggingface.gguf_files import OWN_TOKENIZER, gguf, write_gguf
from tests.huggingface.llama import CONFIG, PIECES, write_llama


def load(folder):
    return load_model(str(folder / "checkpoint.pt"), "FILE")


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_gguf(kind, tmp_path):
    weights = write_llama(tmp_path / "hf", model_type=kind)
    import_model(tmp_path / "hf", tmp_path / "out")
    write_gguf(tmp_path / "model.gguf", weights, kind=kind)
    import_model(tmp_path / "model.gguf", tmp_path / "from_gguf")
    for name in ("dict.txt", "task_options"):
        assert (tmp_path / "out" / name).read_text() == (tmp_path / "from_gguf" / name).read_text()
    ours, other = (load(tmp_path / name)[0].state_dict() for name in ("out", "from_gguf"))
    assert ours.keys() == other.keys()
    for name, tensor in ours.items():
        assert torch.equal(other[name], tensor), name
    one, two = (
        TokenizerJson(
            Namespace(tokenizer_file=str(tmp_path / name / "tokenizer.json"), tokenizer_newline="")
        )
        for name in ("out", "from_gguf")
    )
    text = "ab ab\n  c<|end|> a"
    assert one.encode(text) == two.encode(text) and two.decode(two.encode(text)) == text


def test_one_head_of_keys_and_values(tmp_path, monkeypatch):
    """GGUF reorders the rows of a single head, too."""
    monkeypatch.setitem(CONFIG, "num_key_value_heads", 1)
    write_gguf(tmp_path / "model.gguf", write_llama(tmp_path / "hf"))
    import_model(tmp_path / "hf", tmp_path / "out")
    import_model(tmp_path / "model.gguf", tmp_path / "from_gguf")
    ours, other = (load(tmp_path / name)[0].state_dict() for name in ("out", "from_gguf"))
    for name, tensor in ours.items():
        assert torch.equal(other[name], tensor), name


def test_stretched_positions(tmp_path):
    """A tensor with a divisor for each frequency stands for Llama 3's rope_scaling."""
    kept, stretched, old = 4.0, 0.5, 32  # waves in the old context
    scaling = dict(rope_type="llama3", factor=8.0, original_max_position_embeddings=old)
    scaling |= dict(low_freq_factor=stretched, high_freq_factor=kept)
    weights = write_llama(tmp_path / "hf", rope_scaling=scaling)
    import_model(tmp_path / "hf", tmp_path / "out")
    divisors = []  # as llama.cpp's converter computes them
    for i in range(CONFIG["head_dim"] // 2):
        wave = 2 * math.pi * CONFIG["rope_theta"] ** (2 * i / CONFIG["head_dim"])
        share = (old / wave - stretched) / (kept - stretched)
        share = 1 if wave < old / kept else 0 if wave > old / stretched else share
        divisors.append(1 / ((1 - share) / scaling["factor"] + share))
    assert divisors[0] == 1 and 1 < divisors[1] < scaling["factor"]
    write_gguf(tmp_path / "model.gguf", weights | {"rope_freqs.weight": torch.tensor(divisors)})
    import_model(tmp_path / "model.gguf", tmp_path / "from_gguf")
    tokens = torch.randint(4, 12, (2, 9))
    with torch.no_grad():
        ours, expected = (load(tmp_path / name)[0](tokens)[0] for name in ("from_gguf", "out"))
    assert torch.allclose(ours, expected, atol=1e-5)


def test_a_factor_without_a_type_stretches_linearly(tmp_path):
    """As llama.cpp reads it."""
    weights = write_llama(tmp_path / "hf", rope_scaling=dict(rope_type="linear", factor=4.0))
    import_model(tmp_path / "hf", tmp_path / "out")
    write_gguf(
        tmp_path / "model.gguf", weights, fields=OWN_TOKENIZER | {"rope_scaling_factor": 4.0}
    )
    import_model(tmp_path / "model.gguf", tmp_path / "from_gguf")
    ours, other = (load(tmp_path / name)[0] for name in ("out", "from_gguf"))
    assert torch.equal(other.decoder.rotary.frequencies, ours.decoder.rotary.frequencies)


def sentence_piece_model():
    """A small model of SentencePiece's BPE with a piece for each byte."""
    words = ["".join(random.choices("abcdeé", k=random.randint(1, 6))) for _ in range(300)]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([" ".join(random.choices(words, k=8)) for _ in range(400)]),
        model_writer=model,
        model_type="bpe",
        vocab_size=380,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        user_defined_symbols=["<think>"],
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def test_sentence_pieces(tmp_path):
    reference = sentence_piece_model()
    numbers = range(reference.vocab_size())
    kinds = [("is_unknown", 2), ("is_control", 3), ("is_byte", 6)]
    types = [
        next((kind for name, kind in kinds if getattr(reference, name)(i)), 1) for i in numbers
    ]
    types[reference.piece_to_id("<think>")] = 4
    fields = {
        "tokenizer_model": "llama",
        "tokenizer_pre": "default",
        "token_list": [reference.id_to_piece(i) for i in numbers],
        "token_scores": [reference.get_score(i) for i in numbers],
        "token_types": types,
    }
    write_gguf(tmp_path / "model.gguf", {}, fields=fields)
    tokenizer = read_gguf(tmp_path / "model.gguf").tokenizer.tokenizer
    for text in ("abc dé  cab\n ü bee", "a", " e d", "Ж\tbaddeed ", "aé" * 20):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert ids == reference.encode(text), text
        assert tokenizer.decode(ids) == text
    assert max(len(fields["token_list"][i]) for i in ids) > 2  # bytes alone prove nothing
    for piece in ("<think>", "</s>"):  # stay whole
        assert tokenizer.encode(f"ab{piece}").ids[-1] == reference.piece_to_id(piece)


def test_whole_words_of_llama_3(tmp_path):
    """A word that is a piece is one, also if no merges lead to it."""
    fields = OWN_TOKENIZER | {"token_list": [*PIECES[:-1], "cab"], "token_types": [1] * len(PIECES)}
    for split, words in (("llama-bpe", [11]), ("qwen2", [2, 8])):
        write_gguf(tmp_path / "model.gguf", {}, fields=fields | {"tokenizer_pre": split})
        tokenizer = read_gguf(tmp_path / "model.gguf").tokenizer.tokenizer
        assert tokenizer.encode("cab").ids == words


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content[: len(content) // 3], "not a readable GGUF file"),
        (lambda content: b"GGML" + content[4:], "model.gguf: no GGUF file; give one, or a folder"),
        (lambda content: b"", "model.gguf: no GGUF file; give one, or a folder"),
        (lambda content: content.replace(b"blk.1.attn_q.w", b"blk.1.attn_z.w"), "a tensor blk.1"),
        (lambda content: content.replace(b"blk.1.attn_q.w", b"blk_1_attn_q_w"), "a tensor blk_1"),
        (lambda content: content.replace(b"blk.1.attn_q.w", b"blk.1_attn_q.w"), "a tensor blk.1_"),
        (
            lambda content: content.replace(b"output_norm.weight", b"output_norm_weight"),
            "a tensor o",
        ),
        (lambda content: content.replace(b"llama", b"gemma"), "type gemma, which is not"),
    ],
)
def test_a_damaged_gguf(change, message, tmp_path, refused):
    write_gguf(tmp_path / "model.gguf", write_llama(tmp_path / "hf"))
    content = (tmp_path / "model.gguf").read_bytes()
    (tmp_path / "model.gguf").write_bytes(change(content))
    refused(tmp_path / "model.gguf", "model.gguf: ", message)


def test_a_gguf_of_a_qwen3_without_the_norms_of_its_heads(tmp_path, refused):
    write_gguf(tmp_path / "model.gguf", write_llama(tmp_path / "hf"), kind="qwen3")
    refused(tmp_path / "model.gguf", "has no tensor for decoder.layers.0.self_attn.q_norm.weight")


def test_a_tied_gguf(tmp_path):
    """A file without a head is of a model that has none but its embeddings."""
    weights = write_llama(tmp_path / "hf")
    del weights["lm_head.weight"]
    write_gguf(tmp_path / "model.gguf", weights)
    said = import_model(tmp_path / "model.gguf", tmp_path / "out")
    assert "--share-decoder-input-output-embed" in said


def test_a_tokenizer_of_unknown_splits(tmp_path, refused):
    fields = {name: value for name, value in OWN_TOKENIZER.items() if name != "tokenizer_pre"}
    write_gguf(tmp_path / "model.gguf", write_llama(tmp_path / "hf"), fields=fields)
    refused(tmp_path / "model.gguf", "of the kind gpt2, of unknown splits; put the model's token")


def test_a_folder_of_two(tmp_path, refused):
    (tmp_path / "both").mkdir()
    for name in "ab":
        (tmp_path / "both" / f"{name}.gguf").touch()
    refused(tmp_path / "both", "both: has 2 GGUF files; give one, such as ", "a.gguf")


def test_an_unknown_quantisation(tmp_path, refused):
    write_gguf(tmp_path / "model.gguf", write_llama(tmp_path / "hf"), quantised="output.weight")
    refused(tmp_path / "model.gguf", "output.weight is quantised as Q8_K, which is not supported")


def test_a_quantisation_without_a_name(tmp_path, refused):
    """A number that the library gguf does not know."""
    write_gguf(tmp_path / "model.gguf", write_llama(tmp_path / "hf"), quantised="output.weight")
    content = (tmp_path / "model.gguf").read_bytes()
    at = content.index(b"output.weight") + len(b"output.weight") + 4 + 2 * 8  # two dimensions
    known = struct.pack("<I", gguf.GGMLQuantizationType.Q8_K)
    assert content[at : at + 4] == known
    content = content[:at] + struct.pack("<I", 999) + content[at + 4 :]
    (tmp_path / "model.gguf").write_bytes(content)
    refused(tmp_path / "model.gguf", "not a readable GGUF file (999 is not", "a newer gguf")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tokenizer_pre": "tekken"}, "of the kind gpt2, tekken; put the model's tokenizer.json"),
        ({"tokenizer_model": "rwkv"}, "of the kind rwkv, gpt-2; put the model's tokenizer.json"),
        ({"rope_dimension_count": 2}, "llama.rope.dimension_count is 2, which is not supported"),
        ({"rope_scaling_type": gguf.RopeScalingType.YARN}, "rope.scaling.type is yarn; known are"),
        (
            {"rope_scaling_type": gguf.RopeScalingType.LINEAR, "rope_scaling_factor": 2.0},
            "has both rope_freqs.weight and rope.scaling.type",
        ),
    ],
)
def test_fields_that_do_not_fit(fields, message, tmp_path, refused):
    weights = write_llama(tmp_path / "hf") | {"rope_freqs.weight": torch.ones(2)}
    write_gguf(tmp_path / "model.gguf", weights, fields=OWN_TOKENIZER | fields)
    refused(tmp_path / "model.gguf", message)
