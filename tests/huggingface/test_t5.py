"""T5 from text to text, its long distances, its files, and what is refused of them."""

import json

import pytest
import sentencepiece
import torch
from fairseq.data import Dictionary
from sentencepiece import sentencepiece_model_pb2

from pet_fairseq.decoding.transformer import is_plain
from pet_fairseq.errors import UserError
from pet_fairseq.huggingface.importer import import_model
from pet_fairseq.predict.hub import from_pretrained
from tests.huggingface import transformers_models as theirs
from tests.huggingface import translators
from tests.huggingface.llama import change_json
from tests.huggingface.test_translators import ending_at
from tests.translation import make_batch, make_model, make_task

transformers = theirs.transformers
TOLERANCE = dict(rtol=1e-5, atol=1e-5)
SENTINELS = 100
TEXTS = [
    *("The cat sat on the mat.", "A dog ate <extra_id_0> and <extra_id_11>the hat"),
    *("Rats<extra_id_99>", "", "  The  cat\u00e9\ufb01", "catnip </s> cat <pad>"),
]
KINDS = {
    "1.0": dict(values=10),
    "1.1": dict(untied=True, tie_word_embeddings=False, feed_forward_proj="gated-gelu"),
    "umt5": dict(kind="UMT5"),
}


def t5_with_tokenizer(folder, **config):
    """A T5 and its tokenizer, with the SentencePiece model from which both libraries make one."""
    folder.mkdir(parents=True)
    pieces = t5_pieces(folder / "spiece.model")
    tokenizer = transformers.T5Tokenizer.from_pretrained(folder)
    # files' numbers: the last sentinel follows the pieces, and the first one ends
    assert tokenizer.convert_tokens_to_ids("<extra_id_0>") == len(pieces) + SENTINELS - 1
    model = theirs.t5(folder, vocab_size=len(pieces) + SENTINELS + 3, **config)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    return model, tokenizer


def t5_pieces(file, **options):
    numbers = dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    return translators.sentence_model(file, **numbers, **options)


@pytest.mark.parametrize("made", [True, False])
def test_texts(made, tmp_path):
    """From raw text to the numbers of transformers, by its tokenizer.json or a model's pieces."""
    model, tokenizer = t5_with_tokenizer(tmp_path / "hf")
    if not made:
        tokenizer.save_pretrained(tmp_path / "hf")
        (tmp_path / "hf/spiece.model").unlink(missing_ok=True)
    import_model(tmp_path / "hf", tmp_path / "out")
    ours = from_pretrained(str(tmp_path / "out"))
    names = {"<s>": None} | {word: word for word in ours.src_dict.symbols[1:]}
    for text in TEXTS:
        found = [names[ours.src_dict[i]] for i in ours.encode(text)]
        assert found == tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"]), text
    vectors = ours.models[0].encoder.embed_tokens.weight
    for word, number in tokenizer.get_vocab().items():
        assert torch.equal(vectors[ours.src_dict.index(word)], model.shared.weight[number]), word
    filled = ["<extra_id_0>", *tokenizer.tokenize("the cat"), "<extra_id_1>"]
    tokens = torch.tensor([ours.tgt_dict.index(word) for word in filled])
    assert ours.decode(tokens) == tokenizer.convert_tokens_to_string(filled)


def test_texts_in_bytes(tmp_path):
    """As mT5 has unknown characters, and its sentinels among its pieces, against SentencePiece."""
    (tmp_path / "hf").mkdir()
    file = tmp_path / "hf/spiece.model"
    options = dict(byte_fallback=True, vocab_size=320, user_defined_symbols=["<extra_id_0>"])
    pieces = t5_pieces(file, **options)
    assert len(pieces) > 256
    theirs.t5(tmp_path / "hf", "MT5", vocab_size=len(pieces) + 5)
    (tmp_path / "hf/tokenizer.json").unlink()
    import_model(tmp_path / "hf", tmp_path / "out")
    ours = from_pretrained(str(tmp_path / "out"))
    reader = sentencepiece.SentencePieceProcessor(model_file=str(file))
    assert "<extra_id_1>" not in ours.src_dict.symbols
    for text in ("The cat sat on \u03b1\u03b2", "\U0001f600 x", "A dog\u3000ate", "  The  cat"):
        words = [ours.src_dict[i] for i in ours.encode(text)]
        assert words == [*reader.encode(text, out_type=str), "</s>"], text
        assert ours.decode(ours.encode(text)[:-1]) == reader.decode(reader.encode(text))


def answers(model, words, rows, beam):
    """transformers' answers, without what the decoder starts from."""
    pieces = [*theirs.T5_PIECES, f"madeupword{len(theirs.T5_PIECES):04d}"]
    number = {word: i for i, word in enumerate(pieces)}
    for row in rows:
        found = model.generate(
            torch.tensor([[number[words[i]] for i in row]]),
            num_beams=beam,
            do_sample=False,
            length_penalty=0.0,
            early_stopping=beam > 1,
            min_new_tokens=3,
            max_new_tokens=12,
            bad_words_ids=[[0]],
            logits_processor=[ending_at(12, 1)],
        )[0, 1:]
        yield [pieces[i] for i in found if i != 0]


@pytest.mark.slow
@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_answers(kind, beam, tmp_path):
    """Of both beam searches, for a batch of sentences of several lengths."""
    model = theirs.t5(tmp_path / "hf", **KINDS[kind])
    import_model(tmp_path / "hf", tmp_path / "out")
    ours = from_pretrained(str(tmp_path / "out"))
    words = ours.src_dict
    assert is_plain(ours.models[0])
    rows = [[*torch.randint(4, len(words) - 1, (n,)).tolist(), words.eos()] for n in (7, 1, 12, 4)]
    expected = list(answers(model, words, rows, beam))
    search = dict(beam=beam, lenpen=0.0, max_len_a=0, max_len_b=11, min_len=3)
    for decoding in ("fast", "fairseq"):
        ours.task.cfg.decoding = decoding
        found = ours.generate([torch.tensor(row) for row in rows], **search)
        found = [[words[i] for i in best["tokens"]] for best, *_ in found]
        assert found == expected, decoding
    assert len(set(map(tuple, expected))) > 1


def test_both_searches_have_the_same_scores(tmp_path):
    theirs.t5(tmp_path / "hf", kind="UMT5")
    import_model(tmp_path / "hf", tmp_path / "out")
    ours = from_pretrained(str(tmp_path / "out"))
    sources = [torch.randint(4, len(ours.src_dict) - 1, (n,)) for n in (3, 9, 5)]
    scores = []
    for decoding in ("fast", "fairseq"):
        ours.task.cfg.decoding = decoding
        found = ours.generate(sources, beam=3, max_len_a=0, max_len_b=9)
        scores.append(torch.stack([hypo["score"] for best in found for hypo in best]))
    torch.testing.assert_close(*scores, **TOLERANCE)


@pytest.mark.parametrize("kind", ["T5", "UMT5"])
def test_long_texts(kind, tmp_path):
    """Distances of every bucket and beyond the largest, in both stacks."""
    usual = dict(relative_attention_num_buckets=32, relative_attention_max_distance=128)
    model = theirs.t5(tmp_path / "hf", kind, **usual)
    ours, task = theirs.load(tmp_path)
    words, pieces = task.source_dictionary, theirs.T5_PIECES
    number = torch.tensor([pieces.index(w) if w in pieces else -1 for w in words.symbols])
    source = torch.randint(4, len(words) - 1, (2, 300))
    source[1, 260:] = words.pad()
    target = torch.randint(4, len(words) - 1, (2, 200))
    target[:, 0] = words.eos()
    given = number[target].masked_fill(target.eq(words.eos()), 0)
    mask = source.ne(words.pad()).long()
    with torch.no_grad():
        logits, _ = ours(source, None, target)
        expected = model(input_ids=number[source], attention_mask=mask, decoder_input_ids=given)
    own = number >= 0
    torch.testing.assert_close(logits[..., own], expected.logits[..., number[own]], **TOLERANCE)


# --- files ----------------------------------------------------------------------------------------


def options_of(tmp_path):
    return (tmp_path / "out/model_options").read_text()


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_half_precision(half, tmp_path, capsys):
    """Its numbers are widened, exactly."""
    model = theirs.t5(tmp_path / "hf")
    model.to(half).save_pretrained(tmp_path / "hf")
    line = import_model(tmp_path / "hf", tmp_path / "out")
    assert f"{str(half)[6:]} made float32" in line
    state = torch.load(tmp_path / "out/checkpoint.pt", weights_only=True)["model"]
    norm = state["decoder.layer_norm.weight"]
    assert norm.dtype == torch.float32
    assert torch.equal(norm, model.decoder.final_layer_norm.weight.float())


@pytest.mark.parametrize(
    ("kind", "options", "scaled"),
    [
        ("T5", {}, True),
        ("T5", {"tie_word_embeddings": True}, True),
        ("T5", {"tie_word_embeddings": False}, False),
        ("T5", {"tie_word_embeddings": True, "scale_decoder_outputs": False}, False),
        ("MT5", {"tie_word_embeddings": True}, False),
        ("UMT5", {"tie_word_embeddings": False}, False),
    ],
)
def test_scaled_outputs(kind, options, scaled, tmp_path):
    """As transformers reads the same config.json."""
    theirs.t5(tmp_path / "hf", kind)
    config = json.loads((tmp_path / "hf/config.json").read_text())
    for name in ("tie_word_embeddings", "scale_decoder_outputs"):
        config.pop(name, None)
    (tmp_path / "hf/config.json").write_text(json.dumps(config | options))
    read = getattr(transformers, f"{kind}Config").from_pretrained(tmp_path / "hf")
    assert getattr(read, "scale_decoder_outputs", False) == scaled
    import_model(tmp_path / "hf", tmp_path / "out")
    assert ("--scale-output" in options_of(tmp_path)) == scaled


def test_stacks_of_unequal_depth(tmp_path):
    theirs.t5(tmp_path / "hf")
    import_model(tmp_path / "hf", tmp_path / "out")
    assert "--encoder-layers 3" in options_of(tmp_path)
    assert "--decoder-layers 2" in options_of(tmp_path)


def test_an_output_layer_that_repeats_the_embeddings(tmp_path):
    """As older files have it; so is the matrix in each stack, and a bias that nobody reads."""
    from safetensors.torch import load_file, save_file

    theirs.t5(tmp_path / "hf")
    file = tmp_path / "hf/model.safetensors"
    tensors = load_file(file)
    for name in ("lm_head", "encoder.embed_tokens", "decoder.embed_tokens"):
        tensors[f"{name}.weight"] = tensors["shared.weight"].clone()
    name = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    tensors[name] = torch.randn(8, 4)
    save_file(tensors, file)
    import_model(tmp_path / "hf", tmp_path / "out")
    assert "--share-all-embeddings" in options_of(tmp_path)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("head", ["SequenceClassification", "TokenClassification"])
def test_other_heads(head, tmp_path, refused):
    theirs.t5(tmp_path / "hf")
    change_json(tmp_path / "hf/config.json", architectures=[f"T5For{head}"])
    refused(tmp_path / "hf", f"T5For{head}, whose head is not supported", "ConditionalGeneration")


def test_an_encoder(tmp_path, refused):
    model = theirs.t5(tmp_path / "hf")
    encoder = transformers.T5EncoderModel(model.config)
    encoder.save_pretrained(tmp_path / "hf")
    refused(tmp_path / "hf", "an encoder without a decoder", "T5ForConditionalGeneration")


def test_options(tmp_path, refused):
    theirs.t5(tmp_path / "hf")
    config = (tmp_path / "hf/config.json").read_text()
    for options, text in (
        ({"feed_forward_proj": "gated-silu"}, "feed_forward_proj is 'gated-silu'; known are relu"),
        ({"relative_attention_max_distance": 2}, "config.json: --relative-buckets 8 and"),
        ({"relative_attention_num_buckets": 6}, "relative.weight is (8, 4), not (6, 4)"),
        ({"decoder_start_token_id": 1}, "decoder_start_token_id is 1, which is not supported"),
        ({"eos_token_id": [1, 2]}, "eos_token_id is [1, 2], no whole number from 0"),
        ({"eos_token_id": 400}, "eos_token_id is 400, but the model has 26 words"),
        ({"num_heads": 3}, "other sizes than in config.json"),
    ):
        change_json(tmp_path / "hf/config.json", **options)
        refused(tmp_path / "hf", text)
        (tmp_path / "hf/config.json").write_text(config)
    text = "a model of type t5 has no languages to choose from"
    refused(tmp_path / "hf", text, options=("--source-lang", "en"))


def test_tokenizers(tmp_path, refused):
    t5_with_tokenizer(tmp_path / "hf")
    model = tmp_path / "hf/spiece.model"
    pieces = model.read_bytes()
    model.write_bytes(b"no model")
    refused(tmp_path / "hf", "spiece.model: not a SentencePiece model; download it again")
    translators.sentence_model(model, model_type="bpe")
    refused(tmp_path / "hf", "of another type than unigram")
    broken = sentencepiece_model_pb2.ModelProto.FromString(pieces)
    broken.trainer_spec.unk_id = 10**6
    model.write_bytes(broken.SerializeToString())
    refused(tmp_path / "hf", "spiece.model: not usable (", "; download it again")
    model.write_bytes(pieces)
    (tmp_path / "hf/tokenizer_config.json").write_text('{"extra_ids": 2000}')
    refused(tmp_path / "hf", "pieces, but the embedding matrix has")
    model.unlink()
    refused(tmp_path / "hf", "spiece.model: no such file, nor tokenizer.json")


# --- options of fairseq-train ---------------------------------------------------------------------

SHARED_LAYERS = {"checkpoint_activations": True, "distributed_world_size": 2}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"decoder_embed_dim": 8}, "--decoder-embed-dim 8: .* give 16, the --encoder-embed-dim"),
        ({"adaptive_softmax_cutoff": "6"}, "--adaptive-softmax-cutoff: --arch t5 has no such"),
        ({"relative_buckets": 2}, "--relative-buckets 2 and --relative-max-distance 128: "),
        ({**SHARED_LAYERS, "ddp_backend": "pytorch_ddp"}, "--checkpoint-activations: with"),
    ],
)
def test_options_without_a_model(options, text, tmp_path):
    with pytest.raises(UserError, match=text):
        make_model(make_task(tmp_path / "data"), "t5", **{"encoder_embed_dim": 16, **options})


def test_two_vocabularies(tmp_path):
    task = make_task(tmp_path / "data")
    task.tgt_dict = Dictionary()
    with pytest.raises(UserError, match=r"--arch t5: has one vocabulary .* --joined-dictionary"):
        make_model(task, "t5")


def test_layers_with_a_bias_each_may_be_checkpointed(tmp_path):
    options = {**SHARED_LAYERS, "ddp_backend": "pytorch_ddp", "relative_bias_per_layer": True}
    make_model(make_task(tmp_path / "data"), "t5", encoder_embed_dim=16, **options)


def test_gradients_reach_everything(tmp_path):
    """But not the vectors of padding, as in fairseq's embeddings."""
    task = make_task(tmp_path / "data")
    model, _ = make_model(task, "t5", encoder_embed_dim=16, share_all_embeddings=True)
    output, _ = model(**make_batch(task, [3, 7, 2])["net_input"])
    output.square().sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in model.parameters())
